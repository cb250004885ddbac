"""Servers and other processes that a benchmark of serving starts and ends."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import psutil

from bert_tf.errors import BertTfError
from bert_tf.serving.client import Client

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PATIENCE = 600  # seconds for a server to come up


def free_port():
    """A port on which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment():
    """Of our processes: this checkout's package, and a quiet TensorFlow."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3"}


def run_json(*command):
    """The JSON that a command prints as its last line."""
    result = subprocess.run([str(word) for word in command], env=environment(), check=True,
                            stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


class Server:
    """A running server of one model.

    Args:
        command: its words.
        address: `host:port` at which it listens.
        ask: asks it once; raises BertTfError where that fails.

    Attributes:
        seconds: from the start of the process to the first answer.
    """

    def __init__(self, command, address, ask):
        host, port = address.split(":")
        start = time.perf_counter()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 — as long as the server
        self._process = subprocess.Popen(command, env=environment(), stdout=self._log,
                                         stderr=subprocess.STDOUT)
        self._told = psutil.Process(self._process.pid)
        while True:
            with contextlib.suppress(BertTfError, OSError):
                socket.create_connection((host, int(port))).close()
                ask()
                break
            if self._process.poll() is not None or time.perf_counter() - start > PATIENCE:
                self.stop()
                self._log.seek(0)
                raise BertTfError(f"{' '.join(command)} does not answer:\n{self._log.read()}")
            time.sleep(0.02)
        self.seconds = time.perf_counter() - start

    @property
    def pid(self):
        return self._process.pid

    def memory(self):
        """Resident bytes."""
        return self._told.memory_info().rss

    def runs(self):
        return self._process.poll() is None

    def stop(self):
        """End it, with SIGTERM first."""
        if self.runs():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class ModelServer(Server):
    """A server that takes tensorflow_model_server's flags.

    Args:
        model_folder: holds the versions.
        binary: tensorflow_model_server; None for the embedded one.
        flags: further ones.
        signature: that takes a `text`; answering it is the first sign of life.

    Attributes:
        name: of the model.
        grpc, rest: addresses, as `Client` takes them.
    """

    def __init__(self, model_folder, binary=None, flags=(), signature="embed"):
        model_folder = pathlib.Path(model_folder).resolve()
        self._signature = signature
        self.name = model_folder.name
        port, rest_port = free_port(), free_port()
        self.grpc, self.rest = f"127.0.0.1:{port}", f"http://127.0.0.1:{rest_port}"
        program = [binary] if binary else [sys.executable, "-m", "bert_tf.serve"]
        super().__init__([*program, f"--port={port}", f"--rest_api_port={rest_port}",
                          f"--model_name={self.name}", f"--model_base_path={model_folder}",
                          *flags], self.grpc, self._first)

    def _first(self):
        with Client(self.grpc, self.name, retries=0, timeout=5) as client:
            client.predict(self._signature, text=["first"])


class Peer(Server):
    """sentence-transformers behind FastAPI.

    Args:
        python: interpreter that has them.
        model: folder of the weights, as sentence-transformers reads them.
        dtype: `float32` or `bfloat16`, of the weights.

    Attributes:
        rest: address.
    """

    def __init__(self, python, model, dtype="float32"):
        port = free_port()
        self.rest = f"http://127.0.0.1:{port}"
        super().__init__([python, str(HERE.parent / "peers" / "sentence_server.py"),
                          "--model", model, "--port", str(port), "--dtype", dtype],
                         f"127.0.0.1:{port}", self._first)

    def _first(self):
        import httpx

        try:
            httpx.post(f"{self.rest}/embed", json={"texts": ["first"]}).raise_for_status()
        except httpx.HTTPError as error:
            raise BertTfError(str(error)) from error
