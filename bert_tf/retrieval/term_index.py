"""Exact search by scalar products of learned weights of tokens, of which most are 0."""

import numpy as np
from scipy import sparse

from bert_tf.errors import BertTfError
from bert_tf.retrieval.search import TopK, check_k

_SCORES_AT_ONCE = 1 << 24


class Postings:
    """In which of some passages tokens stand, and with what weights; tokens are numbers here.

    Args:
        starts, rows, weights: int64 `[tokens + 1]`, int32 and float32 `[entries]`: of a token the
            entries from its start to the next one's, each of a passage. Arrays may be mapped into
            memory: of a search those entries are read whose tokens a query has.
        passages: their number.
    """

    def __init__(self, starts, rows, weights, passages):
        self.starts, self.rows, self.weights = starts, rows, weights
        self.passages = passages

    @classmethod
    def of(cls, passages):
        """Return `(tokens, postings)` of a list of dicts of float by token: a list of str, each at
        its number."""
        tokens = sorted({token for weights in passages for token in weights})
        matrix = weights_matrix(passages, {token: number for number, token in enumerate(tokens)}
                                ).T.tocsr()
        return tokens, cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32),
                           matrix.data, len(passages))

    def of_tokens(self, numbers):
        """Return a CSR matrix float32 `[len(numbers), passages]` of the weights of some tokens.

        Args:
            numbers: those of the tokens, -1 for one that is in no passage.

        Raises:
            BertTfError: entries are of passages that there are not.
        """
        bounds = [(self.starts[number], self.starts[number + 1]) if number >= 0 else (0, 0)
                  for number in numbers]
        rows, weights = (np.concatenate([np.zeros(0, values.dtype),
                                         *(values[start:end] for start, end in bounds)])
                         for values in (self.rows, self.weights))
        if len(rows) and not 0 <= rows.min() <= rows.max() < self.passages:
            raise BertTfError(f"weights of {self.passages} passages are damaged: there is one of "
                              f"passage {rows.max()}")
        starts = np.cumsum([0, *(end - start for start, end in bounds)])
        return sparse.csr_matrix((weights, rows, starts), (len(numbers), self.passages))


class TermIndex:
    """Passages that are found by the weighted tokens they share with a query.

        index = TermIndex()
        index.add(model.sparse(passages))
        scores, rows = index.search(model.sparse(queries), 10)

    Args:
        parts: iterable of `(tokens, postings)` as of `Postings.of`, in the order of passages.
    """

    def __init__(self, parts=()):
        # The places of all tokens. A part has its number of each, without the texts; at the last
        # place -1, for those that came with later parts or never.
        self._places, self._parts = {}, []
        for tokens, postings in parts:
            self._append(tokens, postings)

    def __len__(self):
        return sum(postings.passages for _, postings in self._parts)

    def add(self, passages):
        """Add passages after those that are there: a list of dicts of float by token."""
        self._append(*Postings.of(passages))

    def _append(self, tokens, postings):
        places = [self._places.setdefault(token, len(self._places)) for token in tokens]
        numbers = np.full(len(self._places) + 1, -1, np.int32)
        numbers[places] = np.arange(len(tokens))
        self._parts.append((numbers, postings))

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
        columns = {}
        matrix = weights_matrix(queries, columns)
        places = np.array([self._places.get(token, len(self._places)) for token in columns],
                          np.int64)
        scores = np.zeros((len(queries), k), np.float32)
        rows = np.zeros((len(queries), k), np.int64)
        at_once = max(1, _SCORES_AT_ONCE // max(
            [1, *(postings.passages for _, postings in self._parts)]))
        for start in range(0, len(queries), at_once):
            end = min(start + at_once, len(queries))
            top, first = TopK(end - start, k), 0
            for numbers, postings in self._parts:
                part = postings.of_tokens(numbers.take(places, mode="clip"))
                found = (matrix[start:end] @ part).toarray()
                top.update(np.where(found > 0, found, -np.inf), first)
                first += postings.passages
            scores[start:end], rows[start:end] = top.taken()
        return np.where(rows < 0, np.float32(0), scores), rows


def weights_matrix(texts, columns):
    """Return weights as a CSR matrix, float32 `[len(texts), len(columns)]`.

    Args:
        texts: list of dicts of float by token.
        columns: dict of int by token, to which tokens that are not there are added, with the
            numbers that follow.
    """
    counts = [len(weights) for weights in texts]
    places = np.fromiter((columns.setdefault(token, len(columns))
                          for weights in texts for token in weights), np.int64, sum(counts))
    values = np.fromiter((weight for weights in texts for weight in weights.values()),
                         np.float32, sum(counts))
    return sparse.csr_matrix((values, places, np.cumsum([0, *counts])),
                             (len(texts), len(columns)))
