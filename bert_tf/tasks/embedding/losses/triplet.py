"""A hard negative is to be further away than the positive."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.vector_batch import weighted_mean


def triplet(batch, options):
    """max(|q - p| - |q - n| + margin, 0), Euclidean, the mean over all hard negatives.

    Reimers and Gurevych 2019, "Sentence-BERT", section 3 (margin 1).
    """
    margin = options.margin or 1.0
    to_positive = _distance(batch.queries, batch.positives)[:, tf.newaxis]
    to_negatives = _distance(batch.queries[:, tf.newaxis], batch.negatives)
    losses = tf.nn.relu(to_positive - to_negatives + margin)
    weights = tf.where(batch.present[:, 2:], batch.weights[:, tf.newaxis], 0.0)
    return weighted_mean(losses, weights)


def _distance(left, right):
    # The root's gradient at 0 is infinite.
    return tf.sqrt(tf.maximum(tf.reduce_sum(tf.square(left - right), -1), 1e-12))
