"""A learned number for each head and distance, added to the scores (Raffel et al. 2020, T5)."""

import math

import keras
import numpy as np
import tensorflow as tf

from bert_tf.layers.gather import gather_rows
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class RelativeBias(Layer):
    """T5's bias as MPNet has it (Song et al. 2020, section 2.3): all layers share one table.

    Call: `of_layout(layout)` -> a function of `(attention, query, key)` that gives what is added to
    the scores of each rectangle: a list of `[1, heads, from, to]` in the compute type.

    Args:
        num_attention_heads: heads.
        position_buckets: rows of the table, half of them for positions after the one that asks.
        max_relative_position: distance from which on all are in one bucket.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, num_attention_heads, position_buckets=32, max_relative_position=128,
                 initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.num_attention_heads = num_attention_heads
        self.position_buckets = position_buckets
        self.max_relative_position = max_relative_position
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape=None):
        """Create `embeddings [buckets, heads]`."""
        self.embeddings = self.add_weight(
            name="embeddings", shape=(self.position_buckets, self.num_attention_heads),
            initializer=truncated_normal(self.initializer_range, self.seed,
                                         f"{self.path}/embeddings"),
            autocast=False, dtype="float32")

    def of_layout(self, layout):
        """The biases of a batch, the same in every layer."""
        table = tf.convert_to_tensor(self.embeddings)
        biases = []
        for width in layout.widths:
            position = tf.range(width)
            distance = position[tf.newaxis] - position[:, tf.newaxis]  # [F, T], to - from
            bucket = t5_bucket(distance, self.position_buckets, self.max_relative_position)
            bias = tf.transpose(gather_rows(table, bucket), [2, 0, 1])  # [N, F, T]
            biases.append(tf.cast(bias[tf.newaxis], self.compute_dtype))
        return lambda attention, query, key: biases


def t5_bucket(distance, buckets, max_distance):
    """The bucket of int32 distances (to - from) of any shape: one each up to a quarter of the
    buckets, wider ones up to `max_distance`, all of it twice, before and after."""
    half = buckets // 2
    exact = half // 2
    size = tf.abs(distance)
    share = (tf.math.log(tf.cast(tf.maximum(size, 1), tf.float32) / exact)
             / np.float32(math.log(max_distance / exact)))
    wide = tf.minimum(exact + tf.cast(share * (half - exact), tf.int32), half - 1)
    return tf.where(size < exact, size, wide) + tf.where(distance > 0, half, 0)
