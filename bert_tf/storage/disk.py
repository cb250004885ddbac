"""The local file system: the half of `bert_tf.storage.files` for paths without a scheme.

Writing is atomic: a file or folder appears under its name whole, or not at all.
"""

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import re
import shutil
import stat
import types
import uuid

from bert_tf.errors import BertTfError, UnavailableError, UsageError, explain

# What is wrong with a file's name, or with what is in it, as of `gzip.BadGzipFile`.
_LASTING = (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, None)
_LONGEST = 219  # bytes of a name to which two marks of 18 can be added: file systems take 255


@contextlib.contextmanager
def explained(action, path):
    """Turn an OSError about `path` into a BertTfError that says what to do."""
    path = path or "''"
    try:
        yield
    except FileNotFoundError as error:
        raise BertTfError(f"cannot {action} {path}: no such file or folder") from error
    except PermissionError as error:
        raise UnavailableError(explain(f"cannot {action} {path}: permission denied",
                                  attempt="another path, or changing its permissions")) from error
    except IsADirectoryError as error:
        raise BertTfError(f"cannot {action} {path}: it is a folder, not a file") from error
    except (FileExistsError, NotADirectoryError) as error:
        where = "it" if os.path.isfile(path) else "a parent of this path"
        raise BertTfError(explain(f"cannot {action} {path}: {where} is a file",
                                  attempt="another path")) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnavailableError(explain(
                f"cannot {action} {path}: the disk is full (what was finished before is kept)",
                attempt="freeing space and running the same command again")) from error
        if error.errno == errno.EMFILE:
            raise UnavailableError(explain(
                f"cannot {action} {path}: this process has as many files open as it may",
                attempt="a higher limit, ulimit -n, and the same command again")) from error
        if error.errno == errno.ENOLCK:
            raise UnavailableError(explain(
                f"cannot {action} {path}: the lock service of its file system does not answer",
                attempt="again once it does, or a folder on a local disk")) from error
        # A disk, a network or memory may come back.
        kind = BertTfError if error.errno in _LASTING else UnavailableError
        raise kind(f"cannot {action} {path}: {error.strerror or error}") from error
    except ValueError as error:
        if str(path).isprintable():
            raise
        raise BertTfError(f"cannot {action} {path!r}: invalid file name") from error


class NoLocksError(Exception):
    """A file system that has no locks."""


def lock(descriptor, kind):
    """Lock a file as `fcntl.flock` does; NoLocksError where its file system has no locks at all, as
    Lustre with `noflock`."""
    try:
        fcntl.flock(descriptor, kind)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            raise NoLocksError from error
        raise


def expand(pattern):
    """Return the sorted paths of the files that match a glob pattern; UsageError where there are
    none."""
    matches = sorted(match for match in glob.glob(os.fspath(pattern), recursive=True)
                     if not os.path.isdir(match))
    if not matches and os.path.isdir(pattern):
        raise UsageError(explain(f"{pattern} is a folder", "files",
                                 f"'{os.path.join(pattern, '*')}'"))
    return matches


def open_stored(path):
    """Open for reading bytes as they are stored, also those of a `.gz`."""
    return open(path, "rb")


@contextlib.contextmanager
def open_for_array(path):
    """Open for `np.save`: for a real file it calls `ndarray.tofile`, whose errors do not say what
    is wrong with the disk."""
    with open(path, "wb") as stream:
        yield types.SimpleNamespace(write=stream.write)


def make_folder(path):
    """Create a folder and its parents; an existing one is fine."""
    os.makedirs(path or ".", exist_ok=True)


