"""Fine-tuning measured: bert_tf, Hugging Face transformers on PyTorch, and TF-IDF of n-grams.

    python benchmarks/finetune.py --rows cola mrpc --hf_python PYTHON

Each row is a task and a way to do it. Ours is one `bert_tf.finetune` command, the peer one
`benchmarks/peers/hf_finetune.py` by an interpreter that has torch and transformers, both in a
process of their own, alternating, from the same weights, on the same examples, with the same
settings; their answers are measured by the same code. Every learning rate of the row (and every
number of epochs) is tried with the first seed, the best of each side with all seeds; of each
training the best epoch counts. `seconds` are of training and evaluation without start-up, `wall`
is the whole process (ours also exports a SavedModel).

With --folder finished trainings are kept, under a mark of their start and of --shared, so that the
same command goes on with the next one.
"""

import collections
import dataclasses
import importlib.metadata
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

import minilm
from finetune_outcomes import labels_of, measure, offsets, ratio, said, summary, table
from finetune_rows import (
    ROWS,
    RUN_SIDES,
    SIDES,
    answerable_questions,
    chosen_rows,
    first_examples,
)
from peers import ngrams
from speed.report import RESULTS, benchmark_parser

from bert_tf.finetune.results import spread
from bert_tf.models.find import model_digest
from bert_tf.storage import files, manifest
from bert_tf.tasks.base.split import split_examples
from bert_tf.tasks.registry import find_task, read_task

HERE = os.path.dirname(os.path.abspath(__file__))
# A third of the peer's time is what CoLA is held to.
MOST_TIME = {"cola/minilm": 1 / 3}


