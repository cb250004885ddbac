"""An index of a corpus by a vector for each token, searched exactly by MaxSim."""

import numpy as np

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval.build_index import Stored
from bert_tf.retrieval.codes import DTYPES, VectorCode
from bert_tf.retrieval.search import QUERY_BLOCK, check_k
from bert_tf.retrieval.shards import mapped
from bert_tf.retrieval.stored_index import AGAIN, StoredIndex
from bert_tf.retrieval.token_vectors import TokenVectors, search_tokens

PRECISIONS = ("float32", "int8")
_AT_ONCE = 1 << 16  # vectors that are read and compared at a time


class StoredTokenVectors(Stored):
    """A vector for each token of passages, of a shard one after the other, as float32 or int8, and
    `splits.npy`, where those of a passage begin.

    Args:
        precision: one of `PRECISIONS`.
        embed: function from a list of `Passage` to `TokenVectors`.
    """

    kind = "multi_vector"

    def __init__(self, precision, embed):
        self._embed, self._code = embed, VectorCode(precision=precision)

    def arrays(self, passages):
        """See `Stored`."""
        vectors = self._embed(passages)
        if self._code.scale is None:
            # Of vectors of length 1 no component is larger than 1.
            sample = vectors.values if len(vectors.values) else np.ones((1, 1), np.float32)
            self._code = self._code.calibrated(sample)
        return {self._code.precision: self._code.encode(vectors.values),
                "splits": vectors.splits}, {"scale": self._code.scale}

    def goes_on_from(self, about):
        """See `Stored`."""
        self._code = VectorCode(precision=self._code.precision, scale=about["scale"])

    def finish(self, folder, shards, count):
        """See `Stored`."""
        return [], {"scale": self._code.scale}


class MultiVectorIndex(StoredIndex):
    """What `bert_tf.index build` built of a model that gives a vector for each token.

    Args and errors: as of `StoredIndex`; queries are `TokenVectors`.
    """

    kind, by = StoredTokenVectors.kind, "vectors of tokens"

    def __init__(self, folder, of_queries=None, verify=None):
        super().__init__(folder, of_queries, verify)
        precision = self.manifest["options"]["precision"]
        self._code = VectorCode(precision=precision, scale=self.manifest.get("scale"))
        self._parts = [(mapped(shard, precision, DTYPES[precision], 2),
                        mapped(shard, "splits", np.int64)) for shard in self.shards]
        for shard, (values, splits) in zip(self.shards, self._parts, strict=True):
            if not (len(splits) and splits[0] == 0 and (np.diff(splits) >= 0).all()
                    and splits[-1] == len(values)):
                raise BertTfError(explain(f"{shard} is damaged: its splits and vectors do not fit "
                                          "each other", attempt=AGAIN))
        self._check_sizes(sum(len(splits) - 1 for _, splits in self._parts))

    @property
    def width(self):
        """The length of a vector."""
        return self._parts[0][0].shape[1]

    def rows_of(self, queries, k=10):
        """See `StoredIndex`: scores and order are those of `search_tokens`.

        Args:
            queries: `TokenVectors`.
            k: passages of a query; all where there are fewer.

        Raises:
            UsageError: vectors are of another length.
        """
        if len(queries.values) and queries.shape[1] != self.width:
            raise UsageError(explain(f"queries {queries.values.shape} for vectors of {self.width}",
                                     "those of the index's model"))
        parts = [queries[start:start + QUERY_BLOCK]
                 for start in range(0, max(len(queries), 1), QUERY_BLOCK)]
        return search_tokens(parts, self._blocks(), min(check_k(k), len(self)))

    def _blocks(self):
        """Yield `TokenVectors` of passages after passages."""
        for values, splits in self._parts:
            start, last = 0, len(splits) - 1
            while start < last:
                end = max(start + 1, int(np.searchsorted(splits, splits[start] + _AT_ONCE,
                                                         "right")) - 1)
                block = values[splits[start]:splits[end]]
                yield TokenVectors(self._code.decode(block), splits[start:end + 1] - splits[start])
                start = end
