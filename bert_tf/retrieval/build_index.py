"""Build an index: the vectors of a corpus and its passages, shard by shard.

| in its folder | holds |
|---|---|
| `begun.json` | options and inputs of the build, by which an interrupted one resumes |
| `shard-00000/` … | vectors and passages, see `shards` |
| `approximate.faiss` | the structure of approximate search, if any |
| `manifest.json` | written last: what made it, how vectors are stored, checksums |
"""

import itertools
import os

import tqdm

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval import approximate
from bert_tf.retrieval.codes import VectorCode
from bert_tf.retrieval.corpus import read_corpus
from bert_tf.retrieval.search import of_length_1
from bert_tf.retrieval.shards import Codes, shard_about, shard_name, write_shard
from bert_tf.storage import checksums, files, manifest

MANIFEST, BEGUN, APPROXIMATE = "manifest.json", "begun.json", "approximate.faiss"
APPROXIMATE_FROM = 50_000  # passages from which on exact search takes long


def stored_codes(dimensions, precision, scale):
    """Return `{precision: VectorCode}` of what an index stores of a vector; what finds comes first,
    what rescores last."""
    if precision == "float32":
        return {precision: VectorCode(dimensions)}
    names = ("bits", "int8") if precision == "bits" else ("int8",)
    return {name: VectorCode(dimensions, name, scale if name == "int8" else None)
            for name in names}


def build_index(folder, options, paths, embed, facts, overwrite=False, verify=False):
    """Build an index, or what of it is not there yet; the same inputs always give the same bytes.

    Args:
        folder: local path.
        options: dict of what decides the result: `dimensions`, `precision`, `shard_size`,
            `approximate` (None: from `APPROXIMATE_FROM` passages on, but not of bits), `seed` and
            whatever decides `embed`.
        paths: files of the corpus, see `read_corpus`.
        embed: function without arguments that gives one from a list of `Passage` to float32
            `[n, width]`; called where there is work to do.
        facts: plain values for the manifest.
        overwrite, verify: as of `manifest.finished`.

    Returns: the manifest.

    Raises:
        UsageError: another index is there, or options do not fit the vectors.
        BertTfError: the corpus or a file is damaged, or empty.
    """
    if files.is_remote(folder):
        raise UsageError(explain(f"an index at {folder}", "a local folder, whose files are mapped "
                                 "into memory"))
    found = manifest.resumed(folder, MANIFEST, BEGUN, options, paths, overwrite, verify,
                             option="precision", made=lambda: _made(folder))
    if found:
        print(f"{folder}: this index is there already; nothing to do")
        return found
    count = _write_shards(folder, options, paths, embed())
    folders = _shards(folder)
    scale = shard_about(folders[0])["scale"]
    codes = stored_codes(options["dimensions"], options["precision"], scale)
    wanted = options["approximate"]
    if wanted is None:
        wanted = count >= APPROXIMATE_FROM and options["precision"] != "bits"
    made = [APPROXIMATE] if wanted else []
    if wanted:
        precision, code = list(codes.items())[-1]
        with tqdm.tqdm(desc="approximate search", total=count, unit_scale=True) as bar:
            approximate.build(Codes(folders, precision, code.decode),
                              os.path.join(folder, APPROXIMATE), options["seed"], bar.update)
    sums = [f"{os.path.basename(shard)}/{checksums.NAME}" for shard in folders]
    return manifest.write(
        os.path.join(folder, MANIFEST), options, paths, **facts, passages=count,
        shards=len(folders), scale=scale, files=checksums.facts(folder, [*made, *sums]))


def _write_shards(folder, options, paths, embed):
    """Write the shards that are not there; return the number of passages."""
    passages, count, scale = read_corpus(paths), 0, None
    stored = options["dimensions"], options["precision"]
    with tqdm.tqdm(desc="passages", unit="", unit_scale=True) as bar:
        while part := list(itertools.islice(passages, options["shard_size"])):
            path = os.path.join(folder, shard_name(count // options["shard_size"]))
            if not _is_whole(path):
                # What does not fit is refused before a shard is computed.
                if not count and stored not in ((None, "float32"), (None, "int8")):
                    width = embed(part[:1]).shape[-1]
                    for code in stored_codes(*stored, None).values():
                        code.check_width(width)
                vectors = of_length_1(embed(part))
                if scale is None and options["precision"] != "float32":
                    scale = VectorCode(options["dimensions"], "int8").calibrated(vectors).scale
                codes = stored_codes(*stored, scale)
                write_shard(path, part, {precision: code.encode(vectors)
                                         for precision, code in codes.items()}, {"scale": scale})
            scale = shard_about(path)["scale"]
            count += len(part)
            bar.update(len(part))
    return count


def _is_whole(path):
    """Return whether a shard is there; a damaged one is removed."""
    if not files.is_folder(path):
        return False
    try:
        checksums.check(path)
    except BertTfError as error:
        print(f"note: {error}; it is made again")
        files.remove(path)
        return False
    return True


def _made(folder):
    """Return the names of what a build makes, which is there."""
    return [name for name in files.list_folder(folder)
            if name == APPROXIMATE or name.startswith("shard-")]


def _shards(folder):
    return [os.path.join(folder, name) for name in files.list_folder(folder)
            if name.startswith("shard-")]
