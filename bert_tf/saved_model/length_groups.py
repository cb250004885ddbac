"""Rows of like length go through the encoder together: what is computed grows with the tokens.

A server's batch holds whatever came at the same time. Padded to its longest row, one long text
would make every short one as dear as itself.
"""

import tensorflow as tf

# A group's rows are longer than one of these and at most as long as the next. Finer groups pad
# less, but each is a pass of its own through all layers.
_BOUNDS = (16, 32, 64, 128, 256, 512, 1024, 2048)


def apply_by_length(function, inputs, width):
    """`function(inputs)`, called for the rows of each group of like length.

    Args:
        function: takes a dict such as `inputs`, gives float32 `[b, width]`, each row by itself.
        inputs: dict of int32 `[B, S]`, among them `input_mask`. Texts in windows
            (`[B, windows, S]`) are left together.
        width: integer.

    Returns: float32 `[B, width]`, in the order of the rows.
    """
    mask = inputs["input_mask"]
    if len(mask.shape) != 2:
        return function(inputs)
    # Up to the last token, wherever the mask has gaps before it.
    lengths = tf.reduce_max(mask * tf.range(1, tf.shape(mask)[1] + 1), axis=1)
    order = tf.argsort(lengths, stable=True)
    groups = tf.searchsorted(tf.constant(_BOUNDS), tf.gather(lengths, order))
    counts = tf.unique_with_counts(groups).count
    # Without rows one group of none: the answer has its shape all the same.
    counts = tf.pad(counts, [[0, tf.cast(tf.size(counts) == 0, tf.int32)]])
    ends = tf.cumsum(counts)

    def answers_of(index):
        rows = order[ends[index] - counts[index]:ends[index]]
        longest = tf.maximum(tf.reduce_max(tf.gather(lengths, rows)), 1)
        return function({name: tf.gather(ids, rows)[:, :longest]
                         for name, ids in inputs.items()})

    parts = tf.TensorArray(tf.float32, tf.size(counts), element_shape=[None, width],
                           infer_shape=False)
    parts = tf.while_loop(
        lambda index, parts: index < tf.size(counts),
        lambda index, parts: (index + 1, parts.write(index, answers_of(index))),
        (0, parts), parallel_iterations=1)[1]
    return tf.gather(parts.concat(), tf.math.invert_permutation(order))
