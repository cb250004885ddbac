"""Where the positives of queries stand among all texts of some examples."""

import numpy as np

_BLOCK = 1 << 24  # similarities that are computed together


def products(queries, texts):
    """Return the scalar products `[q, n]` of arrays or CSR matrices `[q, width]`, `[n, width]`."""
    found = queries @ texts.T
    return found if isinstance(found, np.ndarray) else found.toarray()


def positive_ranks(queries, texts, positives, left_out=None, compare=products):
    """Return the ranks of each query's positives, from 1, a list of sorted lists.

    Equal similarities are to a positive's disadvantage: vectors that are all the same find nothing.

    Args:
        queries: `[n, width]`, what `compare` takes, as
        texts: `[m, width]`.
        positives: for each query the rows of `texts` that are its positives, a list of lists.
        left_out: for each query the rows of `texts` that are not ranked, but where they are its
            positives, a list of lists; None for all empty.
        compare: gives the similarities of some of the queries and the texts, an array.
    """
    ranks, block = [], max(1, _BLOCK // texts.shape[0])
    left_out = left_out or [[]] * len(positives)
    for start in range(0, queries.shape[0], block):
        similarities = compare(queries[start:start + block], texts)
        for own, others, line in zip(positives[start:start + block],
                                     left_out[start:start + block], similarities, strict=True):
            found = np.sort(line[own])[::-1]
            line[own + others] = -np.inf
            ranks.append([number + int(np.sum(line >= each))
                          for number, each in enumerate(found, 1)])
    return ranks
