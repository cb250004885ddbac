"""One door to files and folders: every path that a user names is read and written here.

A path is a str or `os.PathLike`, a local one or, with a scheme, one in an object store (`s3://`,
`gs://`, `memory://`): `disk` and `object_store` do what the functions here say. Writing is atomic:
a file or folder appears under its name whole, or not at all; on a store see `object_store` for what
that means.
"""

import contextlib
import gzip
import json
import os
import shutil
import sys

from bert_tf.errors import BertTfError, UnavailableError, UsageError, explain
from bert_tf.storage import disk, encodings, lease, object_store, staging
from bert_tf.storage.file_forms import is_compressed, refuse_packed, spellings, suffix  # noqa: F401
from bert_tf.storage.object_store import is_remote  # noqa: F401


def _place(path):
    return object_store if is_remote(path) else disk


def explained(action, path):
    """Return a context that turns what fails with `path` into a BertTfError with what to do."""
    return _place(path or "").explained(action, path)


def refuse_secrets(text):
    """Raise UsageError of a path with credentials in it; any other text is fine."""
    if text.startswith(tuple(f"{scheme}://" for scheme in object_store.SCHEMES)):
        object_store.check(text)


def expand(patterns):
    """Return the paths matching the glob `patterns`, in order, each pattern's matches sorted.

    The name of a file that is there is no pattern; of several names of a file the first counts.

    Raises:
        UsageError: a pattern matches no file.
    """
    paths = {}
    for pattern in patterns:
        place = _place(pattern)
        matches = next(filter(None, ([name] if place.is_file(name) else place.expand(name)
                                     for name in spellings(os.fspath(pattern)))), None)
        if not matches:
            raise UsageError(explain(f"no file matches {pattern}",
                                     attempt="a file or a quoted pattern such as 'texts/*.txt'"))
        for path in matches:
            paths.setdefault(resolved(path), path)
    return list(paths.values())


def inside(folder, name):
    """Return the path of a file in a folder that others made, whose name one of its files may
    contain.

    Links are followed within the folder, and to the `blobs` of Hugging Face's cache, whose folders
    consist of links: those of the repository, and those that repositories share.

    Raises:
        BertTfError: the name, or a link, leads out of the folder.
    """
    path = os.path.join(folder, name)
    leads_out = os.path.isabs(name) or ".." in name.split("/")
    if not is_remote(folder):  # a store has no links
        with explained("read", path):
            root, real = os.path.realpath(folder), os.path.realpath(path)
        cache, snapshots, _ = root.rpartition(f"{os.sep}snapshots{os.sep}")
        within = [root] + [os.path.join(cached, "blobs") for cached in (
            cache, os.path.dirname(cache)) if snapshots]
        leads_out = leads_out or all(os.path.commonpath([each, real]) != each for each in within)
    if leads_out:
        raise BertTfError(explain(f"{name!r} in {folder} points outside its folder", "a file in it",
                                  "copying the file itself there, if you trust it"))
    return path


def open_stored(path):
    """Open for reading bytes as they are stored, also those of a `.gz`; positions can be sought."""
    with explained("read", path):
        return _place(path).open_stored(path)


def read_ranges(path, ranges):
    """Yield the bytes of a file as they are stored from each `start` to before `end`, or to its
    end; from a store these alone are read, eight of them in memory."""
    for i in range(0, len(ranges), 8):
        with explained("read", path):
            yield from _place(path).read_ranges([(path, *each) for each in ranges[i:i + 8]])


def open_binary(path):
    """Open for reading bytes; a name ending in `.gz` is decompressed."""
    stream = open_stored(path)
    with explained("read", path):
        return gzip.open(stream, "rb") if is_compressed(path) else stream


def read_line_blocks(path, block_size=1 << 20, encoding=None, errors="strict"):
    """Yield the lines of a text file (optionally `.gz`), in lists of about `block_size` bytes.

    Lines come without their ends; a BOM is dropped.

    Args:
        path: the file.
        block_size: in bytes.
        encoding, errors: as of `encodings.Decoder`.

    Raises:
        UsageError: the file is an archive, by its name.
        BertTfError: unreadable, or damaged gzip; the line number is named.
        EncodingError: the text is of another encoding; line and column are named.
    """
    refuse_packed(path)
    with explained("read", path), open_binary(path) as stream:
        yield from encodings.line_blocks(stream, path, block_size, encoding, errors)


def read_lines(path, encoding=None, errors="strict"):
    """Yield the lines of a text file one by one; see `read_line_blocks`."""
    for lines in read_line_blocks(path, encoding=encoding, errors=errors):
        yield from lines


def read_standard_input():
    """Yield the lines of standard input one by one; see `read_line_blocks`."""
    # Opened by its name, a file would begin anew after what others read of it, and a socket fails.
    if sys.stdin is None:
        raise BertTfError("cannot read standard input: it is closed")
    path = "standard input"
    with explained("read", path), sys.stdin.buffer as stream:
        for lines in encodings.line_blocks(stream, path):
            yield from lines


def read_text(path, encoding=None):
    """Read the whole of a small text file; see `read_line_blocks`."""
    return "\n".join(read_lines(path, encoding))


