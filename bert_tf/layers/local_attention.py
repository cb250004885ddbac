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


def in_window(query, key, value, adder, reach, causal, attend):
    """Attention of every position to those at most `reach` away.

    A position sees three blocks, so they pay where a row has more than three; shorter rows are
    compared as a whole, with what is too far away hidden. Where the length is known when the graph
    is made so is which of both it is, else each batch tells.

    Args:
        query, key, value: `[rows, heads, positions, head_size]`.
        adder: of padding, `[rows, 1, 1, positions]`.
        reach: positions seen on either side.
        causal: whether none after itself is seen; of some rows alone a float `[rows, 1, 1, 1]`.
        attend: of the same four, or of all with one more axis, of blocks, before positions: gives
            the context `[rows, heads, (blocks,) from, head_size]` and the probabilities.

    Returns: the context `[rows, heads, positions, head_size]`, and None for the probabilities.
    """
    def blocks():
        return _in_blocks(query, key, value, adder, reach, causal, attend)

    def whole():
        position = tf.range(tf.shape(query)[2])
        window = _hidden(position, position, reach, causal, adder.dtype)
        return tf.ensure_shape(attend(query, key, value, adder + window)[0], query.shape)

    length, most = query.shape[2], 3 * reach
    if length is not None:
        return (blocks if length > most else whole)(), None
    return tf.cond(tf.shape(query)[2] > most, blocks, whole), None


def _hidden(own, position, reach, causal, dtype):
    """What hides from positions `own` others that are too far away or, if `causal`, come after:
    `[…, from, to]`."""
    window = window_adder(own, position, reach, dtype)
    if causal is False:
        return window
    after = tf.cast(own[:, tf.newaxis] < position, dtype) * MASKED
    return window + of_rows(causal, after)


def _in_blocks(query, key, value, adder, reach, causal, attend):
    length = tf.shape(query)[2]
    size = tf.minimum(max(reach, _LEAST), length)
    blocks = -(-length // size)
    position = tf.range(3 * size)
    if tf.is_tensor(causal):
        causal = causal[..., tf.newaxis]
    window = _hidden(position[size:2 * size], position, reach, causal, adder.dtype)
    adder = tf.linalg.matrix_transpose(adder)  # as keys: [rows, 1, positions, 1]
    adder = tf.linalg.matrix_transpose(
        _with_neighbours(_blocks(adder, blocks, size, MASKED), MASKED)) + window
    context, _ = attend(_blocks(query, blocks, size), _with_neighbours(_blocks(key, blocks, size)),
                        _with_neighbours(_blocks(value, blocks, size)), adder)
    rows, heads = tf.shape(context)[0], context.shape[1]
    joined = tf.reshape(context, [rows, heads, blocks * size, context.shape[-1]])[:, :, :length]
    return tf.ensure_shape(joined, query.shape)


def _blocks(values, blocks, size, filling=0.0):
    """`[rows, heads, positions, width]` -> `[rows, heads, blocks, size, width]`."""
    spare = blocks * size - tf.shape(values)[2]
    padded = tf.pad(values, [[0, 0], [0, 0], [0, spare], [0, 0]], constant_values=filling)
    heads, width = values.shape[1], values.shape[3]
    return tf.reshape(padded, [tf.shape(values)[0], heads, blocks, size, width])


def _with_neighbours(blocks, filling=0.0):
    """`[rows, heads, blocks, size, width]` -> `[rows, heads, blocks, 3 size, width]`."""
    count = tf.shape(blocks)[2]
    # The gradient of a split is quicker than that of a slice.
    before, _ = tf.split(blocks, [count - 1, 1], 2, num=2)
    first, after = tf.split(blocks, [1, count - 1], 2, num=2)
    none = tf.fill(tf.shape(first), tf.constant(filling, blocks.dtype))
    return tf.concat([tf.concat([none, before], 2), blocks, tf.concat([after, none], 2)], 3)
