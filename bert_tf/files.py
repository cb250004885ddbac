"""One door to the file system: every path that a user names is read and written here.

Writing is atomic: a file or folder appears under its name whole, or not at all.
"""

import codecs
import contextlib
import errno
import glob
import gzip
import json
import os
import re
import shutil
import uuid
import zlib

from bert_tf.errors import BertTfError, UsageError, explain


@contextlib.contextmanager
def explained(action, path):
    """Turn an OSError about `path` into a BertTfError that says what to do."""
    path = path or "''"
    try:
        yield
    except FileNotFoundError as error:
        raise BertTfError(f"cannot {action} {path}: no such file or folder") from error
    except PermissionError as error:
        raise BertTfError(explain(f"cannot {action} {path}: permission denied",
                                  attempt="another place or other rights")) from error
    except IsADirectoryError as error:
        raise BertTfError(f"cannot {action} {path}: it is a folder, not a file") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise BertTfError(explain(f"cannot {action} {path}: a file is where a folder should be",
                                  attempt="another place")) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BertTfError(explain(
                f"cannot {action} {path}: the disk is full (what was finished before is kept)",
                attempt="freeing space and running the same command again")) from error
        raise BertTfError(f"cannot {action} {path}: {error.strerror or error}") from error
    except ValueError as error:
        if str(path).isprintable():
            raise
        raise BertTfError(f"cannot {action} {path!r}: no name of a file") from error


def expand(patterns):
    """Paths matching the glob `patterns`, in order, each pattern's matches sorted.

    Raises:
        UsageError: a pattern matches no file.
    """
    paths = []
    for pattern in patterns:
        matches = sorted(glob.glob(pattern, recursive=True))
        matches = [match for match in matches if not os.path.isdir(match)]
        if not matches:
            if os.path.isdir(pattern):
                raise UsageError(explain(f"{pattern} is a folder", "files",
                                         f"'{os.path.join(pattern, '*')}'"))
            attempt = "a file or a quoted pattern such as 'texts/*.txt'"
            raise UsageError(explain(f"no file matches {pattern}", attempt=attempt))
        paths.extend(path for path in matches if path not in paths)
    return paths


def inside(folder, name):
    """Path of a file in a folder that others made, whose name one of its files may tell.

    Links are followed within the folder, and to the `blobs` of Hugging Face's cache, whose folders
    consist of links.

    Raises:
        BertTfError: the name, or a link, leads out of the folder.
    """
    path = os.path.join(folder, name)
    if "://" in folder:  # where there are no links
        root = real = folder
    else:
        with explained("read", path):
            root, real = os.path.realpath(folder), os.path.realpath(path)
    cache, revision = os.path.split(os.path.dirname(root))
    blobs = os.path.join(cache, "blobs") if revision == "snapshots" else root
    if os.path.isabs(name) or ".." in name.split("/") \
            or os.path.commonpath([root, real]) != root and os.path.dirname(real) != blobs:
        raise BertTfError(explain(f"{path!r} leads out of its folder", "a file in it",
                                  "putting the file itself there, if it is to be trusted"))
    return path


def open_binary(path):
    """Open for reading bytes; a name ending in `.gz` is decompressed."""
    with explained("read", path):
        return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def read_line_blocks(path, block_size=1 << 20):
    """Yield the lines of a UTF-8 file (optionally `.gz`), in lists of about `block_size` bytes.

    Lines come without their ends; a BOM is dropped.

    Raises:
        BertTfError: unreadable, damaged gzip, or not UTF-8; the line number is named.
    """
    number = 0
    rest = b""
    with explained("read", path), open_binary(path) as stream:
        try:
            while data := stream.read(block_size):
                if not number and not rest:
                    data = data.removeprefix(codecs.BOM_UTF8)
                lines, newline, tail = data.rpartition(b"\n")
                if newline:
                    block = _decoded_lines(rest + lines, path, number)
                    rest = tail
                    number += len(block)
                    yield block
                else:
                    rest += data
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BertTfError(f"{path} after line {number}: damaged gzip: {error}") from error
        if rest:
            yield _decoded_lines(rest, path, number)


