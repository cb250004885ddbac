"""Object stores: half of `storage.files`, for `s3://`, `gs://` and `memory://`, by fsspec.

A store knows objects and no folders: a folder is there while a name begins with it. An object
appears under its name whole or not at all, but several objects cannot appear together, and none
can be renamed. So a folder is uploaded with its manifest last and deleted with its manifest first,
and one without a manifest is taken for none. While it is uploaded or deleted it holds a mark, by
which what a killed process left is distinguished from what somebody else put there.
"""

import concurrent.futures
import contextlib
import errno
import logging
import os
import re

from bert_tf.errors import BertTfError, UnavailableError, UsageError, explain, needs
from bert_tf.storage import disk

# The last file of a finished folder: of a model or a version, or of a checkpoint.
MANIFESTS = ("checksums.json", "state.json")
_MARK = ".uploading"
SCHEMES = {"s3": "s3fs", "gs": "gcsfs", "memory": "fsspec"}  # and packages
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_AT_ONCE = 8  # objects that are copied at a time
_BLOCK = 4 << 20  # bytes of a request while a file is read
# Whose errors are no OSErrors.
_LIBRARIES = ("botocore", "aiobotocore", "s3fs", "google", "gcsfs", "aiohttp", "fsspec")
_CREDENTIALS = {"s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws",
                "gs": "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS"}


def is_remote(path):
    """Return whether a path has a scheme; one of `pathlib` never has."""
    return bool(_REMOTE.match(os.fspath(path)))


def check(path):
    """Refuse a scheme that is not known, and credentials in a path, which logs would keep.

    Raises:
        UsageError: the secret is not repeated.
    """
    scheme, rest = path.split("://", 1)
    if scheme not in SCHEMES:
        raise UsageError(explain(f"{scheme}://… is not supported",
                                 f"a local path, or {'://, '.join(SCHEMES)}://"))
    if "@" in rest.split("/")[0]:
        raise UsageError(explain(f"a {scheme}:// path with credentials in it",
                                 f"{scheme}://bucket/name", _CREDENTIALS.get(scheme)))


def _find(path):
    """Return the file system of a path, and the path's name there."""
    check(path)
    scheme = path.split("://", 1)[0]
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # errors are reported below, in a line
    with needs("cloud", f"{scheme}:// paths need the package {SCHEMES[scheme]}"):
        import fsspec

        # What was listed once changes under other processes: nothing of it is remembered.
        system = fsspec.filesystem(scheme, use_listings_cache=False)
    name = system._strip_protocol(path).rstrip("/")
    if not name:
        raise UsageError(explain(f"{path} has no bucket name", f"{scheme}://bucket/name"))
    return system, name


@contextlib.contextmanager
def explained(action, path):
    """Turn a store's error into a BertTfError that names the path."""
    def refused(what, attempt=None, kind=UnavailableError):
        return kind(explain(f"cannot {action} {path}: {what}", attempt=attempt))

    scheme = path.split("://", 1)[0]
    try:
        yield
    except FileNotFoundError as error:
        raise refused("there is no such bucket" if "specified bucket" in str(error)
                      else "no such file or folder", kind=BertTfError) from error
    except PermissionError as error:
        raise refused("access denied for these credentials",
                      _CREDENTIALS.get(scheme)) from error
    except Exception as error:
        library = type(error).__module__.split(".")[0]
        if not isinstance(error, OSError) and library not in _LIBRARIES:
            raise
        if isinstance(error, OSError) and library == "builtins" and (
                error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT)):
            raise  # of the local disk
        text = " ".join(str(error).split()) or type(error).__name__
        if "Credentials" in type(error).__name__ or "Anonymous caller" in text:
            raise refused("no credentials found", _CREDENTIALS.get(scheme)) from error
        if re.search("Connect|Timeout", type(error).__name__):
            raise refused(f"the store is unreachable ({text})",
                          "the same command later: what is finished is kept") from error
        raise refused(f"the store reports: {text}") from error


def _info(path):
    """Return what the store reports of a file or folder, or None where there is neither."""
    system, name = _find(path)
    with explained("read", path):
        try:
            return system.info(name)
        except FileNotFoundError:
            return None


