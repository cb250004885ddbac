"""Exact search by scalar products of learned weights of tokens, of which most are 0."""

import numpy as np
from scipy import sparse

from bert_tf.retrieval.search import TopK, check_k

_SCORES_AT_ONCE = 1 << 24


class TermIndex:
    """Passages that are found by the weighted tokens they share with a query.

        index = TermIndex()
        index.add(model.sparse(passages))
        scores, rows = index.search(model.sparse(queries), 10)
    """

    def __init__(self):
        self._tokens, self._parts = {}, []

    def __len__(self):
        return sum(part.shape[0] for part in self._parts)

    def add(self, passages):
        """Add passages after those that are there: a list of dicts of float by token."""
        self._parts.append(self.matrix(passages))

    def search(self, queries, k):
        """Return the passages with the highest scores, `(scores, rows)`.

        Args:
            queries: list of dicts of float by token.
            k: passages a query.

        Returns: float32 and int64 `[len(queries), min(k, number of passages)]`, highest first, of
            equal scores the earlier passage first; 0 and -1 where no further passage shares a
            token.
        """
        k = min(check_k(k), len(self))
        queries, at_once = self.matrix(queries), max(1, _SCORES_AT_ONCE // max(len(self), 1))
        width = len(self._tokens)
        passages = sparse.vstack([sparse.csr_matrix((part.data, part.indices, part.indptr),
                                                    (part.shape[0], width))
                                  for part in self._parts or [self.matrix([])]]).T.tocsr()
        scores, rows = np.zeros((queries.shape[0], k), np.float32), np.zeros(
            (queries.shape[0], k), np.int64)
        for start in range(0, queries.shape[0], at_once):
            found = (queries[start:start + at_once] @ passages).toarray()
            top = TopK(len(found), k)
            top.update(np.where(found > 0, found, -np.inf), 0)
            scores[start:start + at_once], rows[start:start + at_once] = top.taken()
        return np.where(rows < 0, np.float32(0), scores), rows

    def matrix(self, texts):
        """Return weights as a CSR matrix, float32, of dicts; tokens get numbers when they first
        come."""
        counts = [len(weights) for weights in texts]
        columns = np.fromiter((self._tokens.setdefault(token, len(self._tokens))
                               for weights in texts for token in weights), np.int64, sum(counts))
        values = np.fromiter((weight for weights in texts for weight in weights.values()),
                             np.float32, sum(counts))
        return sparse.csr_matrix((values, columns, np.cumsum([0, *counts])),
                                 (len(texts), len(self._tokens)))
