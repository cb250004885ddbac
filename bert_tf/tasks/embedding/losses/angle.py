"""The same order by angles in the complex plane, where a cosine has hardly a gradient."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.cosent import ordered


def angle(batch, options):
    """CoSENT's order by the angle difference of two vectors taken as complex numbers.

    Li and Li 2023, "AnglE-optimized Text Embeddings", section 3.4, the objective L_angle.
    """
    return ordered(batch, _similarity(batch.queries, batch.positives), options)


def _similarity(left, right):
    """Return |the sum of Re and Im of (z / w) / (|z| / |w|)|; the halves are real and imaginary
    parts."""
    a, b = tf.split(left, 2, -1)
    c, d = tf.split(right, 2, -1)
    lengths = tf.sqrt(tf.maximum(
        tf.reduce_sum(a * a + b * b, -1) * tf.reduce_sum(c * c + d * d, -1), 1e-24))
    return tf.abs(tf.reduce_sum(a * c + b * d + b * c - a * d, -1) / lengths)
