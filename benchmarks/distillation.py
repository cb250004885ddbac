"""Distillation: what students keep of their teachers, and how much faster they are.

    python benchmarks/distillation.py --rows layers static
    python benchmarks/distillation.py --rows soft_labels --encoder runs/ko_mini --folder work
    python benchmarks/distillation.py --rows ensemble --encoder runs/ko_mini --folder work

| row | teacher | student | learns from | measured |
|---|---|---|---|---|
| `layers` | all-MiniLM-L6-v2, 6 layers | 3 of them | English sentences | AUC of the cosine on \
MRPC, above one half; texts/s |
| `static` | the same | a table | the same, paragraphs, SQuAD's train articles | MRR@10 of SQuAD's \
dev questions among their paragraphs; texts/s |
| `static_corpus` | the same | a table | the same, and the paragraphs that are searched, their \
sentences | the same |
| `soft_labels` | --encoder, fine-tuned on NSMC | 2 of its layers | 674k reviews without labels | \
accuracy on NSMC, beside that of the same size trained on NSMC alone |
| `ensemble` | the same, and n-grams of characters with logistic regression | --encoder | the mean \
of both on these reviews, then NSMC's labels | accuracy on NSMC |

Each side is a command of this package, so that a stopped run goes on with --folder. AUC and speeds
are of vectors in --dtype (the static student computes nothing that could be), speeds in turns,
medians of --rounds; all else is in float32. No text of NSMC's dev file is among the reviews.
"""

import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import minilm
import numpy as np
from load.processes import environment
from peers import ngrams
from sklearn.metrics import roc_auc_score
from speed.report import Targets, benchmark_parser, finish

from bert_tf.embedder import Embedder
from bert_tf.retrieval.corpus import read_corpus
from bert_tf.storage import files
from bert_tf.tasks.base.query_files import read_queries
from bert_tf.tasks.registry import read_task

PARAGRAPH = 6  # sentences


