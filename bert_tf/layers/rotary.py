"""Rotary position embeddings (Su et al. 2021, "RoFormer", section 3.2.2)."""

import tensorflow as tf


def rotated(heads, base, factor=1.0, positions=None):
    """Queries or keys turned by their position, so that their product tells the distance.

    Component `i` of the first half and of the second are a pair, turned by the angle
    `position / factor / base^(2i / head_size)`.

    Args:
        heads: `[rows, heads, positions, head_size]`, an even `head_size`.
        base: number above 1; the larger it is the farther apart distances can be told.
        factor: by which positions are divided, for windows longer than those of the training (Chen
            et al. 2023, "Extending Context Window", section 2.3).
        positions: int32 `[rows, positions]`, where they are; None for 0, 1, 2, …

    Returns: the same shape and type; angles and products are float32.
    """
    half = heads.shape[-1] // 2
    frequency = tf.pow(tf.constant(base, tf.float32), -tf.range(half, dtype=tf.float32) / half)
    if positions is None:
        positions = tf.range(tf.shape(heads)[2])
    else:
        positions = positions[:, tf.newaxis]  # [B, 1, S]
    position = tf.cast(positions, tf.float32) / factor
    angle = position[..., tf.newaxis] * frequency  # [S, H / 2]
    cosine, sine = tf.cos(angle), tf.sin(angle)
    first, second = tf.split(tf.cast(heads, tf.float32), 2, axis=-1)
    turned = tf.concat([first * cosine - second * sine, second * cosine + first * sine], -1)
    return tf.cast(turned, heads.dtype)