def read_json(path, encoding=None):
    """Read the value in a JSON file; BertTfError names the line of a syntax error."""
    try:
        return json.loads(read_text(path, encoding))
    except json.JSONDecodeError as error:
        lines = "naming it .jsonl if each line is a value" if error.msg == "Extra data" else ""
        raise BertTfError(explain(f"{path} line {error.lineno}: invalid JSON: {error.msg}",
                                  attempt=lines)) from error
    except (RecursionError, ValueError) as error:  # the latter of Python's own bound
        what = "nested too deeply" if isinstance(error, RecursionError) else "number too long"
        raise BertTfError(f"{path}: invalid JSON: {what}") from error


def read_json_object(path):
    """Read the dict in a JSON file; UsageError where it holds anything else."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise UsageError(explain(f"{path}: {type(values).__name__}", "a JSON object"))
    return values


def make_folder(path):
    """Create a folder and its parents; an existing one is fine."""
    with explained("create", path):
        _place(path).make_folder(path)
    return path


def exists(path):
    """Return whether a file or folder is there."""
    return _place(path).exists(path)


def is_file(path):
    """Return whether a file is there."""
    return _place(path).is_file(path)


def is_folder(path):
    """Return whether a folder is there."""
    return _place(path).is_folder(path)


def is_whole(path):
    """Return whether a folder that is written in one, through `atomic_path`, is there."""
    return _place(path).is_whole(path)


def list_folder(path):
    """Return sorted names in a folder; empty where there is none."""
    with explained("list", path):
        return _place(path).list_folder(path)


def size(path):
    """Return the size of a file in bytes."""
    with explained("read", path):
        return _place(path).size(path)


def version(path):
    """Return `(size, mark)` of a file; the mark is another one once it is written again."""
    with explained("read", path):
        return _place(path).version(path)


def absolute(path):
    """Return the path from the root, without what leads nowhere."""
    return _place(path).absolute(path)


def resolved(path):
    """Return the path that all names of one file have in common: from the root, without links."""
    return _place(path).resolved(path)


def base_name(path):
    """Return the name of a file or folder without what is before it."""
    return os.path.basename(absolute(path))


def remove(path):
    """Delete a file or a whole folder; nothing there is fine."""
    with _writing("delete", path):
        _place(path).remove(path)


def discard(path):
    """Delete a finished folder, of which no part is ever there without the rest."""
    with _writing("delete", path):
        _place(path).discard(path)


def rename(source, target):
    """Move a file or folder within one file system or bucket.

    On a disk in one step; a file at `target` is replaced.
    """
    with _writing("write", target):
        _place(source).rename(source, target)


def copy(source, target):
    """Write the file `target` as `source` is."""
    with atomic_path(target) as temporary, open_stored(source) as stream, \
            open(temporary, "wb") as copied, explained("read", source):
        shutil.copyfileobj(stream, copied, 1 << 20)


def temporary_name(path):
    """Return a name beside `path` that no finished file has and that `clean_temporary` knows."""
    return _place(path).temporary_name(path)


def clean_temporary(folder, name=None):
    """Delete what killed runs left half-written in `folder`: of anything, or of `name` alone."""
    with explained("list", folder):
        found = _place(folder).left_over(folder, name)
    for path in found:
        remove(path)


@contextlib.contextmanager
def _writing(action, path):
    """Wrap `explained`, and refuse where the folder has become another process's."""
    if is_remote(path):
        lease.check(path)
    with explained(action, path):
        yield


@contextlib.contextmanager
def atomic_path(path):
    """Yield a temporary path, a local one; what the block made there appears at `path`.

    The block may write a file or fill a folder there; nothing appears where it ends with an error.
    A folder never replaces another one; in a store it needs one of `object_store.MANIFESTS`, as
    `checksums.new_folder` gives it.
    """
    if not is_remote(path):
        with disk.atomic_path(path) as temporary:
            yield temporary
        return
    object_store.check(path)
    with staging.workspace() as folder:
        temporary = os.path.join(folder, base_name(path))
        with disk.explained("write", f"{path} (first into {folder})"):
            yield temporary
        with _writing("write", path):
            object_store.upload(temporary, path)


def write_bytes(path, data):
    """Write a file atomically."""
    if is_remote(path):
        with _writing("write", path):
            object_store.write(path, data)
        return
    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        stream.write(data)


def write_text(path, text):
    """Write a UTF-8 file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path, value):
    """Write a JSON file atomically, keys in the order given.

    A file's name that is no UTF-8, which Python holds as surrogates, has JSON's own escapes.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json_lines(path, values):
    """Write JSON lines atomically, one value after the other; names as in `write_json`."""
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8",
                                              errors="backslashreplace") as stream:
        for value in values:
            stream.write(json.dumps(value, ensure_ascii=False) + "\n")


def append_text(path, text):
    """Append all of a text, or nothing, to a local, log-like file, created where absent."""
    before = size(path) if exists(path) else 0
    try:
        with explained("write", path), open(path, "a", encoding="utf-8") as stream:
            stream.write(text)
    except UnavailableError:
        with contextlib.suppress(OSError):
            os.truncate(path, before)  # a full disk has taken the beginning
        raise


def each(function, paths, *others, stop=lambda: None):
    """Return what `map` gives as a list; where paths are in a store, several at a time.

    `stop` is called when an error or Ctrl-C ends that: what is being done then is waited for.
    """
    paths = list(paths)
    if any(map(is_remote, paths)):
        return object_store.each(function, paths, *others, stop=stop)
    return list(map(function, paths, *others))
