"""An index of a corpus by learned weights of tokens: an inverted file, searched exactly."""

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.retrieval.build_index import Stored
from bert_tf.retrieval.shards import mapped, shard_about
from bert_tf.retrieval.stored_index import AGAIN, StoredIndex
from bert_tf.retrieval.term_index import Postings, TermIndex


class StoredWeights(Stored):
    """Weights of tokens for each passage, of a shard by token: `starts.npy`, `rows.npy` and
    `weights.npy` are those of `Postings`, `shard.json` lists its tokens.

    Args:
        weigh: function from a list of `Passage` to a list of dicts of float by token.
    """

    kind = "sparse"

    def __init__(self, weigh):
        self._weigh = weigh

    def arrays(self, passages):
        """See `Stored`."""
        tokens, made = Postings.of(self._weigh(passages))
        return {"starts": made.starts, "rows": made.rows, "weights": made.weights}, {
            "tokens": tokens}


class SparseIndex(StoredIndex):
    """What `bert_tf.index build` built of a model that gives weights of tokens.

    Args and errors: as of `StoredIndex`; queries are lists of dicts of float by token.
    """

    kind, by = StoredWeights.kind, "weights of tokens"

    def __init__(self, folder, of_queries=None, verify=None):
        super().__init__(folder, of_queries, verify)
        sizes = self.passages.sizes
        self._terms = TermIndex(map(_postings, self.shards, sizes))
        self._check_sizes(len(self._terms))

    def rows_of(self, queries, k=10):
        """See `StoredIndex`: scores are scalar products; 0 and -1 where no further passage shares
        a token with a query.

        Args:
            queries: list of dicts of float by token.
            k: passages of a query; all where there are fewer.
        """
        return self._terms.search(queries, k)


def _postings(shard, passages):
    """Return the tokens and `Postings` of a shard, whose parts fit each other."""
    tokens = shard_about(shard).get("tokens")
    starts, rows, weights = (mapped(shard, name, dtype) for name, dtype in (
        ("starts", np.int64), ("rows", np.int32), ("weights", np.float32)))
    if not (isinstance(tokens, list) and len(starts) == len(tokens) + 1 and starts[0] == 0
            and (np.diff(starts) >= 0).all() and starts[-1] == len(rows) == len(weights)):
        raise BertTfError(explain(f"{shard} is damaged: its tokens and weights do not fit each "
                                  "other", attempt=AGAIN))
    return tokens, Postings(starts, rows, weights, passages)
