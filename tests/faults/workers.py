"""Starts the processes of a run with several workers: on loopback, or each on a network of its own.

All but the chief may see a folder read-only, so that whatever they wrote there would fail.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 900  # seconds that anything may take at most


class Loopback:
    """Addresses on this machine's loopback."""

    name = "loopback"

    def __init__(self, count):
        # As long as they are bound nobody else is given their ports, while workers start slowly.
        self._reserved = [socket.socket() for _ in range(count)]
        for each in self._reserved:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # who is told may take it
            each.bind(("localhost", 0))
        self.addresses = [f"localhost:{each.getsockname()[1]}" for each in self._reserved]

    def prefix(self, index):
        """The command that starts another one where the worker is."""
        return []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class Namespaces:
    """A network namespace for each worker, with its own address, behind a bridge in another one.

    Nothing in them reaches the machine's own network, and nothing is left when they are deleted.
    """

    name = "namespaces"

    def __init__(self, count):
        self.addresses = [f"10.77.0.{index + 1}:2222" for index in range(count)]
        self._names = [f"bert{os.getpid()}w{index}" for index in range(count)]
        self._switch = f"bert{os.getpid()}switch"
        self._made = []

    def prefix(self, index):
        """The command that starts another one where the worker is."""
        return ["ip", "netns", "exec", self._names[index]]

    def cut(self, index):
        """Take away the link of a worker; nobody is told."""
        self._ip(self._switch, "link", "set", f"port{index}", "down")

    def mend(self, index):
        """Give it back."""
        self._ip(self._switch, "link", "set", f"port{index}", "up")

    def _ip(self, namespace, *words):
        subprocess.run(["ip", "-n", namespace, *words], check=True, capture_output=True)

    def _add(self, name):
        subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
        self._made.append(name)

    def __enter__(self):
        try:
            self._add(self._switch)
            self._ip(self._switch, "link", "add", "bridge0", "type", "bridge")
            self._ip(self._switch, "link", "set", "bridge0", "up")
            for index, name in enumerate(self._names):
                port, address = f"port{index}", self.addresses[index].partition(":")[0]
                self._add(name)
                self._ip(name, "link", "add", "eth0", "type", "veth", "peer", "name", port,
                         "netns", self._switch)
                self._ip(name, "addr", "add", f"{address}/24", "dev", "eth0")
                self._ip(name, "link", "set", "lo", "up")
                self._ip(name, "link", "set", "eth0", "up")
                self._ip(self._switch, "link", "set", port, "master", "bridge0")
                self._ip(self._switch, "link", "set", port, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for name in reversed(self._made):
            subprocess.run(["ip", "netns", "del", name], check=True, capture_output=True)
        self._made.clear()


def why_no_namespaces():
    """Why this machine does not let us make network namespaces; "" where it does."""
    if not shutil.which("ip"):
        return "no `ip` command (package iproute2)"
    try:
        with Namespaces(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not allowed: {error.stderr.decode().strip()}"


def read_only_view(folder):
    """A command that starts another one for which `folder` cannot be written to.

    Empty where this user may not mount.
    """
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, str(folder)]
    try:
        done = subprocess.run([*words, "touch", str(folder / "written")], capture_output=True)
    except FileNotFoundError:
        return []
    if b"Read-only file system" in done.stderr and not (folder / "written").exists():
        return words
    return []


class Workers:
    """The processes at work; they are killed when the block ends.

    Args:
        words: the command of every worker.
        place: a `Loopback` or `Namespaces`.
        logs: folder of their output, `worker_0.log` and so on, appended to.
        read_only: a folder that all but the chief see read-only, where that is possible.
    """

    def __init__(self, words, place, logs, read_only=None):
        self.place = place
        self.logs = [pathlib.Path(logs, f"worker_{index}.log")
                     for index in range(len(place.addresses))]
        self._begin = [log.stat().st_size if log.exists() else 0 for log in self.logs]
        self.processes = []
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        for index, log in enumerate(self.logs):
            view = read_only_view(read_only) if read_only and index else []
            task = {"cluster": {"worker": place.addresses},
                    "task": {"type": "worker", "index": index}}
            with log.open("ab") as stream:
                self.processes.append(subprocess.Popen(
                    [*place.prefix(index), *view, *words], stdout=stream, stderr=stream,
                    env={**os.environ, "PYTHONPATH": path, "TF_CONFIG": json.dumps(task)}))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def said(self, index):
        """What a worker has printed since it was started."""
        return self.logs[index].read_text(errors="replace")[self._begin[index]:]

    def wait_until(self, condition, what):
        """Poll until `condition()` holds while all processes run."""
        started = time.monotonic()
        while not condition():
            ended = [index for index, each in enumerate(self.processes)
                     if each.poll() is not None]
            assert not ended, f"before {what}: {self.tails(ended)}"
            assert time.monotonic() - started < PATIENCE, f"no end of {what}: {self.tails()}"
            time.sleep(0.002)

    def ends(self, indices=None):
        """Wait for the end of workers; `{index: (exit code, seconds from this call on)}`."""
        started = time.monotonic()
        waiting = set(range(len(self.processes)) if indices is None else indices)
        found = {}
        while waiting:
            for index in list(waiting):
                if (code := self.processes[index].poll()) is not None:
                    found[index] = code, time.monotonic() - started
                    waiting.remove(index)
            assert time.monotonic() - started < PATIENCE, f"no end: {self.tails(waiting)}"
            time.sleep(0.01)
        return found

    def codes(self):
        """Exit codes in the workers' order, waited for."""
        found = self.ends()
        return [found[index][0] for index in sorted(found)]

    def tails(self, indices=None):
        """The last output of workers."""
        indices = range(len(self.logs)) if indices is None else indices
        return "\n".join(f"--- worker {index}\n{self.said(index)[-2500:]}" for index in indices)
