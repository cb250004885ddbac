"""The one form of a ranking, whoever scored the texts: a reranker, vectors or weights of tokens."""

import numpy as np


def ranking(passages, scores):
    """Rank passages by their scores.

    Args:
        passages: list of N str.
        scores: float `[N]`, the higher the better.

    Returns: list of dicts of `text`, `index` in `passages` and `score`, highest first; of equal
        scores the earlier first.
    """
    scores = np.asarray(scores, np.float64)
    return [{"text": passages[index], "index": int(index), "score": float(scores[index])}
            for index in np.argsort(-scores, kind="stable")]


def cosines(queries, passages):
    """Return the cosines of vectors, each with the one beside it; 0 where one of them is all 0.

    Args:
        queries: float `[W]` or `[N, W]`.
        passages: float `[N, W]`.

    Returns: float `[N]`.
    """
    lengths = np.linalg.norm(queries, axis=-1) * np.linalg.norm(passages, axis=-1)
    return (passages * queries).sum(axis=-1) / np.where(lengths, lengths, 1)


def product(first, second):
    """Return the scalar product of weights of two texts, dicts of float by token."""
    return sum(weight * second[token] for token, weight in first.items() if token in second)
