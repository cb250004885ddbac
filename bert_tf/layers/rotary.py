"""Rotary position embeddings (Su et al. 2021, "RoFormer", section 3.2.2)."""

import tensorflow as tf


def rotation(positions, base, factor, head_size):
    """The angles by which `rotated` turns.

    Args:
        positions: int32 `[tokens]`, where each token stands in its row.
        base: number above 1; the larger it is the farther apart distances can be told.
        factor: by which positions are divided, for windows longer than those of the training (Chen
            et al. 2023, "Extending Context Window", section 2.3).
        head_size: an even number.

    Returns: cosine and sine of `position / factor / base^(2i / head_size)`, float32
        `[tokens, 1, head_size / 2]`.
    """
    half = head_size // 2
    frequency = tf.pow(tf.constant(base, tf.float32), -tf.range(half, dtype=tf.float32) / half)
    position = tf.cast(positions, tf.float32) / factor
    angle = position[:, tf.newaxis, tf.newaxis] * frequency
    return tf.cos(angle), tf.sin(angle)


def rotated(projected, angles):
    """Queries or keys turned by their position, so that their product tells the distance.

    Component `i` of the first half of a head and of the second are a pair.

    Args:
        projected: `[tokens, heads × head_size]`.
        angles: of `rotation`.

    Returns: the same shape and type; products are float32.
    """
    cosine, sine = angles
    heads = tf.reshape(projected, [-1, projected.shape[-1] // (2 * cosine.shape[-1]),
                                   2 * cosine.shape[-1]])
    first, second = tf.split(tf.cast(heads, tf.float32), 2, axis=-1)
    turned = tf.concat([first * cosine - second * sine, second * cosine + first * sine], -1)
    return tf.reshape(tf.cast(turned, projected.dtype), [-1, projected.shape[-1]])
