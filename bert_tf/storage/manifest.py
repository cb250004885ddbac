"""Manifests of stages: finished work is reused, other work never overwritten."""

import concurrent.futures
import contextlib
import functools
import hashlib
import json
import os
import threading

import tqdm

from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.storage import checksums, files

# Options that say how and where to work, not what the result is: a run resumes under others. Of
# text the content counts, wherever it lies.
MAY_CHANGE = frozenset({
    "input", "output_dir", "export_dir", "overwrite", "discard_checkpoints", "verify_inputs",
    "num_processes", "num_devices", "strategy", "accumulate_steps", "gradient_checkpointing",
    "finish_now", "log_every", "eval_every", "eval_examples", "checkpoint_every",
    "checkpoint_minutes", "keep_checkpoints"})
_UNKNOWN_BEFORE = frozenset({"file_names"})  # the first indexes were built without a word of them
_BLOCK = 1 << 20
_BLOCKS = 64
_this_thread = threading.local()
_AGAIN = "--overwrite, which makes its files again"


def result_options(options):
    """Return those of a dict of options that decide the result."""
    return {name: value for name, value in options.items() if name not in MAY_CHANGE}


def changed_options(before, now):
    """Return the sorted names of the options that differ between two dicts.

    One that `before` does not have, as it is from before the option existed, was off then, or is
    not compared.
    """
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)
            and (name in before or now[name] and name not in _UNKNOWN_BEFORE)]


