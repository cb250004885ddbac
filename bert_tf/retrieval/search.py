"""Exact search: the k vectors of a corpus that are nearest to each query, in blocks.

One matrix product compares a block of queries with a block of the corpus; of its scores only those
that may be among the k best are looked at again. Memory depends on the blocks and on `len(queries)
* k`, not on the corpus, which may be memory-mapped.
"""

import numpy as np

from bert_tf.errors import BertTfError, UsageError, check_choice, explain

SIMILARITIES = ("cosine", "dot")
QUERY_BLOCK = 1024
_RESCORED = 1 << 13  # vectors that are summed anew at a time
_SPARE = 16  # vectors of a query that are summed anew beside the k, as equal ones may be among them
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 25, 1 << 13  # of the corpus' vectors at a time


class TopK:
    """The k highest scores of each query among those seen so far; of equal ones the first rows.

    Rows are to come in order: a later row must be better to displace an earlier one.

    Args:
        num_queries: queries.
        k: scores kept of each.
    """

    def __init__(self, num_queries, k):
        self.num_queries, self.k = num_queries, k
        self._clear()

    def _clear(self):
        self.scores = np.full((self.num_queries, self.k), -np.inf, np.float32)
        self.rows = np.full((self.num_queries, self.k), -1, np.int64)

    def update(self, scores, first_row):
        """Add the scores of further rows.

        Args:
            scores: float32 `[num_queries, n]`; -inf is never kept.
            first_row: the number of the first of them.
        """
        if not self.k:
            return
        # The first few rows alone give a bound that spares most of the others.
        head = max(4 * self.k, 256) if self.rows[:, -1].min(initial=0) < 0 else scores.shape[1]
        for start, end in ((0, head), (head, scores.shape[1])):
            if start < end:
                self._merge(scores[:, start:end], first_row + start)

    def _merge(self, scores, first_row):
        places = np.flatnonzero(scores > self.scores[:, -1:])  # of one axis: twice as fast
        if not len(places):
            return
        queries, columns = np.divmod(places, scores.shape[1])
        touched, query = np.unique(queries, return_inverse=True)
        query = np.concatenate([np.repeat(np.arange(len(touched)), self.k), query])
        values = np.concatenate([self.scores[touched].ravel(), scores[queries, columns]])
        rows = np.concatenate([self.rows[touched].ravel(), columns + first_row])
        # What is kept stands before what came, both by row where scores are equal.
        order = np.lexsort((-values, query))
        begins = np.searchsorted(query[order], np.arange(len(touched)))
        best = order[begins[:, np.newaxis] + np.arange(self.k)]
        self.scores[touched], self.rows[touched] = values[best], rows[best]

    def taken(self):
        """Return `(scores, rows)`, float32 and int64 `[num_queries, k]`, highest first, and begin
        anew.

        Where fewer scores than k were seen, the score is -inf and the row -1.
        """
        found = self.scores, self.rows
        self._clear()
        return found


def search(queries, vectors, k, similarity="cosine"):
    """Find the nearest vectors of each query.

    Args:
        queries: float `[q, width]`.
        vectors: float `[n, width]`: an array, also memory-mapped.
        k: how many of each query; all where there are fewer.
        similarity: `cosine` (of a vector of zeros 0) or `dot`.

    Returns: `(scores, rows)`, float32 and int64 `[q, min(k, n)]`, highest score first; of equal
        scores the earlier row first. Scores are summed in float64, so that equal vectors score
        equally wherever they stand; only where more than 16 are as near as the k-th, it may be
        any of these that are found.

    Raises:
        UsageError: shapes do not fit, or k is below 1.
        BertTfError: a vector is not finite.
    """
    check_choice("similarity", similarity, SIMILARITIES)
    queries = np.asarray(queries, np.float32)
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise UsageError(explain(f"queries {queries.shape} for vectors {vectors.shape}",
                                 "[q, width] and [n, width] of one width"))
    k = min(check_k(k), len(vectors))
    prepare = of_length_1 if similarity == "cosine" else np.asarray
    queries = prepare(_finite("queries", queries))
    scores = np.zeros((len(queries), k), np.float32)
    rows = np.zeros((len(queries), k), np.int64)
    # In float32 the last bit of a score depends on where its vector stands.
    tops = [(start, TopK(len(queries[start:start + QUERY_BLOCK]), min(k + _SPARE, len(vectors))))
            for start in range(0, len(queries), QUERY_BLOCK)]
    block = min(_BLOCK_ROWS, max(1, _BLOCK_BYTES // (4 * vectors.shape[1] or 1)))
    for first in range(0, len(vectors), block):
        part = np.asarray(vectors[first:first + block], np.float32)
        part = prepare(_finite(f"vectors {first} to {first + len(part) - 1}", part))
        for start, top in tops:
            top.update(queries[start:start + top.num_queries] @ part.T, first)
    for start, top in tops:
        end = start + top.num_queries
        scores[start:end], rows[start:end] = (each[:, :k] for each in rescored(
            queries[start:end], top.taken()[1], lambda rows: prepare(
                np.asarray(vectors[rows], np.float32))))
    return scores, rows


def rescored(queries, rows, vectors_of):
    """Order rows that were found by their dot product with the query, summed in float64.

    Args:
        queries: float32 `[q, width]`.
        rows: int64 `[q, k]`, no row of a query twice, -1 for none.
        vectors_of: function from int64 `[n]`, ascending rows, to their vectors float32
            `[n, width]`.

    Returns: `(scores, rows)`, float32 and int64 `[q, k]`, as of `search`; -inf and -1 for none.
    """
    scores = np.full(rows.shape, -np.inf, np.float32)
    ordered = np.full(rows.shape, -1, np.int64)
    rows = np.sort(rows, axis=1)
    none = (rows < 0).sum(axis=1)
    at_once = max(1, _RESCORED // max(rows.shape[1], 1))
    for start in range(0, len(queries), at_once):
        needed = np.unique(rows[start:start + at_once])
        needed = needed[needed >= 0]
        if not len(needed):
            continue
        vectors = vectors_of(needed).astype(np.float64)
        for number in range(start, min(start + at_once, len(queries))):
            found = rows[number, none[number]:]
            of_query = (vectors[np.searchsorted(needed, found)]
                        @ queries[number].astype(np.float64)).astype(np.float32)
            order = np.argsort(-of_query, kind="stable")
            scores[number, :len(found)] = of_query[order]
            ordered[number, :len(found)] = found[order]
    return scores, ordered


def of_length_1(vectors):
    """Return float32 `[n, width]` vectors scaled to length 1; one of zeros stays so."""
    with np.errstate(over="ignore"):
        scaled, lengths = _scaled(vectors)
    # Squares of so small and so large numbers are none of float32.
    extreme = np.flatnonzero(~((lengths > 1e-15) & (lengths < 1e15)))
    if len(extreme):
        scaled[extreme], _ = _scaled(vectors[extreme].astype(np.float64))
    return scaled


def _scaled(vectors):
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0), lengths


def check_k(k, name="k"):
    """Return k, or raise UsageError where it is no number of passages."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise UsageError(explain(f"{name}={k!r}", "a whole number of at least 1"))
    return int(k)


def _finite(name, vectors):
    # A sum is not finite where a part is not, at a fraction of the cost of looking at each.
    if not np.isfinite(vectors.sum(dtype=np.float64)) and not np.isfinite(vectors).all():
        raise BertTfError(explain(f"{name}: numbers that are not finite", "vectors of a model that "
                                  "was trained without overflow"))
    return vectors
