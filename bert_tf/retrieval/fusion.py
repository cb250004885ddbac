"""Several rankings as one: by ranks alone, or by scores that are brought to one scale."""

import numpy as np

_K = 60  # how little the first ranks differ; as in the paper


def reciprocal_rank_fusion(rankings, depth):
    """Fuse rankings by the sum of 1 / (60 + rank) (Cormack, Clarke and Büttcher 2009).

    Args:
        rankings: list of int64 `[queries, n]`, each the rows that a system found, best first, -1
            where it found no more.
        depth: rows of a query that are kept.

    Returns: `(scores, rows)`, float32 and int64 `[queries, depth]`, highest first, of equal scores
        the lower row first; 0 and -1 for none.
    """
    return _fuse([[(ranked, 1 / (_K + np.arange(1, len(ranked) + 1)))
                   for ranked in (of_query[of_query >= 0] for of_query in ranking)]
                  for ranking in rankings], depth)


def weighted_fusion(found, weights, depth):
    """Fuse rankings by a weighted sum of scores (Bruch, Gai and Ingber 2023, section 4).

    The scores of a query are scaled to 0 for the lowest and 1 for the highest that a system found;
    what it did not find has 0 of it.

    Args:
        found: list of `(scores, rows)` as of `search`, of each system.
        weights: list of float, of each system.
        depth: rows of a query that are kept.

    Returns: as of `reciprocal_rank_fusion`.
    """
    return _fuse([[(ranked[ranked >= 0], weight * _scaled(values[ranked >= 0]))
                   for values, ranked in zip(scores, rows, strict=True)]
                  for (scores, rows), weight in zip(found, weights, strict=True)], depth)


def _scaled(scores):
    """Scores from 0 to 1; 1 for all where they are equal."""
    if not len(scores):
        return scores
    lowest, highest = scores.min(), scores.max()
    return (scores - lowest) / (highest - lowest) if highest > lowest else np.ones_like(scores)


def _fuse(systems, depth):
    """Sum what systems give: for each of them, for each query, `(rows, values)`."""
    queries = len(systems[0])
    scores, rows = np.zeros((queries, depth), np.float32), np.full((queries, depth), -1, np.int64)
    for query, parts in enumerate(zip(*systems, strict=True)):
        found, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        ascending = np.argsort(values)  # so that equal parts, whoever gave which, have one sum
        different, place = np.unique(found[ascending], return_inverse=True)
        sums = np.bincount(place, values[ascending], len(different))
        order = np.argsort(-sums, kind="stable")[:depth]
        scores[query, :len(order)], rows[query, :len(order)] = sums[order], different[order]
    return scores, rows