def _decoded_lines(data, path, number):
    """Lines in `data`, which begins behind line `number` of the file."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = number + 1 + data.count(b"\n", 0, error.start)
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise BertTfError(explain(
            f"{path} line {line}: byte {data[error.start]:#04x} at column {column} is not UTF-8",
            attempt="converting the file, for example with iconv -t UTF-8")) from error
    return [line.rstrip("\r") for line in lines] if b"\r" in data else lines


def read_lines(path):
    """Yield the lines of a UTF-8 file one by one; see `read_line_blocks`."""
    for lines in read_line_blocks(path):
        yield from lines


def read_json_texts(path):
    """Yield the field `text` of each line of a `.jsonl` file; blank lines are passed over.

    Raises:
        BertTfError: as `read_lines`, or a line is no object with a string `text`.
    """
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
            text.encode("utf-8")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BertTfError(explain(f"{path} line {number}: not a document",
                                      'an object such as {"text": "One sentence."}')) from error
        yield text


def read_text(path):
    """The whole of a small UTF-8 file."""
    return "\n".join(read_lines(path))


def read_json(path):
    """The value in a JSON file; BertTfError names the line of a syntax error."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BertTfError(f"{path} line {error.lineno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise BertTfError(f"{path}: not JSON that anyone wrote: nested too deeply") from error
    except ValueError as error:  # of Python's own bound
        raise BertTfError(f"{path}: not JSON that anyone wrote: a number without end") from error


def read_json_object(path):
    """The dict in a JSON file; UsageError where it holds anything else."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise UsageError(explain(f"{path}: {type(values).__name__}", "a JSON object"))
    return values


def make_folder(path):
    """Create a folder and its parents; an existing one is fine."""
    with explained("create", path):
        os.makedirs(path or ".", exist_ok=True)
    return path


def exists(path):
    """Whether a file or folder is there."""
    return os.path.exists(path)


def list_folder(path):
    """Sorted names in a folder; empty where there is none."""
    if not os.path.isdir(path):
        return []
    with explained("list", path):
        return sorted(os.listdir(path))


def size(path):
    """Size of a file in bytes."""
    with explained("read", path):
        return os.path.getsize(path)


def remove(path):
    """Delete a file or a whole folder; nothing there is fine."""
    with explained("delete", path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)


def rename(source, target):
    """Move within one file system in one step; a file at `target` is replaced."""
    with explained("write", target):
        os.replace(source, target)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(path):
    """A name beside `path` that no finished file has and that `clean_temporary` knows."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, f".tmp-{name}-{uuid.uuid4().hex[:12]}")


def clean_temporary(folder, name=None):
    """Delete what killed runs left half-written in `folder`: of anything, or of `name` alone."""
    of = ".+" if name is None else re.escape(name)
    for found in list_folder(folder):
        if re.fullmatch(rf"(\.tmp-)+{of}(-[0-9a-f]{{12}})+", found):
            remove(os.path.join(folder, found))


@contextlib.contextmanager
def atomic_path(path):
    """Yield a temporary path; rename it to `path` when the block ends without an error.

    The block may write a file or fill a folder there. A folder never replaces another one.
    """
    make_folder(os.path.dirname(os.path.abspath(path)))
    temporary = temporary_name(path)
    try:
        with explained("write", path):
            yield temporary
            for folder, _, names in os.walk(temporary):
                for name in names:
                    _sync(os.path.join(folder, name))
            _sync(temporary)
            if os.path.isdir(temporary):
                os.rename(temporary, path)
            else:
                os.replace(temporary, path)
            _sync(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        with contextlib.suppress(BertTfError):
            remove(temporary)
        raise


def write_bytes(path, data):
    """Write a file atomically."""
    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        stream.write(data)


def write_text(path, text):
    """Write a UTF-8 file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path, value):
    """Write a JSON file atomically, keys in the order given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_text(path, text):
    """Append to a log-like file, created where absent, in one write."""
    with explained("write", path), open(path, "a", encoding="utf-8") as stream:
        stream.write(text)
