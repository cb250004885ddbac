"""A local S3 server for commands that run as processes, and kills at a chosen request to it."""

import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import fsspec
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
ROOT = pathlib.Path(__file__).resolve().parents[1]
BUCKET = "bucket"


class Store:
    """The server, with one bucket; a context.

    Attributes:
        environment: what processes need to reach it, with a cache in `folder`.
        objects: fsspec's view of it.
        writes: `(method, name)` of the requests that changed something, in order.
    """

    def __init__(self, folder):
        self.folder = folder
        self.writes = []
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._victim = self._due = None
        self._counting = threading.Lock()

    def __enter__(self):
        self._server.start()
        host, port = self._server.get_host_and_port()
        self._wsgi, self._server._server.app = self._server._server.app, self._answer
        self.environment = {
            "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(self.folder),
            "TF_CPP_MIN_LOG_LEVEL": "3", "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2",
            "AWS_DEFAULT_REGION": "us-east-1", "BERT_TF_CACHE": str(self.folder / "cache")}
        self.objects = fsspec.filesystem(
            "s3", key="key", secret=self.environment["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            client_kwargs={"region_name": "us-east-1"}, use_listings_cache=False)
        self.objects.call_s3("create_bucket", Bucket=BUCKET)
        return self

    def __exit__(self, *error):
        self._server.stop()

    def _answer(self, environment, start_response):
        method, name = environment["REQUEST_METHOD"], environment["PATH_INFO"]
        if method in ("PUT", "POST", "DELETE") and "/.lease" not in name:
            with self._counting:
                self.writes.append((method, name))
                if self._victim and self._due(len(self.writes), name):
                    os.kill(self._victim.pid, signal.SIGKILL)
                    self._victim.wait()
                    self._victim = None
                    start_response("500 the client is dead", [])
                    return [b""]
        return self._wsgi(environment, start_response)

    def start(self, module, *flags, environment=(), **options):
        """A command of the package as a process, its output in one pipe."""
        return subprocess.Popen([sys.executable, "-m", f"bert_tf.{module}", *map(str, flags)],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**self.environment, **dict(environment)}, cwd=self.folder,
                                **options)

    def run(self, module, *flags, timeout=900):
        """What a command printed; AssertionError unless it went well."""
        process = self.start(module, *flags)
        told = process.communicate(timeout=timeout)[0]
        assert process.returncode == 0, told
        return told

    def run_killed(self, due, module, *flags, timeout=900):
        """Run a command that is killed at the first write request for which `due(count, name)`.

        The request does nothing. Returns: whether it came to that, and what was printed.
        """
        self._due = due
        self._victim = process = self.start(module, *flags)
        told = process.communicate(timeout=timeout)[0]
        killed, self._victim = self._victim is None, None
        assert process.returncode == (-signal.SIGKILL if killed else 0), told
        return killed, told

    def read(self, folder):
        """`{name: bytes}` of all objects in a folder of the bucket."""
        root = f"{BUCKET}/{folder}".rstrip("/")
        return {name.removeprefix(f"{root}/"): self.objects.cat_file(name)
                for name in self.objects.find(root)}


def is_upload_of(pattern):
    """For `run_killed`: at the first write of an object whose name has the pattern."""
    return lambda count, name: re.search(pattern, name) is not None
