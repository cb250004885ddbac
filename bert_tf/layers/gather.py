"""Rows of a table, with a dense and deterministic gradient."""

import tensorflow as tf

from bert_tf.layers.inference import own_gradient


@own_gradient
def gather_rows(table, ids):
    """Rows `ids` of `table`.

    The gradient is a dense tensor (summed per row in a fixed order), not IndexedSlices: it adds
    up with the gradient of a decoder tied to the same table, is reduced over replicas and clipped
    like any other, and repeats bit by bit.

    Args:
        table: float `[rows, width]`.
        ids: int32 or int64 `[…]`, all below `rows`.

    Returns: `[…, width]`.
    """
    rows, width = tf.shape(table)[0], table.shape[1]

    def gradient(upstream):
        # In half precision a CPU would stop adding at some hundreds.
        flat = tf.cast(tf.reshape(upstream, [-1, width]), tf.float32)
        total = tf.math.unsorted_segment_sum(flat, tf.reshape(ids, [-1]), rows)
        return tf.cast(total, table.dtype), None

    return tf.gather(table, ids), gradient
