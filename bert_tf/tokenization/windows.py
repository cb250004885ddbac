"""A text that is longer than the model's window, as overlapping windows."""

import tensorflow as tf


def cut_windows(pieces, size, stride):
    """Cut token sequences into windows that overlap (google-research/bert `run_squad.py`).

    A sequence's windows start at 0, `stride`, 2 `stride` … until one holds its last token, so that
    every sequence, the empty one too, has at least one.

    Args:
        pieces: RaggedTensor int32 `[n, (tokens)]`.
        size: tokens of a window at most, integer or int64 `[n]`, at least 1.
        stride: tokens from one start to the next, integer or int64 `[n]`, at least 1 and at most
            `size`.

    Returns:
        rows: int64 `[w]`, the sequence that each window is from, ascending.
        starts: int64 `[w]`, its first token in that sequence.
        windows: RaggedTensor int32 `[w, (tokens)]`.
    """
    lengths = tf.cast(pieces.row_lengths(), tf.int64)
    size = tf.broadcast_to(tf.cast(size, tf.int64), tf.shape(lengths))
    stride = tf.broadcast_to(tf.cast(stride, tf.int64), tf.shape(lengths))
    after_first = tf.maximum(lengths - size, 0)
    numbers = tf.ragged.range(1 + (after_first + stride - 1) // stride)
    rows = numbers.value_rowids()
    starts = numbers.values * tf.gather(stride, rows)
    ends = tf.minimum(starts + tf.gather(size, rows), tf.gather(lengths, rows))
    first = tf.gather(tf.cast(pieces.row_starts(), tf.int64), rows)
    places = tf.ragged.range(first + starts, first + ends)
    return rows, starts, places.with_values(tf.gather(pieces.values, places.values))


def stack_windows(rows, values, num_rows, fill=0):
    """Windows side by side: `values [w, …]` of `rows [w]`, ascending, as `[num_rows, windows, …]`.

    Rows with fewer windows than the most are filled up with `fill`.
    """
    return tf.RaggedTensor.from_value_rowids(values, rows, num_rows).to_tensor(fill)
