"""Fewer dimensions that keep the scalar products of vectors as far as possible."""

import numpy as np


def principal_axes(vectors, width):
    """Return the axes along which vectors are longest: what PCA gives without centring.

    `vectors @ axes` has scalar products as near to those of `vectors` as `width` dimensions can
    (Eckart and Young 1936).

    Args:
        vectors: float `[n, dimensions]`.
        width: at most `dimensions`.

    Returns: float32 `[dimensions, width]`, orthonormal columns, that of the largest share first;
        of each column the entry of the largest magnitude is positive.
    """
    vectors = np.asarray(vectors, np.float64)
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    axes = axes[:, ::-1][:, :width]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(width)]
    return (axes * np.sign(largest)).astype(np.float32)
