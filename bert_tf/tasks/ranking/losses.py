"""Losses of the scores of candidates, passages of which some are relevant to a query."""

import tensorflow as tf

_NONE = -1e9  # the logit of a candidate that is none


def listwise(logits, labels):
    """Compute the cross-entropy of the scores' softmax over a query's candidates.

    The top-one probability of ListNet (Cao et al. 2007, section 4.3), the labels being 0 or 1; with
    one positive a query the localized contrastive loss (Gao et al. 2021, "Rethink Training of BERT
    Rerankers in Multi-Stage Retrieval Pipeline", equation 2).

    Args:
        logits: float32 `[b, candidates]`.
        labels: int32 `[b, candidates]`: 1 relevant, 0 not, negative no candidate.

    Returns: float32 `[b]`, nats.
    """
    logits = of_candidates(logits, labels)
    relevant = tf.cast(labels > 0, tf.float32)
    target = tf.math.divide_no_nan(relevant, tf.reduce_sum(relevant, axis=1, keepdims=True))
    return -tf.reduce_sum(target * tf.nn.log_softmax(logits), axis=1)


def of_candidates(logits, labels):
    """Return `logits [b, candidates]`, the lowest where there is no candidate."""
    return tf.where(labels < 0, _NONE, logits)


def listwise_weights(labels):
    """Return bool `[b]`: which queries have something to compare, a 1 and a 0."""
    return tf.reduce_any(labels > 0, axis=1) & tf.reduce_any(labels == 0, axis=1)


def binary(logits, labels):
    """Compute the cross-entropy of each query with each of its candidates (Nogueira and Cho 2019).

    Args:
        logits, labels: as of `listwise`.

    Returns: float32 `[b, candidates]`, nats.
    """
    return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels > 0, tf.float32), logits)


def binary_weights(labels):
    """Return bool `[b, candidates]`: which are there."""
    return labels >= 0


LOSSES = {"listwise": (listwise, listwise_weights), "binary": (binary, binary_weights)}