@contextlib.contextmanager
def folder_while_used(path):
    """Make a folder and its parents; of those made, the ones still empty at the end go again."""
    absent, parent = [], os.path.abspath(path)
    while not os.path.lexists(parent):
        absent.append(parent)
        parent = os.path.dirname(parent)
    with explained("create", path):
        make_folder(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # not empty, or another process was faster
            for folder in absent:
                os.rmdir(folder)


def _mode(path):
    """Return the mode of what is there, or 0; not where a network file system is away, or a disk
    fails: what cannot be seen now would be taken for what was never made."""
    with explained("read", path):
        try:
            return os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            return 0
        except OSError as error:
            if error.errno in _LASTING:
                return 0
            raise


def exists(path):
    """Return whether a file or folder is there."""
    return bool(_mode(path))


def is_file(path):
    """Return whether a file is there."""
    return stat.S_ISREG(_mode(path))


def is_folder(path):
    """Return whether a folder is there."""
    return stat.S_ISDIR(_mode(path))


is_whole = is_folder  # what is written through `atomic_path`


def list_folder(path):
    """Return sorted names in a folder; empty where there is none."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):  # not where a network file system is away
        return []


def names_below(folder):
    """Return the names of all files in a folder and its subfolders, relative to it."""
    return [os.path.relpath(os.path.join(parent, name), folder)
            for parent, _, names in os.walk(folder) for name in names]


def size(path):
    """Return the size of a file in bytes."""
    return os.path.getsize(path)


def version(path):
    """Return `(size, mark)` of a file; the mark is another one once it is written again."""
    found = os.stat(path)
    return found.st_size, str(found.st_mtime_ns)


def remove(path):
    """Delete a file or a whole folder; nothing there is fine."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, onerror=_unless_gone)
    elif os.path.lexists(path):
        os.remove(path)


def _unless_gone(_function, _path, raised):
    """Raise what `shutil.rmtree` met, but where another process, or NFS, has deleted the file."""
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]


def discard(path):
    """Delete a folder in two moves: whole under its name until it is gone from there."""
    doomed = temporary_name(path)
    os.replace(path, doomed)
    remove(doomed)


def rename(source, target):
    """Move within one file system in one step; a file at `target` is replaced."""
    os.replace(source, target)


def absolute(path):
    """Return the path from the root."""
    return os.path.abspath(path)


def resolved(path):
    """Return the path from the root without links, which two names of one file have in common."""
    return os.path.realpath(path)


def sync(path):
    """Write a file or folder through to the disk, so that it outlasts a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(path):
    """Return a name beside `path` that no finished file has and that `clean_temporary` knows."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, marked(name))


def marked(name):
    """Return the name of what becomes `name` once it is whole, another one each time."""
    return f".tmp-{_shortened(name)}-{uuid.uuid4().hex[:12]}"


def _shortened(name):
    """Return a name that can be `marked` twice: of a long one its beginning and a digest."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST or is_left_over(name):
        return name
    digest = hashlib.blake2b(data, digest_size=6).hexdigest()
    return f"{data[:_LONGEST - 13].decode(errors='ignore')}-{digest}"


def is_left_over(found, name=None):
    """Return whether a name is that of what a killed run left half-written of `name`, or of
    anything."""
    of = ".+" if name is None else re.escape(_shortened(name))
    return bool(re.fullmatch(rf"(\.tmp-)+{of}(-[0-9a-f]{{12}})+", found))


def left_over(folder, name=None):
    """Return the paths of what killed runs left half-written in `folder`, of `name` or of
    anything."""
    return [os.path.join(folder, found) for found in list_folder(folder)
            if is_left_over(found, name)]


def read_ranges(ranges):
    """Yield the bytes from `start` to `end` of files, `[(path, start, end)]`."""
    for path, start, end in ranges:
        with open(path, "rb") as stream:
            stream.seek(start)
            yield stream.read(end - start)


@contextlib.contextmanager
def atomic_path(path):
    """See `files.atomic_path`."""
    temporary = temporary_name(path)
    with folder_while_used(os.path.dirname(path)):
        try:
            with explained("write", path):
                yield temporary
                for name in names_below(temporary):
                    sync(os.path.join(temporary, name))
                sync(temporary)
                if os.path.isdir(temporary):
                    os.rename(temporary, path)
                else:
                    os.replace(temporary, path)
                sync(os.path.dirname(os.path.abspath(path)))
        except BaseException:
            with contextlib.suppress(OSError):
                remove(temporary)
            raise