class Benchmark:
    """What was asked for, the folder of all runs, and where results are kept."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.targets = Targets()
        self.seeds = range(arguments.seed, arguments.seed + arguments.seeds)

    def path(self, *names):
        """A path in the folder."""
        return os.path.join(self.folder, *map(str, names))

    def data(self, *names):
        """A path in the folder of the data."""
        return os.path.join(self.arguments.shared, "data", *names)

    def command(self, module, name, **flags):
        """Run a command into the folder `name`."""
        words = [word for flag, value in flags.items()
                 for word in (f"--{flag}", *(value if isinstance(value, tuple) else (value,)))
                 if word is not True]
        subprocess.run([sys.executable, "-m", f"bert_tf.{module}", "--output_dir",
                        self.path(name), *map(str, words)], check=True, env=environment())

    def run(self, module, name, **flags):
        """Run a command into the folder `name`; return its results."""
        self.command(module, name, **flags)
        return files.read_json(self.path(name, "results.json"))

    def distill(self, name, teacher, texts, seed, **flags):
        """Train a student into the folder `name`; return its results."""
        return self.run("distill", name, teacher=teacher, input=texts, seed=seed,
                        export_dir=self.path("saved", name), dtype=self.arguments.dtype, **flags)

    def minilm(self):
        """The teacher of vectors, a model folder."""
        folder = self.path("minilm")
        if not files.exists(folder):
            minilm.convert(folder)
        return folder

    def english(self):
        """A file of sentences and one of paragraphs, drawn from the corpus and of SQuAD's train
        articles."""
        sentences = list(dict.fromkeys(files.read_lines(self.data("corpus", "en_mixed.txt.gz"))))
        paragraphs = [" ".join(sentences[at:at + PARAGRAPH])
                      for at in range(0, len(sentences), PARAGRAPH)]
        paths = []
        for name, texts, most in (("sentences", sentences, self.arguments.texts),
                                  ("paragraphs", paragraphs, self.arguments.texts // PARAGRAPH)):
            chosen = np.random.default_rng(1).permutation(len(texts))[:most]
            paths.append(self.path(f"{name}.txt"))
            files.write_text(paths[-1], "".join(texts[row] + "\n" for row in chosen))
        examples = list(read_queries(self.data("squad_v2", "small_train.json")))
        further = dict.fromkeys(" ".join(text.split()) for each in examples for text in (
            each.query, each.positives[0]))
        paths.append(self.path("squad.txt"))
        files.write_text(paths[-1], "".join(text + "\n" for text in further))
        return paths

    def searched(self):
        """A file of the paragraphs that are searched, with and without their titles, and of their
        sentences; no question is among them."""
        path = self.path("searched.txt")
        texts = {}
        for passage in read_corpus(self.data("squad_v2", "small_dev.json")):
            sentences = re.split(r"(?<=[.!?])\s+", passage.text)
            pairs = map(" ".join, zip(sentences, sentences[1:], strict=False))
            texts |= dict.fromkeys((passage.content, passage.text, *sentences, *pairs))
        files.write_text(path, "".join(" ".join(text.split()) + "\n" for text in texts))
        return path

    def speeds(self, models):
        """`{name: texts/s}` of vectors of MRPC's sentences; `models` has paths and dtypes."""
        texts = [text for pair in self.mrpc()[0] for text in pair]
        embedders = {name: Embedder(path, dtype) for name, (path, dtype) in models.items()}
        seconds = {name: [] for name in models}
        for number in range(self.arguments.rounds + 1):
            for name, embedder in embedders.items():
                started = time.perf_counter()
                embedder.vectors(texts)
                if number:  # before it graphs are made
                    seconds[name].append(time.perf_counter() - started)
        return {name: len(texts) / statistics.median(found) for name, found in seconds.items()}

    def mrpc(self):
        """`(pairs, labels)` of MRPC."""
        pairs = read_task("mrpc", self.data("mrpc", "msr_paraphrase_train.txt"))
        return [pair.content for pair in pairs], [int(pair.label) for pair in pairs]

    def auc(self, path):
        """The area under the curve of the cosine of MRPC's pairs by a model, in --dtype."""
        pairs, labels = self.mrpc()
        embedder = Embedder(path, self.arguments.dtype)
        first, second = (embedder.vectors(list(texts)) for texts in zip(*pairs, strict=True))
        cosines = np.sum(first * second, 1) / (
            np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
        return float(roc_auc_score(labels, cosines))

    def retrieval(self, name, model):
        """MRR@10 of SQuAD's questions among its paragraphs by the vectors of a model."""
        return self.run("evaluate", name, task="retrieval", model=model,
                        data=self.data("squad_v2", "small_dev.json"))["metrics"]["mrr@10"]


def layers(benchmark):
    """Three of MiniLM's six layers."""
    teacher, (sentences, *_) = benchmark.minilm(), benchmark.english()
    arguments = benchmark.arguments
    found = {"teacher_auc": benchmark.auc(teacher), "student_auc": []}
    for seed in benchmark.seeds:
        benchmark.distill(f"layers_{seed}", teacher, (sentences,), seed, num_hidden_layers=3,
                          objectives=tuple(arguments.objectives), epochs=arguments.epochs)
        found["student_auc"].append(benchmark.auc(benchmark.path(f"layers_{seed}")))
    found |= benchmark.speeds({"teacher": (teacher, arguments.dtype), "student": (
        benchmark.path(f"layers_{arguments.seed}"), arguments.dtype)})
    benchmark.targets.check(
        "layers: share of AUC - 0.5 on MRPC that is kept",
        (np.mean(found["student_auc"]) - 0.5) / (found["teacher_auc"] - 0.5), 0.97)
    benchmark.targets.check("layers: texts/s, student / teacher",
                            found["student"] / found["teacher"], 1.8)
    return found


def static(benchmark):
    """A table of vectors."""
    return _static(benchmark, "static", benchmark.english())


def static_corpus(benchmark):
    """The same, which has read what it searches."""
    return _static(benchmark, "static_corpus", [*benchmark.english(), benchmark.searched()])


def _static(benchmark, row, texts):
    teacher = benchmark.minilm()
    found = {"teacher_mrr": benchmark.retrieval("retrieval_teacher", teacher), "student_mrr": []}
    for seed in benchmark.seeds:
        name = f"{row}_{seed}"
        benchmark.distill(name, teacher, tuple(texts), seed, static=True,
                          batch_size=256, max_seq_length=256,
                          epochs=benchmark.arguments.static_epochs)
        found["student_mrr"].append(benchmark.retrieval(f"retrieval_{name}", benchmark.path(name)))
    found |= benchmark.speeds({"teacher": (teacher, benchmark.arguments.dtype), "student": (
        benchmark.path(f"{row}_{benchmark.arguments.seed}"), None)})
    benchmark.targets.check(f"{row}: share of MRR@10 that is kept",
                            np.mean(found["student_mrr"]) / found["teacher_mrr"], 0.85)
    benchmark.targets.check(f"{row}: texts/s, student / teacher",
                            found["student"] / found["teacher"], 20)
    return found


class Korean:
    """NSMC's files, and the reviews without labels that are none of its dev examples."""

    def __init__(self, benchmark):
        self.benchmark = benchmark
        self.train, self.dev = (benchmark.data("nsmc", f"ratings_{part}.txt.gz")
                                for part in ("train", "dev"))
        self.examples = {"train": read_task("nsmc", self.train), "dev": read_task("nsmc", self.dev)}
        known = {example.text_a.strip() for example in self.examples["dev"]}
        lines = files.read_lines(benchmark.data("corpus", "ko_reviews.txt.gz"))
        self.texts = [text for text in lines if text.strip() and text.strip() not in known]
        if benchmark.arguments.reviews:
            self.texts = self.texts[:benchmark.arguments.reviews]
        self.reviews = benchmark.path("reviews.txt.gz")
        files.write_bytes(self.reviews, gzip.compress("\n".join(self.texts).encode(), 1, mtime=0))

    def tuned(self, name, **flags):
        """Fine-tune on labels into the folder `name`; the accuracy on dev examples."""
        arguments, benchmark = self.benchmark.arguments, self.benchmark
        flags = {"task": "nsmc", "train": self.train, "dev": self.dev,
                 "epochs": arguments.label_epochs, "learning_rate": 3e-4, **flags}
        return benchmark.run(
            "finetune", name, max_seq_length=64, batch_size=64, dtype=arguments.dtype, dropout=0.1,
            export_dir=benchmark.path("saved", name), **flags)["metrics"]["accuracy"]

    def teacher(self):
        """Fine-tune the encoder into the folder `teacher`; its accuracy."""
        return self.tuned("teacher", init=self.benchmark.arguments.encoder, seed=1)


def soft_labels(benchmark):
    """A classifier of two layers that learns from its teacher's probabilities."""
    arguments, korean = benchmark.arguments, Korean(benchmark)
    small = benchmark.path("small.json")
    config = files.read_json(os.path.join(arguments.encoder, "model", "model_config.json"))
    files.write_json(small, {**config, "num_hidden_layers": 2})
    found = {"reviews": len(korean.texts), "teacher": korean.teacher(), "alone": [], "student": []}
    for seed in benchmark.seeds:
        found["alone"].append(korean.tuned(
            f"alone_{seed}", init="scratch", config=small, vocab=os.path.join(
                arguments.encoder, "vocab.txt"), seed=seed))
        benchmark.distill(f"student_{seed}", benchmark.path("teacher"), (korean.reviews,), seed,
                          num_hidden_layers=2, epochs=arguments.epochs, max_seq_length=64,
                          learning_rate=3e-4)
        found["student"].append(benchmark.run(
            "evaluate", f"measured_{seed}", task="nsmc", data=korean.dev,
            model=benchmark.path(f"student_{seed}"))["metrics"]["accuracy"])
        print(found, flush=True)
    student = np.mean(found["student"])
    benchmark.targets.check("soft labels: points above the same size alone",
                            100 * (student - np.mean(found["alone"])), 1.0)
    benchmark.targets.check("soft labels: points below the teacher",
                            100 * (found["teacher"] - student), most=0.5)
    return found


def ensemble(benchmark):
    """The encoder that learns the mean of what its teacher and n-grams say of reviews."""
    arguments, korean = benchmark.arguments, Korean(benchmark)
    found = {"reviews": len(korean.texts), "teacher": korean.teacher(), "student": {},
             "labelled": {}}  # of each seed those of its generations
    grams = ngrams.learn(korean.examples["train"], n=4, unit="char")
    dev = korean.examples["dev"]
    labels, right = list(grams.classes_), np.array([example.label for example in dev])
    lines = map(json.loads, files.read_lines(benchmark.path("teacher", "predictions.jsonl")))
    said = [[line["scores"][label] for label in labels] for line in lines]
    of_grams = grams.predict_proba([example.text_a for example in dev])
    for name, probabilities in (("ngrams", of_grams), ("mean", of_grams + said)):
        found[name] = float(np.mean(np.array(labels)[probabilities.argmax(1)] == right))
    certain = benchmark.path("dev.jsonl")
    files.write_json_lines(certain, ({"text": example.text_a, "label": example.label}
                                     for example in dev))
    for seed in benchmark.seeds:
        teacher, init = "teacher", arguments.encoder
        for generation in range(arguments.generations):
            name = f"{seed}_{generation}" if generation else str(seed)
            said = f"said_{name}" if generation else "said"  # the first teacher is of every seed
            benchmark.command("predict", said, model=benchmark.path(teacher),
                              input=korean.reviews, format="jsonl")
            soft = benchmark.path(f"soft_{name}.jsonl" if generation else "soft.jsonl")
            files.write_json_lines(soft, _means(grams, files.expand(
                [benchmark.path(said, "predictions", "*.jsonl")])))
            found["student"].setdefault(seed, []).append(korean.tuned(
                f"of_both_{name}", task="classify", train=soft, dev=certain, init=init,
                epochs=arguments.epochs, seed=seed + generation))
            teacher = f"labelled_{name}"
            found["labelled"].setdefault(seed, []).append(korean.tuned(
                teacher, init=benchmark.path(f"of_both_{name}"), epochs=1, learning_rate=1e-4,
                seed=seed + generation))
            init = benchmark.path(teacher)
            print(found, flush=True)
    benchmark.targets.check("ensemble: points above the teacher", 100 * (
        np.mean([each[-1] for each in found["labelled"].values()]) - found["teacher"]), 0)
    return found


def _means(grams, paths):
    """Yield for each text, once, the mean of what a teacher and n-grams say of it."""
    known = set()
    for path in paths:
        rows = [json.loads(line) for line in files.read_lines(path)]
        told = grams.predict_proba([row["text"] for row in rows]).tolist()
        for row, of_grams in zip(rows, told, strict=True):
            if row["text"] not in known:
                known.add(row["text"])
                yield {"text": row["text"], "label": {
                    label: (value + row["probabilities"][label]) / 2
                    for label, value in zip(grams.classes_, of_grams, strict=True)}}


ROWS = {row.__name__: row for row in (layers, static, static_corpus, soft_labels, ensemble)}


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--rows", nargs="+", choices=list(ROWS), default=["layers", "static"])
    add("--shared", default="../shared", help="folder of the data")
    add("--encoder", help="run of a pre-trained Korean encoder, for soft_labels and ensemble")
    add("--reviews", type=int, help="the first ones, of these two (default: all)")
    add("--texts", type=int, default=100_000, help="English sentences")
    add("--objectives", nargs="+", default=["output"])
    add("--epochs", type=int, default=1)
    add("--static_epochs", type=int, default=8)
    add("--generations", type=int, default=1,
        help="of ensemble: each takes the encoder before it as its teacher and goes on from it")
    add("--label_epochs", type=int, default=2, help="of the teacher and of the size alone on NSMC")
    add("--dtype", default="bfloat16", help="of training and of vectors")
    add("--seed", type=int, default=1, help="the first of --seeds")
    add("--seeds", type=int, default=1)
    add("--rounds", type=int, default=3)
    add("--folder", help="kept, so that a stopped run resumes (default: a temporary one)")
    arguments = parser.parse_args()
    for row in arguments.rows:
        if row in ("soft_labels", "ensemble") and not arguments.encoder:
            parser.error(f"{row} needs --encoder")
    with tempfile.TemporaryDirectory() as temporary:
        benchmark = Benchmark(arguments, files.make_folder(arguments.folder or temporary))
        rows = {row: ROWS[row](benchmark) for row in arguments.rows}
    return finish("distillation", arguments, benchmark.targets, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
