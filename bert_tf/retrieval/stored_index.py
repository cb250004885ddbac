"""An index of a corpus, opened: what its kinds have in common."""

import os

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval.build_index import APPROXIMATE, BEGUN, MANIFEST, refuse_store
from bert_tf.retrieval.shards import Passages, shard_name
from bert_tf.storage import checksums, files, manifest
from bert_tf.tokenization.texts import text_list

_WHOLE = 1 << 28  # bytes of an index up to which all is compared with its checksums
AGAIN = "bert_tf.index build again, with --overwrite"


class StoredIndex:
    """Base of what `bert_tf.index build` built; see `build_index`.

    What passages are found by, and these, stay on disk, mapped into memory. `len(index)` is the
    number of passages.

    Args:
        folder: path.
        of_queries: function from a list of str to what queries are searched by, or None: no text
            is searched.
        verify: compare all files with their checksums; None: where that takes little time, up to
            256 MiB. Without, a truncated file is seen, a changed one is not.

    Attributes:
        kind: what the manifest calls such an index.
        by: what it is searched by, for messages.
        options: names of the further arguments of `rows_of`.

    Raises:
        UsageError: there is no index, or one of another kind.
        BertTfError: a file is missing or damaged.
    """

    options = ()

    def __init__(self, folder, of_queries=None, verify=None):
        self.folder, self._of_queries = folder, of_queries
        self.manifest = read_manifest(folder)
        if kind_of(self.manifest) != self.kind:
            raise UsageError(explain(f"{folder}, an index of the kind {kind_of(self.manifest)!r}",
                                     f"one of {self.kind!r}", "bert_tf.open_index"))
        self.shards = [os.path.join(folder, shard_name(number))
                       for number in range(self.manifest["shards"])]
        self._check(verify)
        self.passages = Passages(self.shards)

    def _check(self, verify):
        """Compare with checksums: all, or sizes alone."""
        stated = dict(self.manifest["files"])
        structure = {name: stated.pop(name) for name in [APPROXIMATE] if name in stated}
        checksums.check_files(self.folder, stated, AGAIN)
        size = 0
        for shard in self.shards:
            held = checksums.listed(shard)
            checksums.check_files(shard, held, AGAIN, whole=False)
            size += sum(facts["size"] for facts in held.values())
        if verify or verify is None and size <= _WHOLE:
            checksums.check_files(self.folder, structure, AGAIN)
            for shard in self.shards:
                checksums.check(shard)

    def _check_sizes(self, *numbers):
        """Raise BertTfError unless there are as many passages as the manifest says, and as many of
        what they are found by."""
        sizes = {*numbers, len(self.passages)}
        if sizes != {len(self)}:
            raise BertTfError(explain(f"{self.folder}: {sorted(sizes)} {self.by} and passages",
                                      f"{len(self)} of each", AGAIN))

    def __len__(self):
        return self.manifest["passages"]

    def search(self, texts, k=10, **options):
        """Find the passages that fit each text best.

        Args:
            texts: a str, or what `text_list` takes.
            k: passages of a text; all where there are fewer.
            options: further arguments of `rows_of`.

        Returns: of each text a list of dicts of `id`, `text`, `title` and `score`, highest first;
            of a str one list.

        Raises:
            UsageError: there is no model, or an argument does not fit.
        """
        for name in options.keys() - set(self.options):
            raise UsageError(explain(f"{name} for {self.folder}, an index of {self.by}, which is "
                                     "searched exactly", attempt=f"leaving {name} out"))
        if self._of_queries is None:
            raise UsageError(explain(f"text for {self.folder} without a model", self.by,
                                     "bert_tf.open_index"))
        single = isinstance(texts, str)
        texts = [texts] if single else text_list(texts)
        if not texts:
            return []
        found = self.found(self._of_queries(texts), k, **options)
        return found[0] if single else found

    def found(self, queries, k=10, **options):
        """Return what `search` does, of what texts become; arguments and errors are those of
        `rows_of`."""
        return [[{"id": passage.id, "text": passage.text, "title": passage.title,
                  "score": float(score)}
                 for score, passage in ((score, self.passages[int(row)])
                                        for score, row in zip(*of_query, strict=True) if row >= 0)]
                for of_query in zip(*self.rows_of(queries, k, **options), strict=True)]

    def rows_of(self, queries, k=10):
        """Return `(scores, rows)`, float32 and int64 `[q, min(k, n)]`, of the passages that fit
        queries best, highest first; -1 is no row."""
        raise NotImplementedError


def kind_of(about):
    """Return what kind of index a manifest is of; before there were several, all were of
    vectors."""
    return about.get("kind", "vectors")


def read_manifest(folder):
    """Return the manifest of an index, whose entries are such as a build writes."""
    refuse_store(folder)
    path, names = os.path.join(folder, MANIFEST), files.list_folder(folder)
    if MANIFEST not in names and any(
            name == BEGUN or name.startswith("shard-") for name in names):
        raise UsageError(explain(f"{folder} holds no finished index",
                                 attempt="bert_tf.index build again, which goes on with it"))
    found = manifest.read(path) if MANIFEST in names else {}
    options = found.get("options", {})
    if not {"dimensions", "precision"} <= options.keys():
        raise UsageError(explain(
            f"{folder} {'holds no index' if files.exists(folder) else 'does not exist'}",
            "the folder of an index",
            "python -m bert_tf.index build --model MODEL --corpus PASSAGES --output FOLDER"))
    shards, scale = found.get("shards"), found.get("scale")
    if not (type(found.get("passages")) is type(shards) is int
            and 0 < shards <= len(names)
            and isinstance(found.get("files"), dict)
            and (options["precision"] == "float32" or isinstance(scale, float))):
        raise BertTfError(explain(f"{path} is damaged", attempt=AGAIN))
    return found