def version(path, needed=True):
    """Return `(size, mark)` of an object; the mark is another one once it is written again. Where
    there is none, raise BertTfError, or return None if it is not `needed`."""
    found = _info(path)
    if found is None or found["type"] != "file":
        if needed:
            raise BertTfError(f"cannot read {path}: no such file")
        return None
    marks = (found.get(name) for name in ("ETag", "etag", "generation", "mtime", "created"))
    return found["size"], str(next(filter(None, marks), ""))


def exists(path):
    """Return whether an object, or any whose name begins with this folder, is there."""
    return _info(path) is not None


def is_file(path):
    """Return whether an object is there."""
    return (_info(path) or {}).get("type") == "file"


def is_folder(path):
    """Return whether objects are there whose names begin with this folder."""
    return (_info(path) or {}).get("type") == "directory"


def is_whole(path):
    """Return whether a folder was uploaded to its end."""
    return any(is_file(f"{path}/{name}") for name in MANIFESTS)


def is_foreign(path):
    """Return whether what is there was not uploaded by this module: no manifest, and no mark."""
    return not any(is_file(f"{path}/{name}") for name in (*MANIFESTS, _MARK))


def list_folder(path):
    """Return sorted names in a folder; empty where there is none."""
    return sorted(_types(path))


def _types(path):
    """Return `{name: "file" or "directory"}` of what is in a folder."""
    system, name = _find(path)
    with explained("list", path):
        try:
            found = system.ls(name, detail=True)
        except FileNotFoundError:
            return {}
    types = ((entry["name"].rstrip("/"), entry["type"]) for entry in found)
    return {each.rsplit("/", 1)[1]: kind for each, kind in types if each != name}


def _found(path):
    """Return `{name: size}` of all objects in a folder, or of one, by the store's own names, which
    end in `/` where a console has made an object for an empty folder."""
    system, name = _find(path)
    with explained("list", path):
        return {each: entry["size"] for each, entry in system.find(name, detail=True).items()}


def _objects(path):
    """Return `{relative name: size}` of all objects in a folder, without those of empty folders,
    see `_found`; of one object, `{"": its size}`."""
    _, name = _find(path)
    return {each.removeprefix(name).lstrip("/"): size for each, size in _found(path).items()
            if not each.endswith("/")}


def size(path):
    """Return the size of an object in bytes."""
    return version(path)[0]


def open_stored(path):
    """Open for reading bytes as they are stored, a few megabytes at a time."""
    system, name = _find(path)
    return system.open(name, "rb", block_size=_BLOCK, cache_type="readahead")


def expand(pattern):
    """Return the sorted paths of the objects that match a glob pattern; UsageError of a folder."""
    system, name = _find(pattern)
    with explained("list", pattern):
        found = system.glob(name, detail=True)
    if not re.search(r"[*?[]", name) and any(e["type"] != "file" for e in found.values()):
        raise UsageError(explain(f"{pattern} is a folder", "files",
                                 f"'{pattern.rstrip('/')}/*'"))
    scheme = pattern.split("://", 1)[0]
    return sorted(f"{scheme}://{each.lstrip('/')}" for each, entry in found.items()
                  if entry["type"] == "file" and not each.endswith("/"))


def make_folder(path):
    """Do nothing: a folder comes with its first object."""
    check(path)


def each(function, *arguments, stop=lambda: None):
    """Return the results of a function for each of several objects, some at a time; see `files`."""
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        asked = [pool.submit(function, *args) for args in zip(*arguments, strict=True)]
        try:
            for answered in concurrent.futures.as_completed(asked):
                answered.result()
        except BaseException:
            stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [answered.result() for answered in asked]


def remove(path):
    """Delete an object or a folder with all in it, manifests first; nothing there is fine."""
    _, root = _find(path)
    names, mark = _found(path), f"{root}/{_MARK}"
    firsts = [f"{root}/{name}" for name in MANIFESTS if f"{root}/{name}" in names]
    rest = [name for name in names if name not in (*firsts, mark)]
    if firsts:
        write(f"{path}/{_MARK}", b"")  # by which what a killed process leaves is known
    for group in (firsts, rest, [mark] if firsts or mark in names else []):
        each(lambda name: _delete(path, name), group)


