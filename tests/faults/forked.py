"""Commands as forks of one process that has imported all they need: starting one costs no imports.

A fork is a process of its own: SIGKILL, limits and file descriptors are real.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time

PATIENCE = 900  # seconds that a process may take at most
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MODULES = ("tensorflow", "tensorflow_text", "keras", "matplotlib.pyplot",
            "bert_tf.pretrain.run", "bert_tf.pretrain.report", "bert_tf.finetune.run",
            "bert_tf.evaluate.run", "bert_tf.predict.run", "bert_tf.saved_model.save",
            "bert_tf.tasks.pretrained",
            "bert_tf.converters.ours", "bert_tf.converters.hf_safetensors",
            "bert_tf.converters.google_tf1", "bert_tf.data.create", "bert_tf.embedder",
            "bert_tf.retrieval.build_index")


class Forker:
    """Starts commands of bert_tf, one at a time; use it in a `with` block."""

    def __enter__(self):
        path = os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")])
        # What forks inherit must not be a thread pool.
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        # Without a buffer: a line in one would not be seen by `select`.
        self._server = subprocess.Popen([sys.executable, os.path.abspath(__file__)], bufsize=0,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment)
        assert self._answer(None) == "ready"
        return self

    def __exit__(self, *exception):
        self._server.stdin.close()
        self._server.wait(PATIENCE)

    def start(self, words, log, limits=None):
        """Start a command as a `Fork`.

        Args:
            words: `[python, "-m", "bert_tf.NAME", flag, …]`.
            log: path that its output is appended to.
            limits: `{"user": id to become, "file_size": bytes that a file may have at most,
                "clock": seed of the jumps of the wall clock}`.
        """
        request = {"words": [str(word) for word in words[2:]], "log": str(log), **(limits or {})}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        return Fork(self._answer(None), self._answer)

    def run(self, words, log, limits=None):
        """Run a command to its end; returns `(exit code, what it printed)`."""
        with open(log, "ab") as stream:
            start = stream.tell()
        code = self.start(words, log, limits).wait()
        with open(log, "rb") as stream:
            stream.seek(start)
            return code, stream.read().decode(errors="replace")

    def _answer(self, seconds):
        """The server's next line; None if it says nothing for so long."""
        if not select.select([self._server.stdout], [], [], seconds)[0]:
            return None
        line = self._server.stdout.readline()
        assert line, "the process that forks has ended"
        return json.loads(line)


class Fork:
    """A running command."""

    def __init__(self, pid, answer):
        self.pid = pid
        self.started = time.monotonic()
        self._answer = answer
        self._code = None

    def poll(self):
        """The exit code, negative of a signal; None while it runs."""
        if self._code is None:
            self._code = self._answer(0)
        return self._code

    def wait(self):
        """The exit code, once it has ended; what it started is ended too."""
        if self._code is None:
            self._code = self._answer(PATIENCE)
        assert self._code is not None, f"no end after {PATIENCE} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self._code

    def kill(self):
        """SIGKILL to the command itself, and wait."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def _serve():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for name in _MODULES:
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer("ready")
    while line := sys.stdin.buffer.raw.readline():  # a fork must find nothing read ahead
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            answers.close()
            _become(request)
        answer(pid)
        answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(request):
    """Be the command that is asked for."""
    code = 70
    try:
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _limit(request)
        from bert_tf import cli

        name, *flags = request["words"]
        sys.argv = [name, *flags]
        code = cli.run(importlib.import_module(name).main, flags)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _limit(request):
    import resource

    if "file_size" in request:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a full disk: an error, not an end
        size = request["file_size"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    if "clock" in request:
        import random

        import tqdm.std

        draw, real = random.Random(request["clock"]), time.time
        time.time = tqdm.std.time = lambda: real() + draw.uniform(-1e9, 1e9)
    if "user" in request:
        os.setgroups([])
        os.setgid(request["user"])
        os.setuid(request["user"])


if __name__ == "__main__":
    _serve()
