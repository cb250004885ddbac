"""A vector for each token of texts, and exact search by MaxSim."""

import numpy as np

from bert_tf.retrieval.search import TopK, check_k

_PRODUCTS_AT_ONCE = 1 << 24


class TokenVectors:
    """Vectors of the tokens of some texts, side by side.

        passages = TokenVectors.of(model.vectors(passages))
        max_sims(TokenVectors.of(model.vectors(queries, "query")), passages)  # [queries, passages]

    Args:
        values: float32 `[vectors, dim]`, of all texts.
        splits: int `[texts + 1]`, where those of a text begin.
    """

    def __init__(self, values, splits):
        self.values, self.splits = values, np.asarray(splits, np.int64)

    @classmethod
    def of(cls, texts):
        """Build from a list of float32 `[vectors, dim]`, of a text each."""
        splits = np.cumsum([0, *map(len, texts)])
        return cls(np.concatenate([*texts] or [np.zeros((0, 0), np.float32)]), splits)

    @classmethod
    def joined(cls, parts):
        """Build from an iterable of those of some texts after the others."""
        return cls.of([each.values[start:end] for each in parts
                       for start, end in zip(each.splits, each.splits[1:], strict=False)])

    def __len__(self):
        return len(self.splits) - 1

    @property
    def shape(self):
        """The number of texts, and the length of a vector."""
        return len(self), self.values.shape[1]

    def __getitem__(self, rows):
        """Return those of some texts: of a slice, or of a list of rows."""
        rows = np.arange(len(self))[rows]
        lengths = np.diff(self.splits)[rows]
        places = np.repeat(self.splits[rows] - (np.cumsum(lengths) - lengths), lengths)
        return TokenVectors(self.values[places + np.arange(lengths.sum())],
                            np.concatenate([[0], np.cumsum(lengths)]))


def max_sims(queries, passages):
    """Return float32 `[q, n]`: the sum over a query's vectors of the largest scalar product with
    one of a passage's.

    Khattab and Zaharia 2020, "ColBERT", section 3.3, equation 3. A passage without vectors has 0.

    Args:
        queries, passages: `TokenVectors`.
    """
    scores = np.zeros((len(queries), len(passages)), np.float32)
    asked = np.flatnonzero(np.diff(queries.splits))
    if not len(asked):
        return scores
    at_once = max(1, _PRODUCTS_AT_ONCE // len(queries.values))
    start = 0
    while start < len(passages):
        end = max(start + 1, int(np.searchsorted(
            passages.splits, passages.splits[start] + at_once, "right")) - 1)
        first, last = passages.splits[[start, end]]
        held = start + np.flatnonzero(np.diff(passages.splits[start:end + 1]))
        if len(held):
            products = passages.values[first:last] @ queries.values.T
            largest = np.maximum.reduceat(products, passages.splits[held] - first, 0)
            scores[np.ix_(asked, held)] = np.add.reduceat(
                largest, queries.splits[asked], 1).T
        start = end
    return scores


def search_tokens(queries, parts, k):
    """Find the passages with the highest MaxSim.

    Args:
        queries: list of `TokenVectors`, of some queries after the others.
        parts: iterable of the same of passages, which are let go of once they are compared.
        k: passages of a query.

    Returns: `(scores, rows)`, float32 and int64 `[q, min(k, n)]`, highest first, of equal scores
        the earlier passage first. Those of equal passages may differ in their last bit, by which
        the parts that passages come in decide their order.
    """
    tops, first = [TopK(len(part), check_k(k)) for part in queries], 0
    for passages in parts:
        for part, top in zip(queries, tops, strict=True):
            top.update(max_sims(part, passages), first)
        first += len(passages)
    scores, rows = (np.concatenate(found) for found in zip(*(top.taken() for top in tops),
                                                           strict=True))
    return scores[:, :first], rows[:, :first]
