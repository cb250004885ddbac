"""Attention masks as adders: 0 where attended, a large negative number elsewhere."""

import tensorflow as tf

MASKED = -10000.0  # as in google-research/bert; finite in float16 even when adders are summed


def padding_adder(input_mask, dtype="float32"):
    """Adder that hides padding from every position.

    Args:
        input_mask: `[batch, seq_length]`, 1 for real tokens and 0 for padding. Other numbers above
            0 count as 1: they must not attract attention.
        dtype: float type of the result.

    Returns: `[batch, 1, 1, seq_length]`, 0 for real tokens and -10000 for padding.
    """
    hidden = tf.cast(tf.cast(input_mask, tf.int32) <= 0, dtype)  # [B, T]
    return (hidden * MASKED)[:, tf.newaxis, tf.newaxis, :]


def causal_adder(seq_length, dtype="float32"):
    """Adder that hides from every position those after it (left-to-right attention).

    Args:
        seq_length: integer, a Python value or a scalar tensor.
        dtype: float type of the result.

    Returns: `[1, 1, seq_length, seq_length]`; row `f` is 0 up to and with column `f`.
    """
    open_ = tf.linalg.band_part(tf.ones([seq_length, seq_length], dtype), -1, 0)  # [F, T]
    return ((1.0 - open_) * MASKED)[tf.newaxis, tf.newaxis]


def of_rows(causal, adder):
    """`adder` where `causal` is True; else that of the rows where its float `[batch, 1, …]` is 1,
    and 0 in the others."""
    return adder if causal is True else tf.cast(causal, adder.dtype) * adder
