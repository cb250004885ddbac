"""Batches whose examples are lists of rows, such as a query's candidates."""

import tensorflow as tf

from bert_tf.models.families import INPUTS
from bert_tf.randomness import several_rows


def each_row(batch, compute, names=INPUTS):
    """Apply `compute` to each row of lists, and give back lists.

    Args:
        batch: dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
            `[b, size, seq_length]`.
        compute: function of the same with `[b * size, seq_length]`; a row draws as if it were an
            example, on any replica. Gives `[b * size, …]`.
        names: of what it is given.

    Returns: `[b, size, …]`.
    """
    rows, size, length = batch["input_word_ids"].shape
    sizes = tf.shape(batch["input_word_ids"])
    known = None if None in (rows, size) else rows * size
    flat = {name: tf.ensure_shape(tf.reshape(batch[name], [-1, sizes[2]]), [known, length])
            for name in names}
    with several_rows(sizes[1] if size is None else size):
        outputs = compute(flat)
    shape = tf.concat([sizes[:2], tf.shape(outputs)[1:]], 0)
    return tf.ensure_shape(tf.reshape(outputs, shape), [rows, size, *outputs.shape[1:]])
