"""A bounded local cache of what lies in object stores, for what reads and writes local files only.

TensorFlow's checkpoints and SavedModels, records, HDF5 and safetensors are fetched into a folder of
`$BERT_TF_CACHE` (default `~/.cache/bert_tf`) and written to the store from one. An entry is called
by a digest of where it comes from, its size and its version there, so that what changed is
fetched again. Together entries take up to `$BERT_TF_CACHE_BYTES` (default 20 GiB); the least
recently used go first, those in use never. What is being written comes on top, until it is
uploaded.

Locks (flock) end with their process: a shared one on an entry or a file in it says that it is in
use, an exclusive one that it is being filled. Any number of processes may share the cache.
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import json
import os
import shutil
import uuid

from bert_tf.errors import BertTfError, UnavailableError, UsageError, explain
from bert_tf.storage import disk, object_store

_DEFAULT_BYTES = 20 << 30
_FILLED = 0.8  # what is left of the bound once entries had to go
_PART, _WORK = ".part-", ".work-"
_held = {}  # entry: descriptor of its lock, until the process ends
_origins = {}  # local path: where it is from


class CacheFullError(UnavailableError):
    """The entries in use take all the space."""


def cache_bytes():
    """Return the bound of the cache; UsageError unless `BERT_TF_CACHE_BYTES` is a number of
    bytes."""
    text = os.environ.get("BERT_TF_CACHE_BYTES") or str(_DEFAULT_BYTES)
    if not text.isascii() or not text.isdigit():
        raise UsageError(explain(f"BERT_TF_CACHE_BYTES={text}", "a number of bytes",
                                 f"BERT_TF_CACHE_BYTES={_DEFAULT_BYTES}"))
    return int(text)


def cache_folder():
    """Return the cache's folder, made where absent, readable by its owner only."""
    folder = os.environ.get("BERT_TF_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "bert_tf")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise UnavailableError(explain(
            f"cannot create the cache {folder}: {error.strerror}",
            attempt="BERT_TF_CACHE=FOLDER, one that can be written")) from error
    return os.path.abspath(folder)


def named(text):
    """Return a text for people, with the store's names in place of the cache's."""
    for local, path in _origins.items():
        text = text.replace(local, path)
    return text


def remember(local, path):
    """Remember that a local path is where a copy of `path` lies; see `named`."""
    _origins[local] = path


def local(path):
    """Return the local path of an object or of a finished folder; it stays until the process ends.

    Raises:
        BertTfError: it is not there, not whole, or does not fit into the cache.
    """
    return _keep(*_locate(path))


def local_prefix(prefix):
    """Return `local` of all objects whose names begin with `prefix.`: a checkpoint's files."""
    folder, name = os.path.split(prefix)
    paths = [f"{folder}/{each}" for each in object_store.list_folder(folder)
             if each.startswith(name + ".")]
    wanted = {os.path.basename(path): (path, *object_store.version(path)) for path in paths}
    return _keep(prefix, list(wanted.values()), wanted, name)


def _keep(path, key, wanted, name):
    entry, lock = _fetch(key, wanted)
    if entry in _held:
        os.close(lock)
    else:
        _held[entry] = lock
    found = os.path.join(entry, name) if name else entry
    _origins[found] = path
    return found


@contextlib.contextmanager
def staged(path):
    """Yield the `local` path of an object or a finished folder; errors name the store's path."""
    path, key, wanted, name = _locate(path)
    entry, lock = _fetch(key, wanted)
    found = os.path.join(entry, name) if name else entry
    try:
        yield found
    except BertTfError as error:
        raise type(error)(str(error).replace(found, path)) from error
    finally:
        os.close(lock)


class _StagedFile(io.FileIO):
    """A file of the cache that is in use while it is open."""

    def __init__(self, path):
        super().__init__(path, "rb")
        fcntl.flock(self.fileno(), fcntl.LOCK_SH)


def opener():
    """Return `open_local(path)`, which opens an object's local copy; the file has a descriptor of
    the system's. The store is asked for what an object is at its first time only."""
    locate = functools.cache(_locate)

    def open_local(path):
        path, key, wanted, name = locate(path)
        entry, lock = _fetch(key, wanted)
        try:
            return _StagedFile(os.path.join(entry, name))
        finally:
            os.close(lock)

    return open_local


