"""How long others wait while a server is sent requests that are made to keep it busy.

    python benchmarks/load/attack.py --seconds 20 --output attack.json

The embedded server has two small models. From 16 connections one of them is sent what takes long
to decode, of one kind after the other; meanwhile the health service, the status over REST and the
other model are asked, each again and again. Prints for each kind the 50th and 99th percentile and
the largest of the times to an answer in milliseconds, beside those of an idle server. The row
`floor` is what gRPC's Python alone makes of the same attack: a server that drops each message and
refuses the call, asked for its health.
"""

import argparse
import asyncio
import collections
import contextlib
import gzip
import json
import multiprocessing
import os
import pathlib
import queue
import socket
import sys
import tempfile
import threading
import time

import grpc
import httpx
import numpy as np
from processes import ModelServer, free_port

from bert_tf.serving.wire import protocol

SIZE = (64 << 20) - 4096  # bytes of a request
SHOT_SECONDS = 120  # that an attacker waits for an answer
PAUSE = 0.01  # seconds between two questions of who is measured
CHECK = "/grpc.health.v1.Health/Check"


def save_models(folder):
    """`attacked` and `other`: the length of a text, the double of numbers."""
    import tensorflow as tf

    class Small(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def length(self, text):
            return {"length": tf.strings.length(text)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def double(self, x):
            return {"y": 2 * x}

    for name in ("attacked", "other"):
        small = Small()
        tf.saved_model.save(small, str(folder / name / "1"), {
            "serving_default": small.length, "double": small.double})


def _tensor(dtype, size, **values):
    tensor = protocol.TensorProto(dtype=dtype, **values)
    tensor.tensor_shape.dim.add(size=size)
    return tensor


def _predict(tensor):
    request = protocol.PredictRequest()
    request.model_spec.name = "attacked"
    request.inputs["text"].CopyFrom(tensor)
    return request.SerializeToString()


def _double(values):
    return b'{"signature_name": "double", "inputs": [%s]}' % values


def _texts(values):
    return b'{"instances": [%s]}' % values


KINDS = {  # name: what makes the body or the message; REST but for those that begin with grpc
    "nan": lambda: _double(b"NaN," + b"0," * (SIZE // 2) + b"0"),
    "nan_gzip": lambda: gzip.compress(_double(b"NaN," + b"0," * (SIZE // 2) + b"0"), 1),
    "numbers": lambda: _double(b"1.5," * (SIZE // 4) + b"0"),
    "texts": lambda: _texts(b'"ab",' * (SIZE // 5) + b'""'),
    "long_texts": lambda: _texts(b'"%s",' % (b"a" * (3 << 20)) * 20 + b'""'),
    "grpc_zeros": lambda: _predict(_tensor(7, SIZE, tensor_content=bytes(SIZE))),
    "grpc_empty_texts": lambda: _predict(_tensor(7, SIZE // 2, string_val=[b""] * (SIZE // 2))),
    "grpc_numbers": lambda: _predict(_tensor(3, SIZE, int_val=[0] * SIZE)),
    "grpc_long_texts": lambda: _predict(_tensor(7, 20, string_val=[b"a" * (3 << 20)] * 20)),
}


def shoot_rest(address, body, headers, until):
    """Send a body again and again; the first lines of the answers."""
    host, port = address.removeprefix("http://").split(":")
    head = (f"POST /v1/models/attacked:predict HTTP/1.1\r\nhost: {host}\r\n{headers}"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n").encode()
    said = []
    while time.monotonic() < until:
        try:
            with socket.create_connection((host, int(port)), SHOT_SECONDS) as connection:
                connection.sendall(head)
                connection.sendall(body)
                said.append(connection.recv(64).split(b"\r\n")[0].decode())
        except OSError as problem:
            said.append(type(problem).__name__)
    return said


def shoot_grpc(address, message, until):
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    said = []
    with grpc.insecure_channel(address, options) as channel:
        call = channel.unary_unary(protocol.PREDICT)
        while time.monotonic() < until:
            try:
                call(message, timeout=SHOT_SECONDS)
                said.append("OK")
            except grpc.RpcError as problem:
                said.append(problem.code().name)
    return said


def attack(kind, grpc_address, rest_address, connections, seconds, results):
    """A process: shoot from so many connections, and tell what was answered how often."""
    shot = KINDS[kind]()
    results.put(len(shot))
    until = time.monotonic() + seconds
    said = []

    def one():
        if kind.startswith("grpc"):
            said.extend(shoot_grpc(grpc_address, shot, until))
        else:
            headers = "content-encoding: gzip\r\n" if kind.endswith("gzip") else ""
            said.extend(shoot_rest(rest_address, shot, headers, until))

    threads = [threading.Thread(target=one) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put({answer: said.count(answer) for answer in sorted(set(said))})


class _Drop(grpc.GenericRpcHandler):
    """Refuses every call once its message is there, but health checks."""

    def service(self, details):
        async def answer(message, context):
            del message  # which gRPC would keep with the error
            if details.method != CHECK:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "dropped")
            return b"\x08\x01"  # SERVING

        return grpc.unary_unary_rpc_method_handler(answer)


def drop_everything(address, memory):
    """A process: the server of the floor; `memory` has its resident megabytes."""
    import psutil

    from bert_tf.serving.server.memory import reuse_large_blocks

    async def serve():
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", SIZE + 4096)])
        server.add_generic_rpc_handlers([_Drop()])
        server.add_insecure_port(address)
        await server.start()
        while True:
            memory.value = psutil.Process().memory_info().rss >> 20
            await asyncio.sleep(0.2)

    reuse_large_blocks()
    asyncio.run(serve())


class Watch:
    """Asks a server, each question in a thread of its own, and keeps the times to the answers.

    Args:
        grpc_address, rest_address: of the server; without the latter it is asked for its health.
    """

    def __init__(self, grpc_address, rest_address=None):
        self._channels = []
        self.questions = {"health": self._grpc(grpc_address, CHECK, b"")}
        if rest_address:
            self.questions["status"] = self._status(rest_address)
            self.questions["other"] = self._grpc(grpc_address, protocol.PREDICT, self._request())

    @staticmethod
    def _request():
        request = protocol.PredictRequest()
        request.model_spec.name = "other"
        request.inputs["text"].CopyFrom(protocol.to_tensor(np.array([b"abc"], object)))
        return request.SerializeToString()

    def _grpc(self, address, method, message):
        channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._channels.append(channel)
        call = channel.unary_unary(method)
        return lambda: call(message, timeout=SHOT_SECONDS, wait_for_ready=True)

    @staticmethod
    def _status(address):
        client = httpx.Client(base_url=address, timeout=SHOT_SECONDS)
        return lambda: client.get("/v1/models/other").raise_for_status()

    def measure(self, ended):
        """Ask until `ended()`; `{question: {p50, p99, max, …}}` in milliseconds."""
        results, failed = {}, collections.Counter()

        def ask(name, question):
            times = []
            while not ended():
                start = time.perf_counter()
                try:
                    question()
                except (grpc.RpcError, httpx.HTTPError):
                    failed[name] += 1
                times.append(1000 * (time.perf_counter() - start))
                time.sleep(PAUSE)
            p50, p99 = np.percentile(times, [50, 99])
            results[name] = {"p50": round(p50, 1), "p99": round(p99, 1),
                             "max": round(max(times), 1), "answers": len(times) - failed[name],
                             "failed": failed[name]}

        threads = [threading.Thread(target=ask, args=each) for each in self.questions.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


def _told(results, process):
    """What a process puts into a queue; SystemExit where it died before."""
    while True:
        lives = process.is_alive()
        try:
            return results.get(timeout=1)
        except queue.Empty:
            if not lives:
                sys.exit(f"the attacker died, exit code {process.exitcode}")


class Attack:
    """The attackers as a process, and whoever asks meanwhile.

    Args:
        connections, seconds: how many shoot for how long.
    """

    def __init__(self, connections, seconds):
        self._context = multiprocessing.get_context("spawn")
        self._connections, self._seconds = connections, seconds

    def run(self, kind, watch, grpc_address, rest_address=None):
        """Shoot with a kind; the answers, and what `watch` measures until the last."""
        results = self._context.Queue()
        attacker = self._context.Process(target=attack, args=(
            kind, grpc_address, rest_address, self._connections, self._seconds, results))
        attacker.start()
        size = _told(results, attacker)
        measured = watch.measure(lambda: not attacker.is_alive())
        return {"bytes": size, "answers": _told(results, attacker), **measured}

    def floor(self, kind):
        """What a kind does to a server that drops everything."""
        address, memory = f"127.0.0.1:{free_port()}", self._context.Value("q", 0)
        server = self._context.Process(target=drop_everything, args=(address, memory))
        server.start()
        try:
            watch = Watch(address)
            watch.questions["health"]()  # it is up
            return {"kind": kind, **self.run(kind, watch, address), "server_mb": memory.value}
        finally:
            server.kill()
            server.join()


@contextlib.contextmanager
def served():
    """A `ModelServer` with the two models."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        maker = multiprocessing.get_context("spawn").Process(target=save_models, args=[folder])
        maker.start()
        maker.join()
        config = folder / "models.config"
        config.write_text("model_config_list {\n%s}\n" % "".join(  # noqa: UP031 — braces
            f'config {{ name: "{name}" base_path: "{folder / name}" model_platform: "tensorflow" }}'
            for name in ("attacked", "other")))
        with ModelServer(folder / "other", flags=(f"--model_config_file={config}",),
                         signature="serving_default") as server:
            yield server


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20, help="of shooting, per kind")
    parser.add_argument("--output", help="JSON file")
    arguments = parser.parse_args()
    shooting, report = Attack(arguments.connections, arguments.seconds), {}

    def tell(name, row):
        report[name] = row
        print(f"{name}: {json.dumps(row)}", flush=True)

    with served() as server:
        watch = Watch(server.grpc, server.rest)
        start = time.monotonic()
        tell("idle", watch.measure(lambda: time.monotonic() > start + 3))
        for kind in arguments.kinds:
            row = shooting.run(kind, watch, server.grpc, server.rest)
            tell(kind, {**row, "server_mb": server.memory() >> 20})
    over_grpc = [kind for kind in arguments.kinds if kind.startswith("grpc")]
    if over_grpc:
        tell("floor", shooting.floor(over_grpc[0]))
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as stream:
            json.dump({"cores": os.cpu_count(), **report}, stream, indent=1)


if __name__ == "__main__":
    sys.exit(main())
