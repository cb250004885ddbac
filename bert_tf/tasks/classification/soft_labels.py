"""Labels that are not certain: the probability of each, as a teacher or annotators say (Hinton et
al. 2015, "Distilling the Knowledge in a Neural Network").
"""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.examples import CHOSEN_FROM

_TOLERANCE = 1e-3  # of a sum of probabilities


def is_soft(values, count):
    """Return whether the `label_ids` of `count` labels, an array or tensor, are soft: floats `[b,
    count]`."""
    return tf.as_dtype(values.dtype).is_floating and (
        tf.TensorShape(values.shape).is_compatible_with([None, count]))


def likeliest(soft, problem):
    """Return what soft labels make likeliest.

    Args:
        soft: float `[b, labels]`; nan or negative ones are ignored.
        problem: `single_label` or `multi_label`.

    Returns: int32 `[b]`, or of several labels 0 and 1 `[b, labels]`; -1 where it is ignored.
    """
    if problem == "multi_label":
        return tf.where(soft >= 0, tf.cast(soft >= CHOSEN_FROM, tf.int32), -1)
    return tf.where(tf.reduce_all(soft >= 0, -1), tf.argmax(soft, -1, tf.int32), -1)


def soft_cross_entropy(soft, logits, problem):
    """Compute the cross-entropy of soft labels and logits, in nats.

    Args:
        soft: as of `likeliest`.
        logits: float32 `[b, labels]`.
        problem: as of `likeliest`.

    Returns: float32 `[b]`, or of several labels `[b, labels]`; finite where a label is ignored.
    """
    known = tf.where(soft >= 0, tf.cast(soft, tf.float32), 0.0)
    if problem == "multi_label":
        return tf.nn.sigmoid_cross_entropy_with_logits(known, logits)
    return tf.nn.softmax_cross_entropy_with_logits(known, logits)


def check_soft(name, values, problem):
    """Refuse an array of soft labels that are no probabilities.

    Raises:
        UsageError: one is above 1, or those of a row do not sum to 1.
    """
    if problem == "multi_label":
        wrong, right = (values > 1).any(axis=-1), "probabilities"
    else:
        known = (values >= 0).all(axis=-1)
        wrong = known & (np.abs(values.sum(axis=-1) - 1) > _TOLERANCE)
        right = "probabilities, which sum to 1"
    if wrong.any():
        raise UsageError(explain(f"{name} such as {values[wrong][0].tolist()}", right))