@contextlib.contextmanager
def workspace():
    """Yield a folder of the cache that goes when the block, or the process, ends."""
    folder = os.path.join(cache_folder(), _WORK + uuid.uuid4().hex)
    lock = None
    with disk.explained("write", folder):
        while lock is None:
            lock = _lock_new(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locate(path):
    """Return `(path, key, wanted, name)` of what is to be fetched: see `_fetch`; `name` of a
    file."""
    path = path.rstrip("/")
    version = object_store.version(path, needed=False)
    if version is not None:
        name = os.path.basename(path)
        return path, [path, *version], {name: (path, *version)}, name
    for manifest in object_store.MANIFESTS:
        source = f"{path}/{manifest}"
        if object_store.is_file(source):
            with object_store.explained("read", source), object_store.open_stored(source) as stream:
                data = stream.read()
            wanted = {name: (f"{path}/{name}", size, None)
                      for name, size in _sizes(source, data).items()}
            wanted[manifest] = source, len(data), None
            return path, [path, hashlib.blake2b(data).hexdigest()], wanted, ""
    if not object_store.is_folder(path):
        raise BertTfError(f"cannot read {path}: no such file or folder")
    raise BertTfError(explain(
        f"{path} is incomplete: its last file, {' or '.join(object_store.MANIFESTS)}, is missing",
        attempt="waiting until it is uploaded, or uploading it again"))


def _sizes(source, data):
    """Return `{relative name: size}` of the files that a manifest lists."""
    try:
        sizes = {name: facts["size"] for name, facts in json.loads(data)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BertTfError(f"{source} is damaged: it lists no files and sizes") from error
    for name, size in sizes.items():
        parts = name.split("/")
        if type(size) is not int or size < 0 or {"", ".", ".."} & set(parts) or "\0" in name:
            raise BertTfError(explain(f"{source} lists {name!r} of size {size!r}",
                                      "files inside the folder"))
    return sizes


def _fetch(key, wanted):
    """Fetch an entry: return its folder, filled where it is new, and the descriptor of a lock that
    keeps it.

    Args:
        key: plain values that tell this entry from any other, and from its other versions.
        wanted: `{name in the entry: (path, size, mark)}`, the mark that of its version, or None
            where a manifest lists the expected sizes.
    """
    root = cache_folder()
    size = sum(size for _, size, _ in wanted.values())
    digest = hashlib.blake2b(json.dumps(key).encode(), digest_size=16).hexdigest()
    entry = os.path.join(root, f"{digest}-{size}")
    part = os.path.join(root, f"{_PART}{digest}-{size}")
    with disk.explained("write", root):
        while True:
            lock = _lock_present(entry, fcntl.LOCK_SH)
            if lock is not None:
                os.utime(entry)
                return entry, lock
            lock = _lock_new(part)  # of several processes one fetches, the others wait here
            if lock is None:
                continue
            try:
                if not os.path.exists(entry):
                    _fill(root, part, size, wanted)
                    with _counting(root):  # whoever lists the folder meanwhile could miss both
                        os.rename(part, entry)
            finally:
                shutil.rmtree(part, ignore_errors=True)
                os.close(lock)


def _fill(root, part, size, wanted):
    for name in os.listdir(part):  # of a killed process
        disk.remove(os.path.join(part, name))
    _free_space(root, size, os.path.basename(part))
    targets = [os.path.join(part, name) for name in wanted]
    for folder in {os.path.dirname(target) for target in targets}:
        os.makedirs(folder, exist_ok=True)
    object_store.download([path for path, _, _ in wanted.values()], targets)
    for (path, *expected, mark), target in zip(wanted.values(), targets, strict=True):
        if [os.path.getsize(target)] != expected or (
                mark is not None and object_store.version(path) != (*expected, mark)):
            raise BertTfError(explain(f"{path} is damaged, or was changed while it was read",
                                      f"{expected[0]} bytes", "the same command again"))
        disk.sync(target)  # later only names are looked at


def _lock_new(folder):
    """Return the descriptor of an exclusive lock on a folder, made where absent; None if it is
    gone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    return _lock_present(folder, fcntl.LOCK_EX)


def _lock_present(path, kind):
    """Return the descriptor of a lock, or None where there is nothing under this name any more."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        disk.lock(lock, kind)
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    except FileNotFoundError:
        pass
    except disk.NoLocksError as error:
        os.close(lock)
        raise UnavailableError(explain(
            f"the file system of the cache {cache_folder()} has no locks, so that one process "
            "would delete what another uses", attempt="BERT_TF_CACHE=FOLDER on a local disk"
        )) from error
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _free_space(root, size, own):
    """Count `size` bytes in; delete entries that were not used for longest where it is too much."""
    limit = cache_bytes()
    if size > limit:
        raise UnavailableError(explain(f"{size} bytes do not fit into the cache {root} of {limit}",
                                  attempt=f"BERT_TF_CACHE_BYTES={2 * size}"))
    with _counting(root) as total:
        used = int(os.pread(total, 32, 0) or limit)  # of a new cache: find out
        if used + size > limit:
            used = _evict(root, int(_FILLED * limit) - size, limit - size, own)
        text = str(used + size).encode()
        os.pwrite(total, text.ljust(32), 0)


@contextlib.contextmanager
def _counting(root):
    """Yield the descriptor of the file that says how many bytes are counted in, locked."""
    total = os.open(os.path.join(root, "total"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(total, fcntl.LOCK_EX)
        yield total
    finally:
        os.close(total)


def _evict(root, goal, limit, own):
    """Delete entries until at most `goal` bytes are left if that can be; return how many are."""
    used, entries = 0, []
    for found in os.scandir(root):
        name, path = found.name, found.path
        if name == own or not found.is_dir():
            continue
        if name.startswith((_PART, _WORK)):
            if not _delete_unused(path):
                used += int(name.rpartition("-")[2]) if name.startswith(_PART) else 0
            continue
        with contextlib.suppress(ValueError, FileNotFoundError):
            size = int(name.rpartition("-")[2])
            entries.append((found.stat().st_mtime_ns, size, path))
            used += size
    for _, size, path in sorted(entries):
        if used <= goal:
            break
        if _delete_unused(path):
            used -= size
    if used > limit:
        raise CacheFullError(explain(
            f"the cache {root} is full: {used} bytes of it are in use",
            attempt=f"a larger BERT_TF_CACHE_BYTES than {cache_bytes()}"))
    return used


def _delete_unused(path):
    """Delete a folder of the cache unless a process uses it; whether it is gone."""
    locks = []
    try:
        for name in (path, *(each.path for each in os.scandir(path) if each.is_file())):
            locks.append(os.open(name, os.O_RDONLY))
            fcntl.flock(locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        doomed = os.path.join(os.path.dirname(path), _WORK + uuid.uuid4().hex)
        os.rename(path, doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    finally:
        for lock in locks:
            os.close(lock)
    return True