class Bench:
    """Examples, trainings and results in one folder.

    Args:
        arguments: the flags.
        folder: where all is kept.
    """

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.known = {}
        self.data = self.path("data", self.mark())

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def file(self, row, name):
        """A file of examples, or of those that the row and --limit leave of them."""
        path = os.path.join(self.arguments.shared, "data", name)
        limit = self.arguments.limit
        if row.answerable:
            chosen = os.path.join(self.data, f"answerable_{os.path.basename(name)}")
            if not files.exists(chosen):
                files.make_folder(self.data)
                answerable_questions(path, chosen)
            path = chosen
        if limit is None:
            return path
        short = os.path.join(self.data, f"{limit}_{os.path.basename(path).removesuffix('.gz')}")
        if not files.exists(short):
            files.make_folder(self.data)
            first_examples(path, limit, short)
        return short

    def examples(self, row, seed):
        """`(train, dev)`, as `bert_tf.finetune` has them with that seed."""
        key = row.task, row.train, row.dev, seed if isinstance(row.dev, float) else None
        if key not in self.known:
            examples = read_task(row.task, self.file(row, row.train))
            self.known[key] = (
                split_examples(examples, row.dev, seed, find_task(row.task).dev_last)
                if isinstance(row.dev, float)
                else (examples, read_task(row.task, self.file(row, row.dev))))
        return self.known[key]

    def start(self, row):
        """Folder of the pretrained model."""
        if row.start == "korean":
            if not self.arguments.korean:
                sys.exit("this row needs --korean PATH")
            return self.arguments.korean
        return minilm.weights()

    def mark(self, row=None):
        """What is part of the paths of all that is made of the data, and of a row's start."""
        return manifest.fingerprint([os.path.abspath(self.arguments.shared),
                                     row and model_digest(self.start(row))])[:8]

    def ours(self, row, folder, rate, epochs, seed):
        """One `bert_tf.finetune`; the record of its training."""
        start = self.start(row)
        dev = str(row.dev) if isinstance(row.dev, float) else self.file(row, row.dev)
        command = [
            sys.executable, "-m", "bert_tf.finetune", "--task", row.task,
            "--train", self.file(row, row.train), "--dev", dev,
            "--output_dir", os.path.join(folder, "run"),
            "--export_dir", os.path.join(folder, "saved_model"),
            *(("--init", "scratch", "--config", start) if row.scratch else ("--init", start)),
            "--epochs", str(epochs), "--learning_rate", str(rate), "--seed", str(seed),
            "--batch_size", str(row.batch_size), "--seq_length", str(row.seq_length),
            "--dtype", row.dtype, *row.flags]
        wall = _run(command, folder)
        results = files.read_json(os.path.join(folder, "run", "results.json"))
        record = results["seeds"][0]
        told = _read_lines(os.path.join(folder, "run", "predictions.jsonl"))
        found = {"metrics": record["metrics"], "epoch": record["epoch"],
                 "seconds": record["seconds"], "wall": wall, "command": results["command"],
                 **offsets(told, self.examples(row, seed)[1])}
        for name in ("run", "saved_model"):  # hundreds of megabytes
            files.remove(os.path.join(folder, name))
        return found

    def peer(self, row, folder, rate, epochs, seed):
        """One training by transformers; its best epoch as measured by bert_tf."""
        train, dev = self.examples(row, seed)
        for name, examples in (("train", train), ("dev", dev)):
            files.write_text(os.path.join(folder, f"{name}.jsonl"), "".join(
                json.dumps(dataclasses.asdict(example), ensure_ascii=False) + "\n"
                for example in examples))
        labels = labels_of(row, train)
        command = [
            self.arguments.hf_python, os.path.join(HERE, "peers", "hf_finetune.py"),
            "--kind", find_task(row.task).type, "--init", self.hf_start(row),
            *(["--scratch"] if row.scratch else []), *(["--labels", *labels] if labels else []),
            "--train", os.path.join(folder, "train.jsonl"),
            "--dev", os.path.join(folder, "dev.jsonl"), "--output_dir", folder,
            "--epochs", str(epochs), "--learning_rate", str(rate), "--seed", str(seed),
            "--batch_size", str(row.batch_size), "--seq_length", str(row.seq_length),
            "--dtype", row.dtype]
        wall = _run(command, folder)
        metrics = [measure(row, dev, _read_lines(os.path.join(folder, f"predictions_{n}.jsonl")),
                           labels) for n in range(1, epochs + 1)]
        monitor, better = find_task(row.task).monitor
        best = {"max": max, "min": min}[better](metrics, key=lambda each: each[monitor])
        outcome = files.read_json(os.path.join(folder, "outcome.json"))
        return {"metrics": best, "epoch": metrics.index(best) + 1, "wall": wall, **outcome}

    def hf_start(self, row):
        """The pretrained model as transformers reads it."""
        start = self.start(row)
        if row.start != "korean":
            return start
        converted = self.path("korean_hf", self.mark(row))
        if not files.exists(converted):
            _run([sys.executable, "-m", "bert_tf.convert", "--from", "bert_tf", start, "--to",
                  "hf", converted], self.path("convert"))
        return converted

    def ngrams(self, row, seed):
        """TF-IDF of n-grams on the same examples."""
        train, dev = self.examples(row, seed)
        told, seconds = ngrams.predict(train, dev, **row.ngrams)
        labels = labels_of(row, train)
        predictions = [{"id": example.id, "label": label}
                       for example, label in zip(dev, told, strict=True)]
        return {"metrics": measure(row, dev, predictions, labels), "seconds": seconds}

    def trained(self, name, side, rate, epochs, seed):
        """The outcome of one training, made unless it is there already."""
        limit = f"_limit_{self.arguments.limit}" if self.arguments.limit else ""
        folder = self.path(name, side, self.mark(ROWS[name]),
                           f"learning_rate_{rate:g}_epochs_{epochs}_seed_{seed}{limit}")
        record = os.path.join(folder, "measured.json")
        if not files.exists(record):
            files.remove(folder)  # of a stopped training the time of the rest alone would count
            files.write_json(record, {"learning_rate": rate, "epochs": epochs, "seed": seed,
                                      **getattr(self, side)(ROWS[name], files.make_folder(folder),
                                                            rate, epochs, seed)})
            found = files.read_json(record)
            print(f"{name:22}{side:6} learning rate {rate:g}, seed {seed}: epoch "
                  f"{found['epoch']} of {epochs}, {said(name, found['metrics'])}, "
                  f"{found['seconds']:.0f} s, wall {found['wall']:.0f} s", flush=True)
        return files.read_json(record)

    def row(self, name):
        """All trainings of a row: `{side: {"runs", "search", "mean", "deviation", …}}`."""
        row, arguments = ROWS[name], self.arguments
        sides = [side for side in arguments.sides if side in RUN_SIDES
                 and (side != "peer" or (row.peer and arguments.hf_python))]
        grid = list(itertools.product(arguments.learning_rates or row.learning_rates,
                                      arguments.epochs or [row.epochs]))
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        search, runs = collections.defaultdict(list), collections.defaultdict(list)
        for settings in grid:
            for side in sides:
                search[side].append(self.trained(name, side, *settings, seeds[0]))
        monitor, better = find_task(row.task).monitor
        best = {side: {"max": max, "min": min}[better](
            search[side], key=lambda each: each["metrics"][monitor]) for side in sides}
        for seed in seeds:
            for side in sides:
                runs[side].append(self.trained(name, side, best[side]["learning_rate"],
                                               best[side]["epochs"], seed))
        if row.ngrams and "ngrams" in arguments.sides:
            # Nothing is drawn: another seed matters only where the examples are split by it.
            runs["ngrams"] = [self.ngrams(row, seed)
                              for seed in (seeds if isinstance(row.dev, float) else seeds[:1])]
            print(f"{name:22}n-grams: "
                  f"{said(name, spread(runs['ngrams'])[0])}", flush=True)
        return {side: summary(runs[side], search[side]) for side in runs}