def digest_file(path):
    """Return a digest of a file's size and of up to 64 evenly spaced blocks of 1 MiB.

    Files up to 64 MiB are read whole; larger ones in the same time whatever their size, so that a
    change between two blocks that keeps the size is not seen.
    """
    length = files.size(path)
    digest = hashlib.blake2b(str(length).encode(), digest_size=16)
    count = min(_BLOCKS, -(-length // _BLOCK))
    starts = [block * _BLOCK if count < _BLOCKS else block * (length - _BLOCK) // (count - 1)
              for block in range(count)]
    for block in files.read_ranges(path, [(start, start + _BLOCK) for start in starts]):
        digest.update(block)
    return digest.hexdigest()


@functools.cache
def _samples(path, version):
    """Return `digest_file` of a large file, for all stages as long as its `version` stays."""
    return digest_file(path)


@functools.cache
def _read_whole(path, version):
    """Return the digest of all of a file, read once for all stages as long as its `version`
    stays."""
    digest = hashlib.blake2b(digest_size=16)
    with files.explained("read", path), files.open_stored(path) as stream:
        while block := stream.read(_BLOCK):
            if _this_thread.stopped.is_set():
                raise concurrent.futures.CancelledError
            digest.update(block)
    return digest.hexdigest()


def _facts(path, known=None, verify=False):
    """Return what distinguishes a file from another: `{"content"}`, of a large one with `version`
    and `samples`.

    Args:
        path: the file.
        known: facts from before, or None. Of a large file with that version and those samples the
            content is taken to be the same, too.
        verify: read it whole all the same.

    Returns: `known` itself where it is taken to hold.
    """
    size, mark = files.version(path)
    if size <= _BLOCK * _BLOCKS:
        return {"content": digest_file(path)}
    facts = {"version": [size, mark], "samples": _samples(path, (size, mark))}
    if known and not verify and facts.items() <= known.items():
        return known
    return {**facts, "content": _read_whole(path, (size, mark))}


def _facts_of(paths, known, verify=False):
    """Return `_facts` of each file, with what is `known` of it; a bar is shown of what takes
    long."""
    stopped = threading.Event()  # an error, or Ctrl-C, is not to wait for the other files
    with tqdm.tqdm(desc="reading inputs", total=len(paths), unit=" files", delay=2,
                   leave=False) as bar:
        def facts(path, before):
            _this_thread.stopped = stopped
            found = _facts(path, before, verify)
            bar.update()
            return found

        return files.each(facts, paths, known, stop=stopped.set)


@functools.cache
def _say_unread(first, count):
    others = f" and {count - 1:,} more" if count > 1 else ""
    print_note(f"assumed unchanged by size, time and samples: {first}{others}; --verify_inputs "
               "reads files whole")


def fingerprint(options, digests=()):
    """Return a digest of a stage's `options` (plain values) and of its inputs' digests."""
    return checksums.digest_of({"options": options, "inputs": list(digests)})


def finished(path, options, inputs=(), overwrite=False, verify=False, of=None, whole=True):
    """Return the manifest at `path` if the same stage finished there, else None.

    Args:
        path: the manifest file.
        options: the stage's options, plain values; those of `MAY_CHANGE` are not compared.
        inputs: files the stage reads.
        overwrite: take a different manifest for none.
        verify: read inputs above 64 MiB whole, also where size, time and samples are the same.
        of: the file that the stage makes, where it makes one; None where it fills a folder.
        whole: whether the files that it has checksums of are to be as they were written.

    Raises:
        UsageError: another stage's result is there; the options that differ are named.
        BertTfError: the manifest is damaged, or a file that it has checksums of.
    """
    if not files.exists(path):
        return None
    try:
        manifest = read(path)
        if "fingerprint" not in manifest:
            raise BertTfError(explain(f"{path} is no manifest", attempt=_AGAIN))
        stated = manifest.get("options", {})
        before = result_options(stated)
        now = json.loads(json.dumps(result_options(options)))
        differ = changed_options(before, now)
        same = not differ and manifest["fingerprint"] == fingerprint(
            stated, _digests(manifest, inputs, verify))
        if same and whole:
            _check_made(path, manifest)
    except BertTfError:
        if overwrite:
            return None
        raise
    if same:
        return manifest
    if overwrite:
        return None
    changed = [f"{key} was {before.get(key)!r}, now {now.get(key)!r}" for key in differ]
    what = "; ".join(changed) or "the input files changed"
    folder = os.path.dirname(path) or "."
    raise UsageError(explain(f"{of or folder} holds the result of another run ({what})",
                             attempt=f"another output{'' if of else ' folder'}, or --overwrite"))


def resumed(folder, record, begun, options, inputs=(), overwrite=False, verify=False, *, option,
            made, ready=lambda: None, whole=True):
    """Return the manifest of a stage that finished in a folder, else make the folder ready for it.

    What the same stage made before it was killed stays there, whatever another one made does not.

    Args:
        folder: path.
        record, begun: names of the manifest, which is written last, and of the file that holds
            what was begun, in the form of a manifest.
        options, inputs, overwrite, verify, whole: as of `finished`.
        option: as of `check_own`.
        made: function without arguments that gives the names of what the stage makes in the
            folder, as far as it is there.
        ready: function that refuses what cannot be made, or makes room for it; called where there
            is work, before what is there is replaced.

    Raises: as `check_own`, `finished` and `ready`.
    """
    check_stage(folder, record, begun, option=option, made=made)
    record, begun = os.path.join(folder, record), os.path.join(folder, begun)
    files.clean_temporary(folder)
    found = finished(record, options, inputs, overwrite, verify, whole=whole)
    if found:
        return found
    # What was begun without making anything may be replaced.
    replaces = files.exists(record) or not finished(begun, options, inputs, overwrite or not made(),
                                                    verify)
    ready()
    if replaces:
        if files.exists(record):
            files.rename(record, begun)  # from here on what it describes is not all there
        for name in made():
            files.remove(os.path.join(folder, name))
        files.make_folder(folder)
        write(begun, options, inputs)
    return None


def check_stage(folder, record, begun, *, option, made):
    """Refuse another stage's folder, with the arguments of `resumed` and as it does.

    Raises: as `check_own`.
    """
    record, begun = os.path.join(folder, record), os.path.join(folder, begun)
    check_own(record if files.exists(record) else begun, made(), option)


@contextlib.contextmanager
def replacing(folder, names, begun):
    """Take files and folders out of a folder for new ones; put them back where these are refused.

    Args:
        folder: path.
        names: in it, of whatever the block may make; what is there is deleted at the end.
        begun: whether what stopped the block came when there was work to lose: then what the block
            made stays. In an object store, where moving is copying, nothing is put back.
    """
    paths = [os.path.join(folder, name) for name in names]
    before = {}
    for path in filter(files.exists, paths):  # one in another one goes with that
        if files.is_remote(path):
            files.remove(path)
        else:
            before[path] = files.temporary_name(path)
            files.rename(path, before[path])
    try:
        yield
    except BaseException:  # also of Ctrl-C
        if not begun():
            for path in paths:
                files.remove(path)
            for path, aside in before.items():
                if files.exists(aside):
                    files.rename(aside, path)
        raise
    finally:
        for aside in before.values():
            files.remove(aside)


def _digests(manifest, inputs, verify):
    """Return the digests of `inputs`, computed as those of a manifest were."""
    known = manifest.get("input_facts")
    if known is None:  # made before there were any
        return [digest_file(path) for path in inputs]
    known = [*known, *[None] * len(inputs)][:len(inputs)]
    found = _facts_of(inputs, known, verify)
    unread = [path for path, facts, before in zip(inputs, found, known, strict=True)
              if facts is before]
    if unread:
        _say_unread(unread[0], len(unread))
    return [facts["content"] for facts in found]


def check_own(path, names, option):
    """Refuse a folder that holds what the stage would replace, though another made it.

    Args:
        path: the stage's manifest.
        names: files and folders beside it that the stage replaces.
        option: one that only this stage's manifest has.

    Raises:
        UsageError: the manifest is another stage's, or there is none beside files of such names.
    """
    folder = os.path.dirname(path) or "."
    if files.exists(path):
        try:
            options = checksums.read_sealed(path).get("options")
        except BertTfError:
            return  # damaged: `finished` says so
        own = not options or (isinstance(options, dict) and option in options)
        found = [] if own else [os.path.basename(path)]
    else:
        found = [name for name in files.list_folder(folder) if name in names]
    if found:
        raise UsageError(explain(f"{folder} already holds {', '.join(found)}, not written by "
                                 "this command",
                                 attempt="another output folder"))


def write(path, options, inputs=(), *, begun=None, **facts):
    """Write a stage's manifest, last of all its files; return it.

    Args:
        path: the manifest file.
        options, inputs: as of `finished`.
        begun: the file of what was begun, written before the inputs were read, whose facts about
            them hold: a file that changed since is noticed by the same command.
        facts: further plain values; among them may be `files`, `checksums.facts` of files beside
            the manifest.
    """
    options = result_options(options)
    input_facts = read(begun).get("input_facts") if begun else None
    if input_facts is None:
        input_facts = _facts_of(inputs, [None] * len(inputs))
    manifest = {"fingerprint": fingerprint(options, [each["content"] for each in input_facts]),
                "options": options, "inputs": list(inputs), "input_facts": input_facts, **facts}
    checksums.write_sealed(path, manifest)
    return manifest


def read(path, attempt=_AGAIN):
    """Return what `write` returned.

    Raises:
        BertTfError: it is missing or damaged; `attempt` says what to do.
    """
    manifest = checksums.read_sealed(path, attempt)
    if not isinstance(manifest.get("options", {}), dict):
        raise BertTfError(explain(f"{path} is no manifest", attempt=attempt))
    return manifest


def check_made(path, attempt=_AGAIN):
    """Compare what a manifest has checksums of with them; without a manifest do nothing.

    Raises:
        BertTfError: one is missing or changed, or the manifest is damaged; `attempt` says what to
            do.
    """
    if files.exists(path):
        _check_made(path, read(path, attempt), attempt)


def _check_made(path, manifest, attempt=_AGAIN):
    checksums.check_files(os.path.dirname(path), manifest.get("files", {}), attempt)
