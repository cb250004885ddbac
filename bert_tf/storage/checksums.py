"""Checksums of what was written, so that a file truncated or changed later is detected when read.

`checksums.json` is written last of all, at the top of a finished folder: `{"files": {name: {"size",
"blake2b"}}}`, names relative to the folder with `/` between parts, sizes in bytes. A JSON file that
changes while a run continues holds the digest of its other entries, under `blake2b`. What has no
checksums, such as another tool's folder, is read all the same.
"""

import contextlib
import hashlib
import json
import os
import re

from bert_tf.errors import BertTfError, UnavailableError, explain, print_note
from bert_tf.storage import disk, files, hub, local_copies, object_store

NAME = "checksums.json"
_SEAL = "blake2b"
_TENSORFLOW = r"_config\.json$|\.index$|\.data-\d"  # checkpoints, which no Hub's repository has
# Settings of who runs the server, not what was made: names, and what stands in digests of models
# for whatever they hold, `manifest.digest_file` of what exports write.
EDITED = {"batching_params.pbtxt": "30bed8d700054d7b139b8b6adbf777c1"}


@contextlib.contextmanager
def new_folder(path):
    """Yield a temporary folder that becomes `path`, whole and with its checksums, at the end."""
    with files.atomic_path(path) as temporary:
        files.make_folder(temporary)
        yield temporary
        write(temporary)


def write(folder):
    """Write `checksums.json` about all files in a folder and its subfolders."""
    names = {name.replace(os.sep, "/") for name in disk.names_below(folder)} - {NAME}
    files.write_json(os.path.join(folder, NAME), {"files": facts(folder, sorted(names))})


def check(folder, names=None):
    """Compare a folder with its `checksums.json`, where it has one.

    Args:
        folder: as `write` left it, or copied from there; further files are not checked, nor
            settings that are there to be edited.
        names: files to look at; None for all of them.

    Raises:
        BertTfError: a file is missing, truncated or changed.
    """
    path = os.path.join(folder, NAME)
    if not files.exists(path):
        return
    held = {name: facts for name, facts in listed(folder).items() if name not in EDITED}
    if names is not None:
        held = {name: held[name] for name in names if name in held}
    check_files(folder, held, f"copying or making {folder} again; or, if the change is meant, "
                              f"deleting {path}")


def listed(folder):
    """Return what a folder's `checksums.json` says of its files, see `facts`.

    Raises:
        BertTfError: it is missing or damaged.
    """
    path = os.path.join(folder, NAME)
    held = files.read_json(path)
    held = held.get("files") if isinstance(held, dict) else None
    if not isinstance(held, dict):
        raise BertTfError(explain(f"{path} is damaged: it lists no files",
                                  attempt=f"copying {folder} again, or deleting the file"))
    return held


def digest(folder):
    """Return a digest of all files of a folder that `write` finished; errors as of `listed`."""
    return digest_of(listed(folder))


def digest_of(values):
    """Return a digest of plain values as JSON, whatever the order of keys."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def opened(folder, own=True):
    """Return the folder to read from, checked: itself, or of one in an object store, or of the
    Hugging Face Hub, a copy in the cache.

    Args:
        folder: path.
        own: whether only `write` can have finished it. Another tool's folder in a store, without
            checksums, is no finished one of ours, and is read file by file where it lies.

    Raises:
        BertTfError: as of `check`, or it has not been uploaded to its end, or as of
            `refuse_links` where another tool may have written it.
    """
    folder = hub.local(folder)
    if not own:
        refuse_links(folder)
    if files.is_remote(folder) and (own or not object_store.is_foreign(folder)):
        folder = local_copies.local(folder)
    check(folder)
    return folder


def refuse_links(folder):
    """Raise BertTfError if a file of the model in a folder leads out of it, or is none but a pipe
    or a device, which may never end; `files.inside` says which links are fine."""
    if files.is_remote(folder):  # a store has neither
        return
    names = files.list_folder(folder)
    within = [f"{part}/{name}" for part in filter(hub.is_part, [*names, "assets/tokenizer"])
              for name in files.list_folder(os.path.join(folder, part))]
    tensors = [name for name in names if re.search(_TENSORFLOW, name)]
    for name in (*hub.wanted([*names, *within]), *tensors):
        path = files.inside(folder, name)
        if files.exists(path) and not (files.is_file(path) or files.is_folder(path)):
            raise BertTfError(explain(f"{path} is a pipe or a device", "a file"))


def facts(folder, names):
    """Return the size and digest of files: `{name: {"size", "blake2b"}}`."""
    return {name: _facts(os.path.join(folder, name)) for name in names}


def check_files(folder, held, attempt="", whole=True):
    """Compare the files in a folder with what `facts` gave; without `whole` their sizes alone.

    Raises:
        BertTfError: a file is missing, truncated or changed; `attempt`, if given, says what to do.
    """
    for name, stated in held.items():
        path = files.inside(folder, name)
        if not files.exists(path):
            raise BertTfError(explain(f"{path} is missing", attempt=attempt))
        size = stated.get("size") if isinstance(stated, dict) else None
        if files.size(path) != size:
            raise BertTfError(explain(f"{path} is damaged: it has {files.size(path)} bytes",
                                      f"{size}", attempt))
        if whole and _facts(path) != stated:
            raise BertTfError(explain(
                f"{path} is damaged: its content changed since it was written", attempt=attempt))


def kept(check, path):
    """Return whether a check of what was made passes; otherwise what is at `path` is removed, to be
    made again.

    Args:
        check: function without arguments that raises BertTfError of what is missing or damaged.
        path: of a file or folder.

    Raises:
        UnavailableError: it cannot be read now.
    """
    try:
        check()
    except UnavailableError:
        raise  # it may be sound, and took long to make
    except BertTfError as error:
        print_note(f"{error}; it is made again")
        files.remove(path)
        return False
    return True


def write_sealed(path, values):
    """Write a dict as a JSON file that `read_sealed` can tell from a changed one."""
    values = json.loads(json.dumps(values))  # as it will be read
    files.write_json(path, {**values, _SEAL: digest_of(values)})


def read_sealed(path, attempt=""):
    """Read the dict in a JSON file, without its seal, which may be absent.

    Raises:
        BertTfError: it was changed since it was written, or is no JSON object; `attempt` says what
            to do, where something else helps than taking back the change.
    """
    try:
        values = files.read_json(path)
        if not isinstance(values, dict):
            raise BertTfError(f"{path} is damaged: it is no JSON object")
        seal = values.pop(_SEAL, None)
        if seal not in (None, digest_of(values)):
            raise BertTfError(f"{path} is damaged: its content changed since it was written (if "
                              f"that was meant, take its entry {_SEAL} out)")
    except BertTfError as error:
        raise type(error)(explain(str(error), attempt=attempt)) from error
    return values


def _facts(path):
    with files.explained("read", path), files.open_stored(path) as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    return {"size": files.size(path), "blake2b": digest.hexdigest()}