def _read_lines(path):
    return [json.loads(line) for line in files.read_lines(path) if line]


def _run(command, folder):
    """Run a command, what it prints into `folder`/log.txt; its seconds."""
    log = os.path.join(files.make_folder(folder), "log.txt")
    started = time.perf_counter()
    with open(log, "w", encoding="utf-8") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, env={
            **os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"})
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n"
                 + "\n".join(list(files.read_lines(log))[-20:]))
    return time.perf_counter() - started


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--rows", nargs="+", required=True, metavar="ROW",
        help=f"of {', '.join(ROWS)}; a task stands for all its rows")
    add("--shared", default="../shared", help="folder with the data (default: ../shared)")
    add("--korean", metavar="PATH", help="run or model folder of a Korean encoder, for its rows")
    add("--hf_python", metavar="PYTHON",
        help="interpreter with torch and transformers; without it the peer is left out")
    add("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    add("--seeds", type=int, default=3, metavar="N", help="default: 3")
    add("--seed", type=int, default=1, help="the first of them; also splits what has no dev file")
    add("--learning_rates", type=float, nargs="+", help="default: the row's own grid")
    add("--epochs", type=int, nargs="+", help="default: the row's own; several are searched")
    add("--limit", type=int, metavar="N", help="so many examples only, for a trial")
    add("--folder", help="where trainings are kept (default: a temporary folder)")
    arguments = parser.parse_args()
    names = chosen_rows(arguments.rows)
    if "peer" in arguments.sides and not arguments.hf_python:
        print("no --hf_python: without the peer")
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(arguments, os.path.abspath(arguments.folder or temporary))
        for name in names:
            results[name] = bench.row(name)
            files.write_json(
                arguments.output or os.path.join(RESULTS, "finetune.json"),
                {"flags": vars(arguments), "versions": {
                    package: importlib.metadata.version(package) for package in (
                        "tensorflow", "keras", "tensorflow-text", "scikit-learn")},
                 "cores": os.cpu_count(), "rows": results})
    print(table(results))
    slow = [name for name, most in MOST_TIME.items() if name in results and not arguments.limit
            and (ratio(results[name]) or 0) > most]
    for name in slow:
        print(f"FAILED: {name} takes more than {MOST_TIME[name]:.2f} of the peer's time")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
