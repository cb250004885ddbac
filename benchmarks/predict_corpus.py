"""A table of texts to Parquet with their vectors: our predict beside sentence-transformers.

    python benchmarks/predict_corpus.py --hf_python PYTHON

all-MiniLM-L6-v2 over CoLA's sentences, drawn a million times, and over a tenth as many passages of
one to five sentences of `en_mixed`, in float32 and in bfloat16. Every side is a command that reads
a TSV and writes Parquet: `bert_tf.predict` of our export, by one process and by a process for each
core, and `encode` with pyarrow before and after it. What the same command takes for a few texts,
its start, is subtracted. The SavedModel's own rate is that of a `Predictor` of it, texts in memory,
vectors thrown away. Peak memory is that of the command at a tenth of the texts and at all of them.
"""

import os
import random
import subprocess
import sys
import tempfile
import time

import minilm
from load.processes import environment
from speed.report import Targets, benchmark_parser, finish
from speed.texts import passages, sentences
from speed.workers import BENCHMARKS, Workers, add_flags, thread_limits

DTYPES = ("float32", "bfloat16")
LEAST_OF_OWN = 0.9  # of the SavedModel's own rate
LEAST = {("short", "float32"): 3.0, ("short", "bfloat16"): 1.25, ("passages", "bfloat16"): 1.25}
MOST_GROWTH = 1.1  # of peak memory at ten times the texts
WINDOW, START, SAMPLE = 256, 64, 20_000  # tokens; texts of a command's start, of the own rate
_PEER = "sentence-transformers"
_DRAWN_FROM = {"short": (sentences, 8000), "passages": (passages, 20_000)}


class Bench:
    """The exports, the texts and the commands.

    Args:
        arguments: the flags.
        folder: for all files.
    """

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.environment = {**environment(), **thread_limits(arguments.threads)}
        model = self.path("model")
        minilm.convert(model)
        for dtype in DTYPES:
            minilm.export(model, self.path(dtype), dtype, "--seq_length", WINDOW)
        self.texts = {kind: draw(arguments.shared, count)
                      for kind, (draw, count) in _DRAWN_FROM.items()}
        self.counts = {"short": arguments.texts, "passages": max(1, arguments.texts // 10)}

    def path(self, *names):
        """A path in the folder."""
        return os.path.join(self.folder, *names)

    def write(self, kind, count):
        """Write a table of so many texts, unless it is there; return its path."""
        path = self.path(f"{kind}_{count}.tsv")
        if not os.path.exists(path):
            draw = random.Random(2)
            with open(path, "w") as stream:
                stream.write("id\ttext\n")
                for number in range(count):
                    text = " ".join(draw.choice(self.texts[kind]).split())
                    stream.write(f"{number}\t{text}\n")
        return path

    def command(self, side, dtype, source, output):
        """The words of a side's command."""
        if side == _PEER:
            return [self.arguments.hf_python, BENCHMARKS / "peers/sentence_corpus.py",
                    minilm.weights(), dtype, source, output]
        processes = self.arguments.threads if side == "bert_tf, processes" else 1
        return [sys.executable, "-m", "bert_tf.predict", "--model", self.path(dtype, "1"),
                "--input", source, "--output_dir", output, "--num_processes", processes]

    def run(self, side, dtype, kind, count):
        """Run a command; `(seconds, peak memory in bytes of its first process)`."""
        source = self.write(kind, count)
        with tempfile.TemporaryDirectory(dir=self.folder) as output:
            words = self.command(side, dtype, source, os.path.join(output, "out"))
            started = time.perf_counter()
            process = subprocess.Popen(list(map(str, words)), env=self.environment,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                sys.exit(f"exit code {process.returncode}: {' '.join(map(str, words))}")
            return time.perf_counter() - started, usage.ru_maxrss << 10

    def measure(self):
        """`{"rates": {kind: {dtype: {side: texts/s}}}, "memory": …}`."""
        sides = ["bert_tf", *(["bert_tf, processes"] if self.arguments.threads > 1 else []),
                 *([_PEER] if self.arguments.hf_python and _PEER not in self.arguments.without
                   else [])]
        rates, memory = {}, {}
        for kind, count in self.counts.items():
            rates[kind] = {dtype: self.own_rate(kind, dtype) for dtype in DTYPES}
            for dtype in DTYPES:
                for side in sides:
                    start, _ = self.run(side, dtype, kind, START)
                    seconds, peak = self.run(side, dtype, kind, count)
                    # Of a trial with few texts the start is the most of it.
                    rates[kind][dtype][side] = (
                        (count - START) / (seconds - start) if seconds > 2 * start
                        else count / seconds)
                    memory[f"{side}, {kind}, {dtype}"] = peak
                    print(f"{kind:10}{dtype:10}{side:24}{rates[kind][dtype][side]:10.1f} texts/s")
        _, memory["bert_tf, a tenth of short, float32"] = self.run(
            "bert_tf", "float32", "short", max(1, self.counts["short"] // 10))
        return {"rates": rates, "memory": memory}

    def own_rate(self, kind, dtype):
        """`{"SavedModel": texts/s}` of a `Predictor`, which chooses the size of its batches."""
        count = min(SAMPLE, self.counts[kind])
        with open(self.write(kind, self.counts[kind])) as stream:
            next(stream)
            texts = [next(stream).rstrip("\n").partition("\t")[2] for _ in range(count)]
        side = f"bert_tf, {dtype}"
        with Workers("embedding", {side: {"model": self.path(dtype, "1"), "dtype": dtype}},
                     self.arguments) as workers:
            workers.ask(side, "measure", texts=texts[:START], batch_size=32)
            rate = count / workers.ask(side, "measure", texts=texts, batch_size=32)
        print(f"{kind:10}{dtype:10}{'SavedModel':24}{rate:10.1f} texts/s")
        return {"SavedModel": rate}


def check(results, targets):
    """Hold ours to what it is to be."""
    for kind, of in results["rates"].items():
        for dtype, rates in of.items():
            best = max(rates[side] for side in rates if side.startswith("bert_tf"))
            targets.check(f"{kind}, {dtype}: texts/s by the SavedModel's own",
                          best / rates["SavedModel"], least=LEAST_OF_OWN)
            if _PEER in rates:
                targets.check(f"{kind}, {dtype}: texts/s by those of sentence-transformers",
                              best / rates[_PEER],
                              least=LEAST.get((kind, dtype)))
    memory = results["memory"]
    targets.check("peak memory by that at a tenth of the texts",
                  memory["bert_tf, short, float32"] / memory["bert_tf, a tenth of short, float32"],
                  most=MOST_GROWTH)


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--shared", default="../shared", help="folder with the data (default: ../shared)")
    add("--texts", type=int, default=1_000_000, metavar="N",
        help="short texts; passages are a tenth of them (default: 1,000,000)")
    add_flags(parser)
    arguments = parser.parse_args()
    targets = Targets()
    with tempfile.TemporaryDirectory() as folder:
        results = Bench(arguments, folder).measure()
    check(results, targets)
    return finish("predict_corpus", arguments, targets, **results)


if __name__ == "__main__":
    sys.exit(main())
