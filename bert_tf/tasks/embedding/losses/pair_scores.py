"""Losses of pairs of texts and the scores that say how similar the two are."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.similarity import pair_similarities

_SCALE = 20.0


def cosine(batch, _):
    """The squared difference of a pair's cosine and its score (Sentence-BERT, section 3)."""
    cosines = pair_similarities(batch.queries, batch.positives)
    return batch.mean(tf.square(cosines - batch.scores[:, 0]))


def cosent(batch, options):
    """log(1 + the sum of exp(scale (s(j) - s(i))) over pairs i with a higher score than j).

    Su 2022, "CoSENT (1): a more efficient sentence vector scheme than Sentence-BERT"
    (https://kexue.fm/archives/8847); s is the cosine.
    """
    return _ordered(batch, pair_similarities(batch.queries, batch.positives), options)


def angle(batch, options):
    """CoSENT's order by the angle difference of two vectors taken as complex numbers.

    It has a gradient where a cosine has hardly any.

    Li and Li 2023, "AnglE-optimized Text Embeddings", section 3.4, the objective L_angle.
    """
    return _ordered(batch, _by_angle(batch.queries, batch.positives), options)


def _ordered(batch, similarities, options):
    """Compute CoSENT of any `similarities [b]`."""
    scaled = (options.scale or _SCALE) * similarities
    scores = batch.scores[:, 0]
    real = batch.weights > 0
    higher = scores[:, tf.newaxis] > scores  # row i above column j
    counted = higher & real[:, tf.newaxis] & real
    excess = tf.where(counted, scaled - scaled[:, tf.newaxis], scaled.dtype.min)
    return tf.reduce_logsumexp(tf.concat([[0.0], tf.reshape(excess, [-1])], 0))


def _by_angle(left, right):
    """Return |the sum of Re and Im of (z / w) / (|z| / |w|)|; the halves are real and imaginary
    parts."""
    a, b = tf.split(left, 2, -1)
    c, d = tf.split(right, 2, -1)
    lengths = tf.sqrt(tf.maximum(
        tf.reduce_sum(a * a + b * b, -1) * tf.reduce_sum(c * c + d * d, -1), 1e-24))
    return tf.abs(tf.reduce_sum(a * c + b * d + b * c - a * d, -1) / lengths)
