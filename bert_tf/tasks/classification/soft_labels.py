"""Labels that are not certain: the probability of each, as a teacher or annotators say (Hinton et
al. 2015, "Distilling the Knowledge in a Neural Network").
"""

import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.examples import CHOSEN_FROM

_TOLERANCE = 1e-2  # of a sum of probabilities, which may have been float16


def is_soft(values, count):
    """Return whether the `label_ids` of `count` labels, an array or tensor, are soft: floats `[b,
    count]`."""
    return tf.as_dtype(values.dtype).is_floating and (
        tf.TensorShape(values.shape).is_compatible_with([None, count]))


def likeliest(soft, problem):
    """Return what soft labels make likeliest.

    Args:
        soft: float `[b, labels]`; nan is ignored, of several labels -1, too.
        problem: `single_label` or `multi_label`.

    Returns: int32 `[b]`, or of several labels 0 and 1 `[b, labels]`; -1 where it is ignored.
    """
    if problem == "multi_label":
        ignored = tf.math.is_nan(soft) | (soft == -1)
        return tf.where(ignored, -1, tf.cast(soft >= CHOSEN_FROM, tf.int32))
    ignored = tf.reduce_any(tf.math.is_nan(soft), -1)
    return tf.where(ignored, -1, tf.argmax(soft, -1, tf.int32))


def soft_cross_entropy(soft, logits, problem):
    """Compute the cross-entropy of soft labels and logits, in nats.

    Args:
        soft: as of `likeliest`.
        logits: float32 `[b, labels]`.
        problem: as of `likeliest`.

    Returns: float32 `[b]`, or of several labels `[b, labels]`; finite where a label is ignored, NaN
        where it is no probability.
    """
    known = tf.where(soft >= 0, tf.cast(soft, tf.float32), 0.0)
    several = problem == "multi_label"
    nats = (tf.nn.sigmoid_cross_entropy_with_logits if several else
            tf.nn.softmax_cross_entropy_with_logits)(known, logits)
    return tf.where(_wrong(soft, several), float("nan"), nats)


def _wrong(soft, several):
    """Return where soft labels are no probabilities, bool `[b]`, or of `several` `[b, labels]`."""
    soft = tf.cast(soft, tf.float32)
    if several:
        return (soft > 1) | ((soft < 0) & (soft != -1))
    return tf.reduce_any(soft < 0, -1) | (tf.abs(tf.reduce_sum(soft, -1) - 1) > _TOLERANCE)


def check_soft(name, values, problem):
    """Refuse an array of soft labels that are no probabilities.

    Raises:
        UsageError: one is below 0 or above 1, or those of a row do not sum to 1.
    """
    several = problem == "multi_label"
    wrong = _wrong(values, several).numpy()
    if wrong.any():
        first = values[wrong.any(-1) if several else wrong][0]
        raise UsageError(explain(f"{name} such as {first.tolist()}", "probabilities" if several
                                 else "probabilities, which sum to 1"))
