"""One vector for a text that is read in several windows."""

import tensorflow as tf

from bert_tf.models.families import INPUTS


def average_windows(inputs, vectors_of):
    """The mean of the windows' vectors; a window without a real token does not count.

    Dropout draws by a window's place among those of its replica, so that another number of
    replicas is another draw.

    Args:
        inputs: dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
            `[b, windows, seq_length]`.
        vectors_of: from such a dict of `[w, seq_length]` to float `[w, width]`.

    Returns: float `[b, width]`.
    """
    real = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)  # [b, windows]
    # Without static sizes Keras cannot tell the rank.
    windows = {name: tf.ensure_shape(tf.boolean_mask(inputs[name], real), [None, None])
               for name in INPUTS}
    vectors = vectors_of(windows)
    rows = tf.cast(tf.where(real)[:, 0], tf.int32)
    total = tf.math.unsorted_segment_sum(vectors, rows, tf.shape(real)[0])
    count = tf.reduce_sum(tf.cast(real, total.dtype), axis=1, keepdims=True)
    return tf.math.divide_no_nan(total, count)
