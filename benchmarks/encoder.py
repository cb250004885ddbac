"""Forward passes of BERT-Base: bert_tf beside the packages that people take for it.

    python benchmarks/encoder.py --hf_python PYTHON

Parts: `full`, batches of 8 × 128 and 4 × 512 without padding; `growth`, what a token costs in
batches from 1 × 128 to 8 × 512; `mixed`, CoLA's sentences and passages of one to five sentences of
`en_mixed`, 32 in arrival order, against a dense batch of as many tokens, peers padded to the
longest and to a fixed 128, to which all texts are cut there (in the first of --dtypes). Weights
are drawn, the sizes the same.

Every side is a process of its own; in each round all have a turn at each case, one after the
other, and medians of the rounds count. Rates are of real tokens and of the arithmetic that these
need. Beside them stands the ceiling, TensorFlow's matrix products of the same layers alone. Sides
whose shapes come again may make a graph for each of them, except ours.
"""

import os
import statistics
import sys
import tempfile

import minilm
from speed.arithmetic import encoder_flops, product_flops
from speed.report import Targets, benchmark_parser, finish
from speed.texts import passages, sentences, write_tokens
from speed.workers import Workers, add_flags

from bert_tf.presets import preset

PEERS = ("keras-nlp", "tf-models-official", "transformers", "OpenVINO")
INT8 = "bert_tf, int8"
INT8_PEERS = ("OpenVINO, int8", "ONNX Runtime, int8")
SIDES = ("bert_tf", "products", *PEERS)
PARTS = ("full", "growth", "mixed")
FULL, LONG = (8, 128), (4, 512)
GROWTH = ((1, 128), FULL, (64, 128), (8, 512))
ROWS, FIXED, WINDOW = 32, 128, 512  # of mixed lengths
# How much faster than a side ours is to be; of the ceiling, which share of it.
LEAST = {"bfloat16": {"products": 0.80, "keras-nlp": 1.25, "tf-models-official": 1.4,
                      "transformers": 1.1, "OpenVINO": 0.95},
         "float32": {"products": 0.85, **dict.fromkeys(PEERS, 1.0)}}
LEAST_INT8 = 1.3  # times as fast as the first of --dtypes
LEAST_LONG, LEAST_OF_DENSE, LEAST_TO_LONGEST, LEAST_TO_FIXED = 1.0, 0.85, 2.0, 4.0
MOST_GROWTH = 0.10  # by which the time for a FLOP may differ in larger batches


def name_of(shape):
    return f"{shape[0]} x {shape[1]}"


