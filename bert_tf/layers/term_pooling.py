"""A weight for each token of the vocabulary, from the logits of all tokens of a text.

The logits of a batch, `[b, seq_length, vocab]`, take gigabytes. They are computed for some of the
positions at a time, where the largest is learned in both directions.
"""

import tensorflow as tf

from bert_tf.layers.mlm_head import decode

POOLINGS = ("max", "sum")
ACTIVATIONS = ("relu", "log1p_relu")
_LOGITS_AT_ONCE = 1 << 24  # 64 MB


def pool_terms(hidden, mask, table, bias, pooling="max", act="relu", training=False):
    """Compute float32 `[b, vocab]`, 0 or above.

    Formal et al. 2021, "SPLADE v2", section 2: the largest or the sum of `log(1 + relu(logit))`
    over the real tokens.

    Args:
        hidden: `[b, seq_length, width]`, what the head decodes.
        mask: int `[b, seq_length]`, 1 for real tokens.
        table: `[vocab, width]`, of the type of `hidden`.
        bias: float32 `[vocab]`.
        pooling: one of `POOLINGS`.
        act: one of `ACTIVATIONS`; `log1p_relu` takes the logarithm twice (Shen et al. 2025).
        training: whether gradients of the largest are needed, for which logits are not kept.
    """
    def logits_from(start):
        return _logits(hidden, mask, table, bias, start)

    nothing = tf.zeros([tf.shape(hidden)[0], table.shape[0]])
    if pooling == "sum":
        return _over_positions(hidden, table, lambda start, total: total + tf.reduce_sum(
            _saturated(tf.nn.relu(logits_from(start)), act), 1), nothing)
    if training:
        largest = _learned_largest(hidden, mask, table, bias)
    else:
        largest = _over_positions(hidden, table, lambda start, before: tf.maximum(
            before, tf.reduce_max(logits_from(start), 1)), nothing)
    return _saturated(largest, act)  # the logarithm keeps the order


def _saturated(values, act):
    values = tf.math.log1p(values)
    return tf.math.log1p(values) if act == "log1p_relu" else values


@tf.custom_gradient
def _learned_largest(hidden, mask, table, bias):
    """Compute the largest logit over the real tokens, at least 0: `[b, vocab]`."""
    def larger(start, before, places):
        logits = _logits(hidden, mask, table, bias, start)
        found, place = tf.reduce_max(logits, 1), tf.argmax(logits, 1, tf.int32)
        return tf.maximum(before, found), tf.where(found > before, start + place, places)

    nothing = tf.zeros([tf.shape(hidden)[0], table.shape[0]])
    largest, places = _over_positions(hidden, table, larger, nothing,
                                      tf.cast(nothing, tf.int32) - 1)

    def gradient(upstream):
        def back(start, of_hidden, of_table):
            part = hidden[:, start:start + _positions(hidden, table)]  # [b, n, width]
            here = start + tf.range(tf.shape(part)[1])
            of_logits = tf.where(places[:, tf.newaxis] == here[:, tf.newaxis],
                                 upstream[:, tf.newaxis], 0.0)
            of_logits = tf.cast(tf.reshape(of_logits, [-1, table.shape[0]]), hidden.dtype)
            of_part = tf.reshape(tf.matmul(of_logits, table), tf.shape(part))
            of_rows = tf.matmul(of_logits, tf.reshape(part, [-1, part.shape[-1]]),
                                transpose_a=True)
            return tf.concat([of_hidden, of_part], 1), of_table + tf.cast(of_rows, tf.float32)

        of_hidden, of_table = _over_positions(hidden, table, back, hidden[:, :0],
                                              tf.zeros(table.shape))
        return (tf.ensure_shape(of_hidden, hidden.shape), None, tf.cast(of_table, table.dtype),
                tf.reduce_sum(tf.where(places < 0, 0.0, upstream), 0))

    return largest, gradient


def _positions(hidden, table):
    """Return how many positions are computed together."""
    return tf.maximum(_LOGITS_AT_ONCE // table.shape[0] // tf.maximum(tf.shape(hidden)[0], 1), 1)


def _logits(hidden, mask, table, bias, start):
    """Compute the logits of some positions, from `start` on, 0 at padding: `[b, n, vocab]`."""
    end = start + _positions(hidden, table)
    part, real = hidden[:, start:end], mask[:, start:end, tf.newaxis] > 0
    logits = tf.nn.bias_add(decode(part, table), bias)
    shape = tf.concat([tf.shape(part)[:2], table.shape[:1]], 0)
    return tf.where(real, tf.reshape(logits, shape), 0.0)


def _over_positions(hidden, table, step, *values):
    """Call `step(start, *values)` for some positions after the other; return the last values."""
    def body(start, *values):
        found = step(start, *values)
        return start + _positions(hidden, table), *(
            found if isinstance(found, tuple) else (found,))

    shapes = (tf.TensorShape([*[None] * (value.shape.rank - 1), value.shape[-1]])
              for value in values)
    _, *values = tf.while_loop(
        lambda start, *_: start < tf.shape(hidden)[1], body, (0, *values),
        shape_invariants=(tf.TensorShape([]), *shapes), parallel_iterations=1)
    return values[0] if len(values) == 1 else tuple(values)
