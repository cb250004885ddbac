"""An index of a corpus: passages by their vectors, exactly or approximately."""

import os

import numpy as np

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval.approximate import Approximate, nearest_bits
from bert_tf.retrieval.build_index import APPROXIMATE, MANIFEST, stored_codes
from bert_tf.retrieval.codes import VectorCode
from bert_tf.retrieval.search import QUERY_BLOCK, check_k, of_length_1, rescored, search
from bert_tf.retrieval.shards import Codes, Passages, shard_name
from bert_tf.storage import checksums, files, manifest
from bert_tf.tokenization.texts import text_list

RESCORE, PROBES = 10, 128
_WHOLE = 1 << 28  # bytes of an index up to which all is compared with its checksums
_AGAIN = "bert_tf.index build again"


class VectorIndex:
    """What `bert_tf.index build` built; see `build_index`.

        index = bert_tf.open_index("indexes/wiki")
        index.search(["Where is the Seine?"], 10)

    Vectors and passages stay on disk, mapped into memory. `len(index)` is the number of passages.

    Args:
        folder: path.
        embed: function from a list of str to float32 `[n, width]`, or None: search by vectors
            alone.
        verify: compare all files with their checksums; None: where that takes little time, up to
            256 MiB. Without, a truncated file is seen, a changed one is not.

    Raises:
        UsageError: there is no index.
        BertTfError: a file is missing or damaged.
    """

    def __init__(self, folder, embed=None, verify=None):
        self.folder, self._embed = folder, embed
        self.manifest = _read_manifest(folder)
        options = self.manifest["options"]
        shards = [os.path.join(folder, shard_name(number))
                  for number in range(self.manifest["shards"])]
        self._check(shards, verify)
        self._codes = stored_codes(options["dimensions"], options["precision"],
                                   self.manifest.get("scale"))
        arrays = {name: Codes(shards, name, _decode(code)) for name, code in self._codes.items()}
        self._found, self._rescoring = list(arrays.values())[0], list(arrays.values())[-1]
        self.passages = Passages(shards)
        sizes = {len(each) for each in (*arrays.values(), self.passages)}
        if sizes != {self.manifest["passages"]}:
            raise BertTfError(explain(f"{folder}: {sorted(sizes)} vectors and passages",
                                      f"{self.manifest['passages']} of each", _AGAIN))
        path = os.path.join(folder, APPROXIMATE)
        self._approximate = Approximate(path, len(self)) if APPROXIMATE in self.manifest[
            "files"] else None

    def _check(self, shards, verify):
        """Compare with checksums: all, or sizes alone."""
        stated = dict(self.manifest["files"])
        structure = {name: stated.pop(name) for name in [APPROXIMATE] if name in stated}
        checksums.check_files(self.folder, stated, _AGAIN)
        size = 0
        for shard in shards:
            held = checksums.listed(shard)
            checksums.check_files(shard, held, _AGAIN, whole=False)
            size += sum(facts["size"] for facts in held.values())
        if verify or verify is None and size <= _WHOLE:
            checksums.check_files(self.folder, structure, _AGAIN)
            for shard in shards:
                checksums.check(shard)

    def __len__(self):
        return self.manifest["passages"]

    @property
    def width(self):
        """The length of the vectors that are searched."""
        return self._rescoring.shape[1]

    def search(self, texts, k=10, exact=False, rescore=RESCORE, probes=PROBES):
        """Find the passages nearest to each text by the cosine of their vectors.

        Args:
            texts: a str, or what `text_list` takes.
            k: passages of a text; all where there are fewer.
            exact, rescore, probes: as of `search_vectors`.

        Returns: of each text a list of dicts of `id`, `text`, `title` and `score`, highest first;
            of a str one list.

        Raises:
            UsageError: there is no model, or an argument does not fit.
        """
        if self._embed is None:
            raise UsageError(explain(f"text for {self.folder} without a model", "vectors",
                                     "bert_tf.open_index"))
        single = isinstance(texts, str)
        texts = [texts] if single else text_list(texts)
        if not texts:
            return []
        found = self.found(self._embed(texts), k, exact, rescore, probes)
        return found[0] if single else found

    def found(self, queries, k=10, exact=False, rescore=RESCORE, probes=PROBES):
        """Return what `search` does, of vectors; arguments and errors are those of
        `search_vectors`."""
        return [[{"id": passage.id, "text": passage.text, "title": passage.title,
                  "score": float(score)}
                 for score, passage in ((score, self.passages[int(row)])
                                        for score, row in zip(*of_query, strict=True) if row >= 0)]
                for of_query in zip(*self.search_vectors(queries, k, exact, rescore, probes),
                                    strict=True)]

    def search_vectors(self, queries, k=10, exact=False, rescore=RESCORE, probes=PROBES):
        """Find the rows of the nearest vectors.

        Args:
            queries: float `[q, width]`, of the model's width.
            k: rows of a query; all where there are fewer.
            exact: compare with every vector, also where there is a structure for approximate
                search; so is where all are candidates. Bits are compared with bits all the same,
                and rescored.
            rescore: of an approximate search and of bits, candidates for each of the k results.
            probes: lists of the approximate structure that are scanned.

        Returns: `(scores, rows)`, float32 and int64 `[q, min(k, n)]`: cosines, highest first, of
            equal ones the earlier row first; -inf and -1 where an approximate search found fewer.
        """
        k = min(check_k(k), len(self))
        check_k(rescore), check_k(probes)
        queries = self._queries(queries)
        candidates = min(k * rescore, len(self))
        is_exact = exact or self._approximate is None or candidates == len(self)
        if is_exact and "bits" not in self._codes:
            return search(queries, self._rescoring, k, "dot")
        scores, rows = np.zeros((len(queries), k), np.float32), np.zeros((len(queries), k), int)
        for start in range(0, len(queries), QUERY_BLOCK):
            part = queries[start:start + QUERY_BLOCK]
            if is_exact:
                found = nearest_bits(VectorCode(precision="bits").encode(part),
                                     self._found.arrays, candidates)
            else:
                found = self._approximate.candidates(part, candidates, probes)
            of_part = rescored(part, found, self._rescoring.__getitem__)
            scores[start:start + len(part)], rows[start:start + len(part)] = (
                each[:, :k] for each in of_part)
        return scores, rows

    def _queries(self, queries):
        with np.errstate(over="ignore"):  # what is too large is refused below
            queries = np.asarray(queries, np.float32)
        dimensions = self.manifest["options"]["dimensions"]
        if queries.ndim != 2 or queries.shape[1] < self.width or (
                dimensions is None and queries.shape[1] != self.width):
            raise UsageError(explain(f"queries {queries.shape} for vectors of {self.width}",
                                     "[q, width] of the index's model"))
        if not np.isfinite(queries).all():
            raise UsageError("queries: numbers that are not finite")
        return VectorCode(dimensions).encode(of_length_1(queries))


def _decode(code):
    """Return a function from stored codes to vectors of length 1, whose products are cosines."""
    if code.precision != "int8":
        return code.decode
    return lambda codes: of_length_1(code.decode(codes))  # which rounding has changed a little


def _read_manifest(folder):
    """Return the manifest of an index, whose entries are such as a build writes."""
    path = os.path.join(folder, MANIFEST)
    if not files.exists(path):
        raise UsageError(explain(f"{folder} holds no finished index", attempt=_AGAIN))
    found = manifest.read(path)
    options = found.get("options", {})
    if not {"dimensions", "precision"} <= options.keys():
        raise UsageError(explain(f"{folder} holds no index", "what bert_tf.index build wrote"))
    shards, scale = found.get("shards"), found.get("scale")
    if not (type(found.get("passages")) is type(shards) is int
            and 0 < shards <= len(files.list_folder(folder))
            and isinstance(found.get("files"), dict)
            and (options["precision"] == "float32" or isinstance(scale, float))):
        raise BertTfError(explain(f"{path} is damaged", attempt=_AGAIN))
    return found
