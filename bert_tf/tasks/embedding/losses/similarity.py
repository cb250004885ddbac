"""How similar vectors are."""

import tensorflow as tf


def of_length_1(vectors):
    """Divide vectors `[…, width]` by their lengths; one of 0 stays 0."""
    return tf.math.l2_normalize(vectors, -1, 1e-24)


def pair_similarities(left, right, similarity="cosine"):
    """Return the similarity of each pair, `[…]`, of vectors `[…, width]`."""
    if similarity == "cosine":
        left, right = of_length_1(left), of_length_1(right)
    return tf.reduce_sum(left * right, -1)


def all_similarities(left, right, similarity="cosine"):
    """Return `[n, m]`, each of `left [n, width]` beside each of `right [m, width]`."""
    if similarity == "cosine":
        left, right = of_length_1(left), of_length_1(right)
    return tf.matmul(left, right, transpose_b=True)
