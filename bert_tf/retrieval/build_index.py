"""Build an index: what a model gives of the passages of a corpus, and these, shard by shard.

| in its folder | holds |
|---|---|
| `begun.json` | options and inputs of the build, by which an interrupted one resumes |
| `shard-00000/` … | what passages are found by, and the passages, see `shards` |
| `approximate.faiss` | the structure of approximate search, if any |
| `manifest.json` | written last: what made it, what kind of index it is, checksums |
"""

import functools
import itertools
import os

import tqdm

from bert_tf.errors import UsageError, explain
from bert_tf.retrieval.corpus import read_corpus
from bert_tf.retrieval.shards import shard_about, shard_name, write_shard
from bert_tf.storage import checksums, files, manifest

MANIFEST, BEGUN, APPROXIMATE = "manifest.json", "begun.json", "approximate.faiss"


class Stored:
    """What an index stores of passages, so that they are found: the base of its kinds.

    Attributes:
        kind: the manifest's word for it.
    """

    def check(self, count):
        """Refuse so many passages, before any is read, where what `finish` needs is missing."""

    def arrays(self, passages):
        """Return `({name: array}, about)` of the passages of a shard, as `write_shard` takes
        them."""
        raise NotImplementedError

    def goes_on_from(self, about):
        """Take from a finished shard, by what it was written with, what is the same for all."""

    def finish(self, folder, shards, count):
        """Make what is there once for all shards; return names of files and facts for the
        manifest.

        Args:
            folder: of the index.
            shards: paths of its shards, in order.
            count: number of passages.
        """
        return [], {}


def refuse_store(folder):
    """Raise UsageError of an index in an object store, be it built or opened."""
    if files.is_remote(folder):
        raise UsageError(explain(f"an index at {folder}", "a local folder, whose files are mapped "
                                 "into memory"))


def build_index(folder, options, paths, stored, facts, overwrite=False, verify=False,
                read=read_corpus):
    """Build an index, or what of it is missing or damaged; the same inputs always give the same
    bytes.

    Args:
        folder: local path.
        options: dict of what decides the result: `shard_size` and whatever decides `stored`.
        paths: files of the corpus.
        stored: function without arguments that gives the `Stored`; called where there is work to
            do.
        facts: plain values for the manifest.
        overwrite, verify: as of `manifest.finished`.
        read: function from paths to an iterable of `Passage`.

    Returns: the manifest.

    Raises:
        UsageError: another index is there, or options do not fit what the model gives.
        BertTfError: the corpus or a file is damaged, or empty.
    """
    record = os.path.join(folder, MANIFEST)

    @functools.cache
    def ready():
        """Return the `Stored` and the number of passages: what is wrong with either is told now,
        not after hours."""
        kind, total = stored(), sum(1 for _ in read(paths))
        kind.check(total)
        return kind, total

    found = manifest.resumed(folder, MANIFEST, BEGUN, options, paths, overwrite, verify,
                             option="precision", made=lambda: _made(folder), ready=ready,
                             whole=False)
    if found:
        whole = [_is_as_stated(folder, *each) for each in found["files"].items()]
        if all([*whole, *map(_is_whole, _shards(folder, found["shards"]))]):
            print(f"{folder}: this index is there already; nothing to do")
            return found
        files.remove(record)  # until all of it is there again
    kind, total = ready()
    count = _write_shards(folder, options["shard_size"], read(paths), kind, total)
    folders = _shards(folder, -(-count // options["shard_size"]))
    made, about = kind.finish(folder, folders, count)
    sums = [f"{os.path.basename(shard)}/{checksums.NAME}" for shard in folders]
    return manifest.write(
        record, options, paths, begun=os.path.join(folder, BEGUN), **facts,
        kind=kind.kind, passages=count, shards=len(folders), **about,
        files=checksums.facts(folder, [*made, *sums]))


def _write_shards(folder, shard_size, passages, stored, total):
    """Write the shards that are missing or damaged; return the number of passages."""
    passages, count = iter(passages), 0
    with tqdm.tqdm(desc="passages", total=total, unit="", unit_scale=True) as bar:
        while part := list(itertools.islice(passages, shard_size)):
            path = os.path.join(folder, shard_name(count // shard_size))
            if not _is_whole(path):
                write_shard(path, part, *stored.arrays(part))
            stored.goes_on_from(shard_about(path))
            count += len(part)
            bar.update(len(part))
    return count


def _is_whole(path):
    """Return whether a shard is there; a damaged one is removed.

    Raises:
        UnavailableError: it cannot be read now.
    """
    return files.is_folder(path) and checksums.kept(lambda: checksums.check(path), path)


def _is_as_stated(folder, name, stated):
    """Return whether a file of the index is as its manifest states; what it belongs to is removed
    otherwise.

    Raises:
        UnavailableError: it cannot be read now.
        BertTfError: its name leads out of the index.
    """
    files.inside(folder, name)
    return checksums.kept(lambda: checksums.check_files(folder, {name: stated}),
                          os.path.join(folder, name.partition("/")[0]))


def _made(folder):
    """Return the names of what a build makes, which is there."""
    return [name for name in files.list_folder(folder)
            if name == APPROXIMATE or name.startswith("shard-")]


def _shards(folder, count):
    return [os.path.join(folder, shard_name(number)) for number in range(count)]
