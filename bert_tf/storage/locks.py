"""One process at a time works in a folder; another one gets an error that names it.

The lock is the system's (`flock`) on a file `.lock` in the folder: it is let go of when its holder
ends, however that happens, also by a power failure. What the file says is for people: the holder's
process id, host and when it began. A file without a lock is a dead process's. Where a file server
keeps the lock of a host that is lost (NFSv3), deleting the file frees the folder: whoever comes
next locks a file of its own. Object stores have no such locks, see `lease`.
"""

import contextlib
import datetime
import fcntl
import functools
import hashlib
import json
import os
import socket
import sys
import tempfile

from bert_tf.errors import BertTfError, explain, print_note
from bert_tf.storage import disk, files, lease

NAME = ".lock"
_MOST = 4096  # bytes of a note


@contextlib.contextmanager
def held(folder, wait=False, name=""):
    """Hold a folder for this process; one made for it goes again where nothing is put there.

    What a process that ended without releasing it leaves is reported and taken over. A file system
    whose hosts do not see each other's locks (NFS with `local_lock`, Lustre with `localflock`)
    keeps apart the processes of one host only; so does one that has no locks (Lustre with
    `noflock`), for which a note is printed.

    Args:
        folder: path.
        wait: wait for another holder, for work that soon ends, instead of refusing.
        name: hold only what has this name in the folder.

    Raises:
        BertTfError: another process holds it; its process id, host and start are named.
    """
    if files.is_remote(folder):
        with lease.held(folder, wait, name):
            yield
        return
    with disk.folder_while_used(folder), _locked(folder, wait, name):
        yield


@contextlib.contextmanager
def _locked(folder, wait, name):
    path = os.path.join(folder, f"{NAME}-{name}" if name else NAME)
    what = os.path.join(folder, name) if name else folder
    try:
        descriptor = _take(path, what, wait)
    except disk.NoLocksError:
        path, descriptor = _take_on_host(path, what, wait)
    try:
        with files.explained("lock", what):
            if before := _note(descriptor):
                print_note(f"{_described(before)} worked in {what} and ended without finishing; "
                           "resuming", file=sys.stderr)
            note = {"process": os.getpid(), "host": socket.gethostname(),
                    "since": datetime.datetime.now().astimezone().isoformat(" ", "seconds")}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(note).encode() + b"\n", 0)
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder may be written no more
            if _is_at(descriptor, path):
                os.remove(path)
        os.close(descriptor)


def _take_on_host(path, what, wait):
    """Lock a file of this host in the place of one that cannot be; return `(path, descriptor)`."""
    with files.explained("lock", what), contextlib.suppress(FileNotFoundError):
        if os.path.getsize(path):  # of a host that can lock it, or did
            raise BertTfError(explain(
                f"cannot lock {what}: its file system has no locks here, and {path} names another "
                "process", attempt=f"again after it has ended, or, if it runs no more, deleting "
                                   f"{path}"))
        os.remove(path)
    digest = hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=16).hexdigest()
    own = os.path.join(tempfile.gettempdir(), f"bert_tf-{digest}{NAME}")
    try:
        descriptor = _take(own, what, wait)
    except disk.NoLocksError as error:
        raise BertTfError(explain(
            f"cannot lock {what}: neither its file system nor that of {own} has locks",
            attempt="another folder, or TMPDIR=FOLDER on a local disk")) from error
    _tell(os.path.dirname(path))
    return own, descriptor


@functools.cache  # once is enough
def _tell(folder):
    print_note(f"the file system of {folder} has no locks, so that a process of another host or "
               "container would not be noticed: see that none works in it", file=sys.stderr)


def _take(path, what, wait):
    """Take the lock at `path` and return its file's descriptor."""
    while True:
        with files.explained("lock", what):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # the one before had made it
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                _lock(descriptor, path, what, wait)
                if _is_at(descriptor, path):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
        os.close(descriptor)  # the holder before has deleted it meanwhile


def _lock(descriptor, path, what, wait):
    try:
        disk.lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note, here = _note(descriptor), socket.gethostname()
        who, is_elsewhere = _described(note), note.get("host", here) != here
        if not wait:
            free = f", or, if no such process runs any more, deleting {path}" * is_elsewhere
            raise BertTfError(explain(f"{what} is in use by {who}", attempt="again after it has "
                                      f"ended, or another folder{free}")) from None
        # Who waits keeps to the file that is deleted.
        free = (f"; if no such process runs any more, stop this one, delete {path} and start "
                "again") * is_elsewhere
        print(f"waiting for {who}, which uses {what}{free}", file=sys.stderr)
        disk.lock(descriptor, fcntl.LOCK_EX)


def _is_at(descriptor, path):
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _note(descriptor):
    """Read the note in the lock file, `{}` where it is none."""
    try:
        note = json.loads(os.pread(descriptor, _MOST, 0))
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _described(note):
    if not note:
        return "another process"
    return f"process {note.get('process')} on {note.get('host')} (since {note.get('since')})"
