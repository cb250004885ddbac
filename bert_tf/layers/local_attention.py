"""Attention within a window, block by block: its cost grows with the length, not its square.

A block of positions sees itself and its two neighbours (Beltagy et al. 2020, "Longformer", section
3.1, whose sliding window this is).
"""

import tensorflow as tf

from bert_tf.layers.masks import MASKED, of_rows

_LEAST = 32  # positions of a block: smaller ones make small matrix products


def window_adder(query_position, key_position, reach, dtype):
    """Adder `[from, to]` that hides what is more than `reach` positions away.

    Args:
        query_position, key_position: int32 `[from]` and `[to]`.
        reach: positions seen on either side.
        dtype: float type of the result.
    """
    distance = tf.abs(query_position[:, tf.newaxis] - key_position)
    return tf.where(distance <= reach, tf.zeros([], dtype), tf.constant(MASKED, dtype))


def in_blocks(query, key, value, adder, reach, causal, attend):
    """Attention of every position to those at most `reach` away.

    Args:
        query, key, value: `[rows, heads, positions, head_size]`.
        adder: of padding, `[rows, 1, 1, positions]`.
        reach: positions seen on either side.
        causal: whether none after itself is seen; of some rows alone a float `[rows, 1, 1, 1]`.
        attend: of the same four with one more axis, of blocks, before positions: gives the context
            `[rows, heads, blocks, from, head_size]` and the probabilities.

    Returns: the context `[rows, heads, positions, head_size]`, and None for the probabilities.
    """
    length = tf.shape(query)[2]
    size = tf.minimum(max(reach, _LEAST), length)
    blocks = -(-length // size)
    position = tf.range(3 * size)
    own = position[size:2 * size]
    window = window_adder(own, position, reach, adder.dtype)
    if causal is not False:
        after = tf.cast(own[:, tf.newaxis] < position, adder.dtype) * MASKED
        window += of_rows(causal if causal is True else causal[..., tf.newaxis], after)
    adder = tf.linalg.matrix_transpose(adder)  # as keys: [rows, 1, positions, 1]
    adder = tf.linalg.matrix_transpose(
        _with_neighbours(_blocks(adder, blocks, size, MASKED), MASKED)) + window
    context, _ = attend(_blocks(query, blocks, size), _with_neighbours(_blocks(key, blocks, size)),
                        _with_neighbours(_blocks(value, blocks, size)), adder)
    rows, heads = tf.shape(context)[0], context.shape[1]
    joined = tf.reshape(context, [rows, heads, blocks * size, context.shape[-1]])[:, :, :length]
    return tf.ensure_shape(joined, query.shape), None


def _blocks(values, blocks, size, filling=0.0):
    """`[rows, heads, positions, width]` -> `[rows, heads, blocks, size, width]`."""
    spare = blocks * size - tf.shape(values)[2]
    padded = tf.pad(values, [[0, 0], [0, 0], [0, spare], [0, 0]], constant_values=filling)
    heads, width = values.shape[1], values.shape[3]
    return tf.reshape(padded, [tf.shape(values)[0], heads, blocks, size, width])


def _with_neighbours(blocks, filling=0.0):
    """`[rows, heads, blocks, size, width]` -> `[rows, heads, blocks, 3 size, width]`."""
    around = tf.pad(blocks, [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]], constant_values=filling)
    return tf.concat([around[:, :, :-2], around[:, :, 1:-1], around[:, :, 2:]], 3)
