"""One process at a time in a folder of an object store, which knows no locks.

The holder keeps an object `.lease.json` in the folder and renews it every 20 seconds. Another
process is refused while the lease is younger than two minutes; an older one, which it then watches
for as long as two renewals take, or one whose process ended on this very machine, it takes over.

What this cannot promise: a holder that was stopped for longer than that, while another process took
over, notices before its next write to the store, not within one. S3 and GCS create the object on
condition that there is none; taking over and renewing are conditional on S3 only.
"""

import contextlib
import functools
import json
import os
import socket
import sys
import threading
import time
import uuid

from bert_tf.errors import BertTfError, UnavailableError, explain
from bert_tf.storage import object_store

RENEWAL = 20  # seconds
STALE = 120
# Goes on while the machine sleeps, where there is such a clock.
_now = functools.partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
_leases = {}  # folder: the Lease that this process holds
_let_go = set()  # owners of leases of this process whose objects a failing store has kept


@contextlib.contextmanager
def held(folder, wait=False, name=""):
    """Hold a folder of a store for this process, against other threads of its own, too.

    Args:
        folder: path.
        wait: wait for another holder instead of refusing.
        name: hold only what has this name in the folder.

    Raises:
        BertTfError: another process, or thread, holds it; the error names the process.
    """
    lease = Lease(folder.rstrip("/"), name)
    folder = lease.folder
    within = _leases.get(folder)
    if within and within.thread == threading.get_ident():  # a stage within a stage
        yield
        return
    reported = False
    while True:
        try:
            lease.take()
            break
        except HeldError as error:
            if not wait:
                raise
            if not reported:
                print(f"waiting: {error}", file=sys.stderr)
            reported = True
            time.sleep(RENEWAL / 4)
    _leases[folder] = lease
    try:
        yield
    finally:
        if _leases.get(folder) is lease:  # not another thread's, which took over
            del _leases[folder]
        lease.release()


def check(path):
    """Raise BertTfError where this process held a folder around `path` and has lost it."""
    for folder, lease in list(_leases.items()):
        if path == folder or path.startswith(folder + "/"):
            lease.check()


class HeldError(BertTfError):
    """Another process holds the folder."""


class Lease:
    """The lease of a folder.

    Args:
        folder: path in a store.
        name: of what is held in it; "" for all of it.

    Attributes:
        thread: of this process, whose it is.
    """

    def __init__(self, folder, name=""):
        self.folder = f"{folder}/{name}" if name else folder
        self._path = f"{folder}/.lease{f'-{name}' if name else ''}.json"
        self._owner = uuid.uuid4().hex
        self.thread = threading.get_ident()
        self._renewed = None  # by `_now`
        self._lost = None  # who has it
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def take(self):
        """Create the object, or take over a stale one.

        Raises:
            BertTfError: another process holds it.
        """
        try:
            found = _read(self._path)
            if found is None:
                self._write(mode="create")
            else:
                self._refuse_live(found)
                self._replace(found)
            found = _read(self._path)
        except UnavailableError:
            _let_go.add(self._owner)  # it may have been written
            raise
        if found is None or found["owner"] != self._owner:
            raise _refusal(self.folder, found)
        self._thread.start()

    def release(self):
        """Delete the object, if it is still this one."""
        self._ended.set()
        self._thread.join()
        try:
            found = _read(self._path)
            if found and found["owner"] == self._owner:
                object_store.remove(self._path)
        except BertTfError:  # for other processes it grows stale
            _let_go.add(self._owner)

    def check(self):
        """Raise BertTfError if the lease is another's; renew it if that has not been done."""
        if _now() - self._renewed > 2 * RENEWAL:  # this process was stopped
            self._renew()
        if self._lost is not None:
            raise BertTfError(explain(
                f"{self.folder} was taken over by {_who(self._lost)} while this process was "
                "paused; nothing more is written", attempt="leaving the other process to it"))

    def _refuse_live(self, found):
        if _is_dead(found) or found["owner"] in _let_go:
            return
        age = time.time() - found["time"]
        if 0 <= age < STALE:
            raise _refusal(self.folder, found, f"in {STALE - age:.0f} s at most, if it has ended")
        # Clocks differ and jump: what counts is that nobody renews it.
        until = _now() + 2 * RENEWAL
        while _now() < until:
            self._ended.wait(RENEWAL / 10)
            now = _read(self._path)
            if now is None or now["mark"] != found["mark"]:
                raise _refusal(self.folder, now)

    def _replace(self, found):
        if conditions := self._if_still(found):
            self._write(**conditions)
        else:
            object_store.remove(self._path)
            self._write(mode="create")

    def _if_still(self, found):
        """Return the condition that the object is still the one found, where there is such."""
        return {"IfMatch": found["mark"]} if self._path.startswith("s3://") else {}

    def _write(self, **conditions):
        about = {"owner": self._owner, "time": time.time(), **_this_process()}
        started = _now()
        try:
            object_store.write(self._path, json.dumps(about).encode(), **conditions)
        except BertTfError as error:
            now = _read(self._path)
            if now is None:
                raise
            if now["owner"] != self._owner:
                raise _refusal(self.folder, now) from error
            if not conditions or now["mark"] == conditions.get("IfMatch"):
                raise
            # It was written, and the answer was lost: the second attempt met the first one's lease.
        self._renewed = started

    def _keep(self):
        while not self._ended.wait(RENEWAL):
            with contextlib.suppress(BertTfError):  # the store may be back for the next one
                self._renew()

    def _renew(self):
        with self._changing:
            found = _read(self._path)
            if found is None or found["owner"] != self._owner:
                self._lost = found or {}  # the other process may have ended
            elif self._lost is None:
                self._write(**self._if_still(found))


def _read(path, again=True):
    """Read a lease, with the `mark` of its version; None where there is none. What goes while it
    is read is looked at `again`."""
    version = object_store.version(path, needed=False)
    if version is None:
        return None
    try:
        with object_store.explained("read", path), object_store.open_stored(path) as stream:
            found = json.loads(stream.read())
        return {"owner": str(found["owner"]), "time": float(found["time"]), "host": found["host"],
                "pid": int(found["pid"]), "namespace": found["namespace"],
                "started": found["started"], "mark": version[1]}
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise BertTfError(explain(f"{path} is not a lease", attempt="deleting it")) from error
    except BertTfError:
        if not object_store.is_file(path):
            return None
        if not again:
            raise
        return _read(path, again=False)


def _this_process():
    return {"host": socket.gethostname(), "pid": os.getpid(), "namespace": _namespace(),
            "started": _start_of(os.getpid())}


def _namespace():
    """Return what distinguishes this machine since it was booted, or this container, by process
    numbers."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            return f"{stream.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""  # no Linux


def _start_of(pid):
    """Return when a process of this machine started, in ticks; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat") as stream:
            state, *rest = stream.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else rest[18]


def _is_dead(found):
    """Return whether the lease is of a process of this machine that has ended."""
    return bool(found["namespace"]) and found["namespace"] == _namespace() and (
        _start_of(found["pid"]) != found["started"])


def _who(found):
    return f"process {found['pid']} on {found['host']}" if found else "another process"


def _refusal(folder, found, when=None):
    return HeldError(explain(
        f"{folder} is in use by {_who(found)}",
        attempt=f"again after it has ended{f' ({when})' if when else ''}, or another folder"))
