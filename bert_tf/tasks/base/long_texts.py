"""Texts that are read in several windows: one vector for each, and windows some at a time."""

import contextlib

import tensorflow as tf

from bert_tf import randomness
from bert_tf.layers.inference import is_for_inference
from bert_tf.models.families import INPUTS

_AT_ONCE = 32  # windows


def average_windows(inputs, vectors_of, spec, training=False, jit_compile=False):
    """Average the windows' vectors; a window without a real token does not count.

    Args:
        inputs: dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
            `[b, windows, seq_length]`; with int64 `first_window [b]` dropout draws by a window's
            number in the step, on whatever replica.
        vectors_of: from such a dict of `[w, seq_length]` to float `[w, width]`.
        spec: `tf.TensorSpec` of what it gives.
        training: whether gradients are taken, which need all windows together.
        jit_compile: whether XLA compiles the graph, where there is one: it knows no open number
            of parts, so that all windows are computed together. Else some are at a time, see
            `in_parts`.

    Returns: float `[b, width]`.
    """
    real = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)  # [b, windows]
    # Without static sizes Keras cannot tell the rank.
    windows = {name: tf.ensure_shape(tf.boolean_mask(inputs[name], real), [None, None])
               for name in INPUTS}
    compiled = jit_compile and not tf.executing_eagerly()
    if (training or compiled) and not is_for_inference():  # nor is an export compiled
        with _drawn_by_window(inputs):
            vectors = vectors_of(windows)
    else:
        [vectors] = in_parts(lambda part: [vectors_of(part)], windows, spec)
    rows = tf.cast(tf.where(real)[:, 0], tf.int32)
    total = tf.math.unsorted_segment_sum(vectors, rows, tf.shape(real)[0])
    count = tf.reduce_sum(tf.cast(real, total.dtype), axis=1, keepdims=True)
    return tf.math.divide_no_nan(total, count)


def _drawn_by_window(inputs):
    position = randomness.current_position()
    if position is None or "first_window" not in inputs:
        return contextlib.nullcontext()
    return randomness.draw_at(position.seed, position.step, inputs["first_window"][0])


def in_parts(function, windows, *outputs):
    """Apply `function` to windows, some at a time: a long text takes no more memory.

    Args:
        function: from a dict of tensors `[n, …]` to a list of tensors `[n, …]`.
        windows: dict of tensors `[w, …]`.
        outputs: a `tf.TensorSpec` for each tensor of that list.

    Returns: a list of tensors `[w, …]`.
    """
    count = tf.shape(next(iter(windows.values())))[0]
    parts = tf.maximum((count + _AT_ONCE - 1) // _AT_ONCE, 1)

    def step(part, *done):
        first = part * _AT_ONCE
        # Without static sizes Keras cannot tell the rank.
        made = function({name: tf.ensure_shape(values[first:first + _AT_ONCE],
                                               [None] * values.shape.rank)
                         for name, values in windows.items()})
        return part + 1, *(array.write(part, value)
                           for array, value in zip(done, made, strict=True))

    arrays = [tf.TensorArray(spec.dtype, parts, element_shape=spec.shape, infer_shape=False)
              for spec in outputs]
    _, *arrays = tf.while_loop(lambda part, *_: part < parts, step, (0, *arrays),
                               parallel_iterations=1)
    return [array.concat() for array in arrays]
