"""Where a token stands: position numbers, and fixed position embeddings."""

import tensorflow as tf


def sinusoidal_positions(seq_length, width):
    """Fixed position embeddings (Vaswani et al. 2017, section 3.5).

    `sin(position / 10000^(2i / width))` in column `2i`, the cosine of the same in column `2i + 1`.

    Args:
        seq_length: integer, a Python value or a scalar tensor.
        width: columns.

    Returns: float32 `[seq_length, width]`.
    """
    column = tf.range(width)
    exponent = tf.cast(column - column % 2, tf.float32) / width
    position = tf.cast(tf.range(seq_length), tf.float32)
    angle = position[:, tf.newaxis] * tf.pow(10000.0, -exponent)[tf.newaxis]
    return tf.where(column % 2 == 0, tf.sin(angle), tf.cos(angle))


def positions_from_padding(input_word_ids, padding_id):
    """RoBERTa's position numbers, derived from the ids themselves (fairseq).

    The padding id has position `padding_id`, the k-th other token (from 0) `padding_id + 1 + k`.

    Args:
        input_word_ids: int32 `[batch, seq_length]`.
        padding_id: id of the padding token.

    Returns: int32 `[batch, seq_length]`.
    """
    real = tf.cast(input_word_ids != padding_id, tf.int32)
    return tf.cumsum(real, axis=1) * real + padding_id