class Bench:
    """All cases in one type.

    Args:
        arguments: the flags.
        dtype: `bfloat16` or `float32`.
        texts: `{kind: (.npz file, lengths of the texts)}`; empty where they are not measured.
        targets: `Targets`.
    """

    def __init__(self, arguments, dtype, texts, targets):
        self.arguments, self.dtype, self.texts, self.targets = arguments, dtype, texts, targets
        self.config = preset("bert", "base", num_hidden_layers=arguments.layers).to_dict()

    def run(self):
        """`{"versions", "left_out", "cases"}`, the latter `{case: {side: figures}}`."""
        sides = dict.fromkeys(SIDES, {"config": self.config, "dtype": self.dtype})
        if self.arguments.int8:
            sides |= dict.fromkeys((INT8, *INT8_PEERS), {"config": self.config, "dtype": "int8"})
        print(f"\n{self.dtype}, {self.config['num_hidden_layers']} layers")
        with Workers("encoder", sides, self.arguments) as workers:
            cases = {name: {side: workers.ask(side, "add", name=name, **batches)
                            for side, batches in of.items() if side in workers.names}
                     for name, of in self._cases().items()}
            times = {name: {side: [] for side in of} for name, of in cases.items()}
            for number in range(self.arguments.rounds):
                for name, of in times.items():
                    for side, seconds in of.items():
                        seconds.append(workers.ask(side, "measure", name=name,
                                                   seconds=self.arguments.seconds))
                print(f"round {number + 1} of {self.arguments.rounds} is done", flush=True)
        figures = {name: {side: self._figures(name, side, cases[name][side], seconds)
                          for side, seconds in of.items()} for name, of in times.items()}
        self._print(figures)
        self._check(figures)
        return {"versions": workers.versions, "left_out": workers.left_out, "cases": figures}

    def _cases(self):
        """`{name: {side: arguments of EncoderWork.add}}`."""
        cases = {}

        def add(shape, sides):
            cases[name_of(shape)] = dict.fromkeys(sides, {"shapes": [shape]})

        if "growth" in self.arguments.parts:
            for shape in GROWTH:
                add(shape, ["bert_tf"])
        if "full" in self.arguments.parts:
            for shape in (FULL, LONG):
                add(shape, (*SIDES, INT8, *INT8_PEERS))
        for kind, (path, lengths) in self.texts.items():
            batches = {"path": path, "rows": ROWS, "fixed": False}
            cut = {**batches, "cut": FIXED}
            dense = [[ROWS, round(sum(lengths[start:start + ROWS]) / ROWS)]
                     for start in range(0, len(lengths), ROWS)]
            cases[kind] = dict.fromkeys(("bert_tf", *PEERS), batches)
            cases[f"{kind}, as many dense"] = {"bert_tf": {"shapes": dense}}
            cases[f"{kind}, fixed {FIXED}"] = {
                "bert_tf": cut, **dict.fromkeys(PEERS, {**cut, "fixed": True, "pad_to": FIXED})}
        return cases

    def _figures(self, name, side, counts, seconds):
        median = statistics.median(seconds)
        figures = {"seconds": median, "tokens_per_second": counts["tokens"] / median, **counts,
                   "rounds": seconds}
        if name in map(name_of, (*GROWTH, LONG)):
            rows, length = map(int, name.split(" x "))
            flops = (product_flops(self.config, rows * length) if side == "products"
                     else encoder_flops(self.config, rows, length))
            figures["gflops"] = flops / median / 1e9
        return figures

    def _print(self, figures):
        for name, of in figures.items():
            for side, row in of.items():
                rate = f"{row['gflops']:8.0f} GFLOP/s" if "gflops" in row else " " * 16
                print(f"{name:28}{side:20}{1000 * row['seconds']:9.1f} ms{rate}"
                      f"{row['tokens_per_second']:11,.0f} tokens/s")

    def _check(self, figures):
        def ratio(name, side, of=None, what="tokens_per_second"):
            return figures[name]["bert_tf"][what] / figures[of or name][side][what]

        def others(name):
            return [side for side in figures[name] if side in SIDES[1:]]

        def check(what, *arguments, **bounds):
            self.targets.check(f"{self.dtype}, {what}", *arguments, **bounds)

        if "full" in self.arguments.parts:
            for shape in map(name_of, (FULL, LONG)):
                if INT8 in figures[shape]:
                    check(f"{shape}: GFLOP/s of int8 by those of {self.dtype}",
                          1 / ratio(shape, INT8, what="gflops"),
                          least=LEAST_INT8 if shape == name_of(FULL) else None)
                    for side in (side for side in INT8_PEERS if side in figures[shape]):
                        check(f"{shape}: GFLOP/s of int8 by those of {side}",
                              ratio(shape, side, what="gflops") / ratio(shape, INT8, what="gflops"),
                              least=1.0)
                for side in others(shape):
                    least = LEAST[self.dtype][side] if shape == name_of(FULL) else (
                        LEAST_LONG if side in PEERS else None)
                    check(f"{shape}: GFLOP/s by those of {side}",
                          ratio(shape, side, what="gflops"), least=least)
        if "growth" in self.arguments.parts:
            # Of the smallest batch the products themselves are slower. A longer row has more
            # arithmetic for each token.
            for shape in GROWTH[2:]:
                check(f"time for a FLOP, {name_of(shape)} by {name_of(FULL)}",
                      ratio(name_of(FULL), "bert_tf", of=name_of(shape), what="gflops"),
                      least=1 - MOST_GROWTH, most=1 + MOST_GROWTH)
        for kind in self.texts:
            check(f"{kind}: tokens/s by those of as many dense",
                  ratio(kind, "bert_tf", of=f"{kind}, as many dense"), least=LEAST_OF_DENSE)
            for name, least, how in ((kind, LEAST_TO_LONGEST, "padded to the longest"),
                                     (f"{kind}, fixed {FIXED}", LEAST_TO_FIXED,
                                      f"padded to {FIXED}")):
                for side in others(name):
                    check(f"{kind}: tokens/s by those of {side} {how}", ratio(name, side),
                          least=least)


def write_texts(arguments, folder):
    """`{kind: (.npz file, lengths of the texts)}`."""
    found = {}
    for kind, read in (("CoLA", sentences), ("passages", passages)):
        path = os.path.join(folder, f"{kind}.npz")
        lengths = write_tokens(read(arguments.shared, ROWS * arguments.batches),
                               minilm.weights(), WINDOW, path)
        print(f"{kind}: {len(lengths)} texts, tokens {lengths.mean():.1f} in the mean, "
              f"{lengths.min()} to {lengths.max()}")
        found[kind] = path, lengths.tolist()
    return found


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--dtypes", nargs="+", choices=tuple(LEAST), default=list(LEAST))
    add("--shared", default="../shared", help="folder with the data (default: ../shared)")
    add("--rounds", type=int, default=3, help="default: 3")
    add("--seconds", type=float, default=0.5, help="of each turn, at least one pass (default: 0.5)")
    add("--batches", type=int, default=2, help="of each kind of mixed lengths (default: 2)")
    add("--layers", type=int, default=12, help="fewer than 12 for a trial")
    add("--int8", action="store_true", help="bert_tf in int8 as well, of `full` batches; "
        "beside it OpenVINO and ONNX Runtime")
    add_flags(parser)
    arguments = parser.parse_args()
    targets, results = Targets(), {}
    with tempfile.TemporaryDirectory() as folder:
        texts = write_texts(arguments, folder) if "mixed" in arguments.parts else {}
        for number, dtype in enumerate(arguments.dtypes):
            results[dtype] = Bench(arguments, dtype, {} if number else texts, targets).run()
    return finish("encoder", arguments, targets, results=results)


if __name__ == "__main__":
    sys.exit(main())