def _delete(path, name=None):
    """Delete an object, or of a folder the one of this `name`, the store's own."""
    system, own = _find(path)
    with explained("delete", path), contextlib.suppress(FileNotFoundError):
        system.rm_file(name or own)


discard = remove


def rename(source, target):
    """Copy inside the store, manifest last, and delete the source, manifest first."""
    system, _ = _find(source)
    names = _objects(source)

    def copy(name):
        old, new = (f"{path}/{name}" if name else path for path in (source, target))
        with explained("write", new):
            system.cp_file(system._strip_protocol(old), system._strip_protocol(new))

    last = [name for name in names if name in MANIFESTS]
    if last:
        write(f"{target}/{_MARK}", b"")  # as of an upload
    each(copy, [name for name in names if name not in (*MANIFESTS, _MARK)])
    each(copy, last)
    if last:
        _delete(f"{target}/{_MARK}")
    remove(source)


def absolute(path):
    """Return the path without a `/` at its end."""
    check(path)
    return path.rstrip("/")


resolved = absolute


def temporary_name(path):
    """Return a name beside `path` that no finished file has and that `clean_temporary` knows."""
    folder, name = os.path.split(path.rstrip("/"))
    return f"{folder}/{disk.marked(name)}"


def left_over(folder, name=None):
    """Return the paths of what killed runs left half-written in `folder`, of `name` or of
    anything."""
    left = []
    for found, kind in _types(folder).items():
        path = f"{folder.rstrip('/')}/{found}"
        if disk.is_left_over(found, name):
            left.append(path)
        # Of objects, of which there may be any number, none is asked for.
        elif kind == "directory" and name in (None, found) and is_file(mark := f"{path}/{_MARK}"):
            left.append(mark if is_whole(path) else path)
    return left


def write(path, data, **conditions):
    """Write an object of bytes; `conditions` are fsspec's `mode="create"` or S3's `IfMatch`."""
    system, name = _find(path)
    with explained("write", path):
        system.pipe_file(name, data, **conditions)


def upload(source, path):
    """Copy a local file to an object, or a local folder to a folder that is not there.

    Raises:
        BertTfError: something else is there, or the store does not take it.
    """
    (_upload_folder if os.path.isdir(source) else _upload_file)(source, path)


def _upload_file(source, path):
    system, name = _find(path)
    with explained("write", path):
        system.put_file(source, name)


def _upload_folder(source, path):
    names = disk.names_below(source)
    last = [name for name in MANIFESTS[::-1] if name in names]
    if not last:
        raise ValueError(f"{path}: a folder without one of {', '.join(MANIFESTS)}")
    there = _objects(path)
    if there and (_MARK not in there or is_whole(path)):
        raise BertTfError(explain(f"cannot write {path}: the folder exists already",
                                  attempt="another path"))
    remove(path)
    write(f"{path}/{_MARK}", b"")
    rest = [name for name in names if name not in last]
    each(lambda name: _upload_file(os.path.join(source, name), f"{path}/{name}"), rest)
    there = _objects(path)
    for name in rest:
        if there.get(name) != os.path.getsize(os.path.join(source, name)):
            raise UnavailableError(explain(
                f"cannot write {path}/{name}: the store has {there.get(name, 0)} bytes of it",
                attempt="the same command again"))
    for name in last:
        _upload_file(os.path.join(source, name), f"{path}/{name}")
    _delete(f"{path}/{_MARK}")


def download(paths, targets):
    """Copy objects to local files."""
    def copy(path, target):
        system, name = _find(path)
        with explained("read", path):
            system.get_file(name, target)

    each(copy, paths, targets)


def read_ranges(ranges):
    """Read the bytes from `start` to `end` of objects, `[(path, start, end)]`, all at once."""
    systems, names = zip(*(_find(path) for path, _, _ in ranges), strict=True)
    _, starts, ends = zip(*ranges, strict=True)
    with explained("read", ranges[0][0]):
        return systems[0].cat_ranges(list(names), list(starts), list(ends), on_error="raise")
