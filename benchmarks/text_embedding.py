"""From text to its vector: our SavedModel beside sentence-transformers.

    python benchmarks/text_embedding.py --hf_python PYTHON

all-MiniLM-L6-v2, exported at the start in float32, bfloat16 and int8 (calibrated by CoLA's dev
sentences, which are not measured), and the same weights in the first two types on the other side,
in int8 by ONNX Runtime and by OpenVINO (calibrated by the same sentences); every one is a process
of its own. Texts are CoLA's sentences and passages of one to five sentences
of `en_mixed`. Each round takes a share of them, which all sides get one after the other, all at
once: ours is a `Predictor`, which sorts them by length, makes batches by their characters and
computes one on each of --threads cores; sentence-transformers sorts them by length, too, into
batches of --batch_size, each on all of them. Then sentences one at a time, in ours on one core
each. Medians of the rounds count, and percentiles over all sentences; of our exports with the
peer's types the better one.
"""

import os
import pathlib
import statistics
import sys
import tempfile

import minilm
import numpy as np
from speed.report import Targets, benchmark_parser, finish
from speed.texts import passages, sentences
from speed.workers import Workers, add_flags

DTYPES = ("float32", "bfloat16")
EXPORTS = (*DTYPES, "int8")
OURS = tuple(f"bert_tf, {dtype}" for dtype in EXPORTS)
PEERS = tuple(f"sentence-transformers, {dtype}" for dtype in DTYPES)
INT8_PEERS = {f"sentence-transformers int8, {name}": name.split()[0].lower()
              for name in ("ONNX Runtime", "OpenVINO")}
LEAST = dict(zip(PEERS, (3.0, 1.5), strict=True))  # texts/s by those of a peer
MOST_LATENCY, LEAST_COSINE = 0.6, 0.9999
INT8 = {"least cosine": 0.995, "bytes by those in float32": 0.3}
WINDOW = 256  # tokens, to which the model's folder for sentence-transformers cuts as well
WARM_UP = 64  # texts


class Bench:
    """The exports, the texts and the turns.

    Args:
        arguments: the flags.
        folder: for all files.
    """

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        model = os.path.join(folder, "model")
        minilm.convert(model)
        self.calibration = minilm.calibration(arguments.shared, folder)
        for dtype in EXPORTS:
            minilm.export(model, os.path.join(folder, dtype), dtype, "--seq_length", WINDOW,
                          *(("--calibration", self.calibration) if dtype == "int8" else ()))
        self.texts = {"CoLA": sentences(arguments.shared, arguments.limit or 4000),
                      "passages": passages(arguments.shared, arguments.limit or 2000)}

    def measure(self):
        """`{"versions", "left_out", "rates", "latencies", "cosines"}`."""
        sides = {**{name: {"model": os.path.join(self.folder, dtype, "1"), "dtype": dtype}
                    for name, dtype in zip(OURS, EXPORTS, strict=True)},
                 **{name: {"model": minilm.weights(), "dtype": dtype}
                    for name, dtype in zip(PEERS, DTYPES, strict=True)},
                 **{name: {"model": minilm.weights(), "dtype": runtime,
                           "calibration": self.calibration}
                    for name, runtime in INT8_PEERS.items()}}
        with Workers("embedding", sides, self.arguments) as workers:
            for texts in self.texts.values():
                for side in workers.names:
                    self._ask(workers, side, texts[:WARM_UP])
            rounds = []
            for number in range(self.arguments.rounds):
                rounds.append(self._round(workers, number))
                print(f"round {number + 1} of {self.arguments.rounds} is done", flush=True)
            names = workers.names
        rates = {kind: {side: {"texts_per_second": statistics.median(
            each[kind][side]["texts_per_second"] for each in rounds)} for side in names}
            for kind in self.texts}
        latencies = {side: sum((each["latencies"][side] for each in rounds), []) for side in names}
        cosines = {kind: {pair: float(np.min([each[kind]["cosines"][pair] for each in rounds]))
                          for pair in rounds[0][kind]["cosines"]} for kind in self.texts}
        sizes = {side: sum(path.stat().st_size for path in pathlib.Path(
            self.folder, dtype, "1").rglob("*") if path.is_file())
            for side, dtype in zip(OURS, EXPORTS, strict=True)}
        return {"bytes": sizes, "versions": workers.versions, "left_out": workers.left_out,
                "rates": rates,
                "latencies": {side: dict(zip(
                    ("p50_ms", "p99_ms"), (1000 * np.percentile(each, [50, 99])).tolist(),
                    strict=True)) for side, each in latencies.items()},
                "cosines": cosines, "rounds": rounds}

    def _ask(self, workers, side, texts, **options):
        return workers.ask(side, "measure", texts=texts, batch_size=self.arguments.batch_size,
                           **options)

    def _round(self, workers, number):
        """One share of all texts: `{kind: {side: …, "cosines": …}, "latencies": {side: …}}`."""
        found = {}
        for kind, texts in self.texts.items():
            share = texts[number::self.arguments.rounds]
            found[kind], vectors = {}, {}
            for side in workers.names:
                path = os.path.join(self.folder, "vectors.npy")
                seconds = self._ask(workers, side, share, path=path)
                found[kind][side] = {"seconds": seconds, "texts_per_second": len(share) / seconds}
                vectors[side] = np.load(path)
            found[kind]["cosines"] = {
                f"{side} and {OURS[0]}": _least_cosine(vectors[side], vectors[OURS[0]])
                for side in vectors if side != OURS[0]}
        singles = self.texts["CoLA"][number::self.arguments.rounds][:self.arguments.singles]
        found["latencies"] = {side: workers.ask(side, "latencies", texts=singles)
                              for side in workers.names}
        return found


