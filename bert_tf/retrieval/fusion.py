"""Several rankings as one, by ranks alone: the systems' scores are on different scales."""

import numpy as np

K = 60  # as in the paper


def reciprocal_rank_fusion(rankings, depth, k=K):
    """Fuse rankings by the sum of 1 / (k + rank) (Cormack, Clarke and Büttcher 2009).

    Args:
        rankings: list of int64 `[queries, n]`, each the rows that a system found, best first, -1
            where it found no more.
        depth: rows of a query that are kept.
        k: how little the first ranks differ.

    Returns: `(scores, rows)`, float32 and int64 `[queries, depth]`, highest first, of equal scores
        the lower row first; 0 and -1 for none.
    """
    queries = len(rankings[0])
    scores, rows = np.zeros((queries, depth), np.float32), np.full((queries, depth), -1, np.int64)
    for query in range(queries):
        found = [ranking[query][ranking[query] >= 0] for ranking in rankings]
        different, place = np.unique(np.concatenate(found), return_inverse=True)
        weights = np.concatenate([1 / (k + np.arange(1, len(ranked) + 1)) for ranked in found])
        sums = np.bincount(place, weights, len(different))
        order = np.argsort(-sums, kind="stable")[:depth]
        scores[query, :len(order)], rows[query, :len(order)] = sums[order], different[order]
    return scores, rows
