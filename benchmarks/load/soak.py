"""A server under steady load while versions change, clients die and others send nonsense."""

import asyncio
import collections
import contextlib
import itertools
import json
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

import grpc
import httpx
import numpy as np
from load.grpc_load import request_bytes
from load.processes import HERE

from bert_tf.errors import BertTfError
from bert_tf.serving.client import AsyncClient
from bert_tf.serving.wire import protocol

_DEATHS_EVERY = 5.0  # seconds
_ABANDONED = 4  # texts that a killed client, and one that is cut off, has asked for
# Texts a second that nobody waits for; they are part of the load.
ABANDONED_RATE = 2 * _ABANDONED / _DEATHS_EVERY
_WARM_SHARE = 0.2  # of the soak, after which memory should not grow
_NO_REFUSALS = {"OK", "200", "500", "504", "INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED"}


class Soak:
    """One run.

    Args:
        server: a `ModelServer`, whose model folder may be written to.
        folder: pathlib.Path of the served model.
        texts, expected: list of str, and float32 `[N, W]` of what their vectors are.
        tolerance: most that a number of a vector may be off, or
        cosine: least that a vector's cosine to the expected one may be.
        clients: texts under way at the same time at most.
    """

    def __init__(self, server, folder, texts, expected, tolerance, cosine, clients=32):
        self._server = server
        self._folder = folder
        self._texts = texts
        self._expected = expected
        self._tolerance = tolerance
        self._cosine = cosine
        self._clients = clients
        self.counts = collections.Counter()
        self.failures = []
        self.latencies = []
        self.calm = None  # how many of them came before the first new version
        self.worst_error, self.worst_cosine = 0.0, 1.0
        self.memory = []  # (seconds, bytes)
        self.malformed = collections.Counter()

    async def peak(self, seconds):
        """Valid texts per second of all clients, each asking again when it is answered."""
        end = time.perf_counter() + seconds
        turn = itertools.count()

        async def client(ask):
            while time.perf_counter() < end:
                await self._valid(ask, next(turn))

        async with self._connected() as asks:
            start = time.perf_counter()
            await asyncio.gather(*(client(asks[number % 2]) for number in range(self._clients)))
            return next(turn) / (time.perf_counter() - start)

    async def run(self, seconds, rate, switch_seconds, malformed):
        """Ask at a rate and disturb.

        Args:
            seconds: of the run.
            rate: valid requests a second, half over gRPC, half over REST.
            switch_seconds: between new versions.
            malformed: requests that are wrong, over the whole run; 0 for none, and no client that
                dies: versions change and nothing else.
        """
        self._start = time.perf_counter()
        self._end = self._start + seconds
        async with self._connected() as asks:
            await asyncio.gather(
                self._valids(asks, rate), self._switches(switch_seconds), self._watch(),
                *((self._deaths(), self._malformed(malformed / seconds)) if malformed else ()))

    @contextlib.asynccontextmanager
    async def _connected(self):
        # A failure is a failure: nothing is asked twice.
        async with (AsyncClient(self._server.grpc, self._server.name, retries=0) as one,
                    AsyncClient(self._server.rest, self._server.name, retries=0) as other):
            yield one.embed, other.embed

    async def _due(self, rate):
        """Numbers from 0, each when it is due, until the end."""
        for number in itertools.count():
            moment = self._start + number / rate
            if moment >= self._end:
                return
            await asyncio.sleep(max(moment - time.perf_counter(), 0))
            yield number

    async def _valids(self, asks, rate):
        async with asyncio.TaskGroup() as group:
            async for number in self._due(rate):
                group.create_task(self._valid(asks[number % 2], number))

    async def _valid(self, ask, number):
        index = number % len(self._texts)
        start = time.perf_counter()
        try:
            vector = await ask(self._texts[index])
        except BertTfError as error:
            self.failures.append(f"{time.perf_counter() - self._begun():.1f} s: {error}")
            return
        self.latencies.append(time.perf_counter() - start)
        self.counts["valid"] += 1
        expected = self._expected[index]
        error = float(np.abs(vector - expected).max())
        cosine = float(vector @ expected / np.linalg.norm(vector) / np.linalg.norm(expected))
        self.worst_error = max(self.worst_error, error)
        self.worst_cosine = min(self.worst_cosine, cosine)
        right = cosine >= self._cosine if self._cosine else error <= self._tolerance
        self.counts["wrong"] += not right

    def _begun(self):
        return getattr(self, "_start", time.perf_counter())

    async def _switches(self, seconds):
        """Publish a copy of the version under the next number; take away what it replaced."""
        async for number in self._due(1 / seconds):
            if number == 0:
                continue
            if self.calm is None:
                self.calm = len(self.latencies)
            versions = sorted(int(path.name) for path in self._folder.iterdir()
                              if path.name.isdigit())
            await asyncio.to_thread(publish, self._folder, versions[-1], versions[-1] + 1)
            for old in versions[:-1]:
                await asyncio.to_thread(shutil.rmtree, self._folder / str(old))
            self.counts["switches"] += 1

    async def _deaths(self):
        """Clients that are killed while their requests are under way, and connections cut off."""
        path = self._folder.parent / "request"
        path.write_bytes(request_bytes(self._server.name, self._texts[0]))
        async for _ in self._due(1 / _DEATHS_EVERY):
            child = subprocess.Popen(
                [sys.executable, str(HERE / "doomed_client.py"), self._server.grpc,
                 protocol.PREDICT, str(path), str(_ABANDONED)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            await asyncio.to_thread(child.stdout.readline)
            self.counts["killed"] += child.poll() is None
            child.kill()
            await asyncio.to_thread(child.wait)
            child.stdout.close()
            await asyncio.to_thread(self._cut_off)

    def _cut_off(self):
        """Send a REST request and end the connection without waiting, with a reset."""
        host, port = self._server.rest.removeprefix("http://").split(":")
        body = json.dumps({"signature_name": "embed",
                           "instances": self._texts[:_ABANDONED]}).encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(f"POST /v1/models/{self._server.name}:predict HTTP/1.1\r\n"
                               f"Host: {host}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                               + body)
        self.counts["cut off"] += 1

    async def _malformed(self, rate):
        requests = _grpc_nonsense(self._server.name)
        bodies = _rest_nonsense(self._server.name)
        async with (grpc.aio.insecure_channel(self._server.grpc) as channel,
                    httpx.AsyncClient(timeout=60) as http, asyncio.TaskGroup() as group):
            ask = channel.unary_unary(protocol.PREDICT)

            async def over_grpc(name, request):
                try:
                    await ask(request, timeout=60)
                    self.malformed[f"grpc {name}: OK"] += 1
                except grpc.RpcError as error:
                    self.malformed[f"grpc {name}: {error.code().name}"] += 1

            async def over_rest(name, path, body):
                try:
                    answer = await http.post(self._server.rest + path, content=body)
                    self.malformed[f"rest {name}: {answer.status_code}"] += 1
                except httpx.HTTPError as error:
                    self.malformed[f"rest {name}: {type(error).__name__}"] += 1

            async for number in self._due(rate):
                index = number // 2
                group.create_task(over_grpc(*requests[index % len(requests)]) if number % 2
                                  else over_rest(*bodies[index % len(bodies)]))

    async def _watch(self):
        async for _ in self._due(1):
            self.memory.append((time.perf_counter() - self._start, self._server.memory()))


def growth(memory, seconds):
    """The last tenth's median of `Soak.memory` over that of the tenth after the warm-up."""
    def median(start, end):
        return statistics.median(size for moment, size in memory
                                 if start * seconds <= moment <= end * seconds)
    return median(0.9, 1) / median(_WARM_SHARE, _WARM_SHARE + 0.1)


def is_no_refusal(name):
    """Whether what came of a malformed request, a key of `Soak.malformed`, is success, the server's
    own failure or no answer."""
    code = name.rpartition(": ")[2]
    return code in _NO_REFUSALS or code.endswith(("Error", "Timeout"))


def publish(folder, version, number):
    """Copy a version under another number; it appears whole."""
    folder = pathlib.Path(folder)
    copy = folder.parent / f"{folder.name}-{number}-being-copied"
    shutil.copytree(folder / str(version), copy)
    copy.rename(folder / str(number))


def _grpc_nonsense(model):
    """`[(name, bytes)]` of Predict requests that are wrong."""
    def request(name=model, signature="embed", version=None, **inputs):
        message = protocol.PredictRequest()
        message.model_spec.name = name
        message.model_spec.signature_name = signature
        if version:
            message.model_spec.version.value = version
        for key, array in inputs.items():
            message.inputs[key].CopyFrom(protocol.to_tensor(array))
        return message

    text = np.array(["text"], object)
    torn = request(text=text)
    torn.inputs["text"].tensor_shape.dim[0].size = 2**40
    return [(name, message if isinstance(message, bytes) else message.SerializeToString())
            for name, message in {
                "bytes": b"\xff" * 64, "no model": request("", text=text),
                "unknown model": request("nobody", text=text),
                "unknown version": request(version=10**6, text=text),
                "unknown signature": request(signature="nothing", text=text),
                "no input": request(), "another input": request(texts=text),
                "a further input": request(text=text, more=text),
                "wrong type": request(text=np.float32([1])),
                "wrong rank": request(text=np.array([["a", "b"]], object)),
                "no rank": request(text=np.array("a", object)),
                "a huge shape": torn}.items()]


def _rest_nonsense(model):
    """`[(name, path, body)]` of predict requests that are wrong."""
    path = f"/v1/models/{model}:predict"

    def body(**fields):
        return json.dumps({"signature_name": "embed", **fields}).encode()

    return [
        ("no JSON", path, b"{"), ("nothing", path, b""),
        ("a list", path, b"[]"), ("no inputs", path, body()),
        ("both forms", path, body(instances=["a"], inputs=["a"])),
        ("NaN", path, body(instances=[float("nan")])), ("number", path, body(instances=[1])),
        ("ragged", path, body(instances=[["a"], ["b", "c"]])),
        ("another input", path, body(instances=[{"texts": "a"}])),
        ("no base64", path, body(instances=[{"b64": "*"}])),
        ("deep", path, b'{"instances": ' + b"[" * 10**4),
        ("unknown signature", path, body(signature_name="nothing", instances=["a"])),
        ("unknown model", "/v1/models/nobody:predict", body(instances=["a"])),
        ("unknown version", f"/v1/models/{model}/versions/1000000:predict", body(instances=["a"])),
        ("unknown label", f"/v1/models/{model}/labels/nothing:predict", body(instances=["a"])),
        ("unknown verb", f"/v1/models/{model}:foretell", body(instances=["a"])),
        ("unknown path", "/v2/models", body(instances=["a"]))]
