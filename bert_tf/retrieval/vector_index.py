"""An index of a corpus by a vector for each passage, searched exactly or approximately."""

import os

import numpy as np
import tqdm

from bert_tf.errors import UsageError, explain
from bert_tf.retrieval import approximate
from bert_tf.retrieval.approximate import Approximate, nearest_bits
from bert_tf.retrieval.build_index import APPROXIMATE, Stored
from bert_tf.retrieval.codes import VectorCode
from bert_tf.retrieval.search import QUERY_BLOCK, check_k, of_length_1, rescored, search
from bert_tf.retrieval.shards import Codes
from bert_tf.retrieval.stored_index import StoredIndex

RESCORE, PROBES = 10, 128
APPROXIMATE_FROM = 50_000  # passages from which on exact search takes long


def stored_codes(dimensions, precision, scale):
    """Return `{precision: VectorCode}` of what an index stores of a vector; what finds comes first,
    what rescores last."""
    if precision == "float32":
        return {precision: VectorCode(dimensions)}
    names = ("bits", "int8") if precision == "bits" else ("int8",)
    return {name: VectorCode(dimensions, name, scale if name == "int8" else None)
            for name in names}


class StoredVectors(Stored):
    """A vector for each passage, of length 1.

    Args:
        options: dict of `dimensions`, `precision`, `seed` and `approximate` (None: from
            `APPROXIMATE_FROM` passages on, but not of bits).
        embed: function from a list of `Passage` to float32 `[n, width]`.
    """

    kind = "vectors"

    def __init__(self, options, embed):
        self.options, self.embed = options, embed
        self.scale = self._width = self._checked = None

    def arrays(self, passages):
        """See `Stored`; what does not fit the vectors is refused before a shard is computed."""
        stored = self.options["dimensions"], self.options["precision"]
        if not self._checked and stored not in ((None, "float32"), (None, "int8")):
            width = self.embed(passages[:1]).shape[-1]
            for code in stored_codes(*stored, None).values():
                code.check_width(width)
        self._checked = True
        vectors = of_length_1(self.embed(passages))
        if self.scale is None and stored[1] != "float32":
            self.scale = VectorCode(stored[0], "int8").calibrated(vectors).scale
        self._width = vectors.shape[1]
        codes = stored_codes(*stored, self.scale)
        return {name: code.encode(vectors) for name, code in codes.items()}, self._about()

    def _about(self):
        return {"scale": self.scale, "width": self._width}

    def goes_on_from(self, about):
        """See `Stored`."""
        self.scale, self._checked = about["scale"], True
        # Shards of an earlier version do not say the width: a remade one does.
        self._width = about.get("width") or self._width

    def check(self, count):
        """See `Stored`."""
        if self._is_approximate(count) or self.options["precision"] == "bits":
            approximate.library()

    def _is_approximate(self, count):
        wanted = self.options["approximate"]
        return wanted if wanted is not None else (
            count >= APPROXIMATE_FROM and self.options["precision"] != "bits")

    def finish(self, folder, shards, count):
        """See `Stored`: build the structure of approximate search."""
        wanted, precision = self._is_approximate(count), self.options["precision"]
        if wanted:
            codes = stored_codes(self.options["dimensions"], precision, self.scale)
            name, code = list(codes.items())[-1]
            print(f"approximate search: learning {approximate.num_lists(count):,} lists")
            with tqdm.tqdm(desc="approximate search", total=count, unit_scale=True) as bar:
                approximate.build(Codes(shards, name, code.decode),
                                  os.path.join(folder, APPROXIMATE), self.options["seed"],
                                  bar.update)
        return [APPROXIMATE] if wanted else [], self._about()


class VectorIndex(StoredIndex):
    """What `bert_tf.index build` built of a model that gives a vector for each text.

        index = bert_tf.open_index("indexes/wiki")
        index.search(["Where is the Seine?"], 10)

    Args and errors: as of `StoredIndex`; queries are float32 `[n, width]`.
    """

    kind, by = StoredVectors.kind, "vectors"

    def __init__(self, folder, of_queries=None, verify=None):
        super().__init__(folder, of_queries, verify)
        options = self.manifest["options"]
        self._codes = stored_codes(options["dimensions"], options["precision"],
                                   self.manifest.get("scale"))
        arrays = {name: Codes(self.shards, name, _decode(code))
                  for name, code in self._codes.items()}
        self._found, self._rescoring = list(arrays.values())[0], list(arrays.values())[-1]
        self._check_sizes(*map(len, arrays.values()))
        self._approximate = Approximate(os.path.join(folder, APPROXIMATE), len(self)) if (
            APPROXIMATE in self.manifest["files"]) else None
        further = {"rescore": self._approximate or "bits" in self._codes,
                   "probes": self._approximate}
        self.options = ("exact", *filter(further.get, further))

    @property
    def width(self):
        """The length of the vectors that are searched."""
        return self._rescoring.shape[1]

    def search_vectors(self, queries, k=10, exact=False, rescore=RESCORE, probes=PROBES):
        """Find the rows of the nearest vectors.

        Args:
            queries: float `[q, width]`, of the model's width or of the index's.
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
        check_k(rescore, "rescore"), check_k(probes, "probes")
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

    rows_of = search_vectors

    def _queries(self, queries):
        with np.errstate(over="ignore"):  # what is too large is refused below
            queries = np.asarray(queries, np.float32)
        dimensions = self.manifest["options"]["dimensions"]
        stated = self.manifest.get("width")  # the model's, which earlier versions did not write
        if queries.ndim != 2 or not (queries.shape[1] in (self.width, stated) or (
                dimensions and not stated and queries.shape[1] > self.width)):
            raise UsageError(explain(f"queries {queries.shape} for vectors of "
                                     f"{stated or self.width}", "[q, width] of the index's model"))
        if not np.isfinite(queries).all():
            raise UsageError("queries: numbers that are not finite")
        return VectorCode(dimensions).encode(of_length_1(queries))


def _decode(code):
    """Return a function from stored codes to vectors of length 1, whose products are cosines."""
    if code.precision != "int8":
        return code.decode
    return lambda codes: of_length_1(code.decode(codes))  # which rounding has changed a little