def _least_cosine(one, other):
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(np.min(np.sum(one * other, axis=1) / lengths))


def check(results, targets):
    """Print the figures, and hold ours to what they are to be."""
    for kind, of in results["rates"].items():
        for side, row in of.items():
            print(f"{kind:16}{side:36}{row['texts_per_second']:9.1f} texts/s")
    for side, row in results["latencies"].items():
        print(f"{'one sentence':16}{side:36}{row['p50_ms']:9.1f} ms p50{row['p99_ms']:9.1f} ms p99")
    peers = [side for side in PEERS if side in results["versions"]]
    for kind, of in results["rates"].items():
        best = max(of[side]["texts_per_second"] for side in OURS[:2])
        for side in peers:
            targets.check(f"{kind}: texts/s by those of {side}",
                          best / of[side]["texts_per_second"], least=LEAST[side])
    latencies = results["latencies"]
    best = min((latencies[side] for side in OURS[:2]), key=lambda row: row["p50_ms"])
    for side in peers:
        for point in ("p50", "p99"):
            targets.check(f"one sentence: {point} by that of {side}",
                          best[f"{point}_ms"] / latencies[side][f"{point}_ms"], most=MOST_LATENCY)
    for kind, pairs in results["cosines"].items():
        for pair, least in pairs.items():
            # How far the peer's bfloat16 is off is its own affair.
            expected = None if pair.startswith(PEERS[1]) else LEAST_COSINE
            if pair.startswith(OURS[2]):
                expected = INT8["least cosine"]
            elif pair.startswith(tuple(INT8_PEERS)):
                expected = None
            targets.check(f"{kind}: least cosine of {pair}", least, least=expected)
    for kind, of in results["rates"].items():
        for other in (*OURS[:2], *(peer for peer in INT8_PEERS if peer in of)):
            targets.check(f"{kind}: texts/s of {OURS[2]} by those of {other}",
                          of[OURS[2]]["texts_per_second"] / of[other]["texts_per_second"],
                          least=1.0 if other in INT8_PEERS else None)
    targets.check(f"bytes of {OURS[2]} by those of {OURS[0]}",
                  results["bytes"][OURS[2]] / results["bytes"][OURS[0]],
                  most=INT8["bytes by those in float32"])


def main():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--shared", default="../shared", help="folder with the data (default: ../shared)")
    add("--batch_size", type=int, default=32, help="of the peers (default: 32)")
    add("--rounds", type=int, default=5, help="into which the texts are divided (default: 5)")
    add("--singles", type=int, default=200, help="sentences a round, one at a time (default: 200)")
    add("--limit", type=int, metavar="N", help="so many texts of each kind only, for a trial")
    add_flags(parser)
    arguments = parser.parse_args()
    targets = Targets()
    with tempfile.TemporaryDirectory() as folder:
        results = Bench(arguments, folder).measure()
    check(results, targets)
    return finish("text_embedding", arguments, targets, **results)


if __name__ == "__main__":
    sys.exit(main())
