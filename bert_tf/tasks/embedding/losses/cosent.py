"""Of two pairs the one with the higher score is to be more similar."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.similarity import pair_similarities

_SCALE = 20.0


def cosent(batch, options):
    """log(1 + the sum of exp(scale (s(j) - s(i))) over pairs i with a higher score than j).

    Su 2022, "CoSENT (1): a more efficient sentence vector scheme than Sentence-BERT"
    (https://kexue.fm/archives/8847); s is the cosine.
    """
    return ordered(batch, pair_similarities(batch.queries, batch.positives), options)


def ordered(batch, similarities, options):
    """Compute the same of any `similarities [b]`."""
    scaled = (options.scale or _SCALE) * similarities
    scores = batch.scores[:, 0]
    real = batch.weights > 0
    higher = scores[:, tf.newaxis] > scores  # row i above column j
    counted = higher & real[:, tf.newaxis] & real
    excess = tf.where(counted, scaled - scaled[:, tf.newaxis], scaled.dtype.min)
    return tf.reduce_logsumexp(tf.concat([[0.0], tf.reshape(excess, [-1])], 0))
