"""Multi-head self-attention (Vaswani et al. 2017, section 3.2) with an additive mask."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.dense import Dense
from bert_tf.layers.dropout import Dropout
from bert_tf.shapes import check_rank


@keras.saving.register_keras_serializable("bert_tf")
class SelfAttention(keras.Layer):
    """softmax(query keyᵀ / √head_size + adder) value, per head.

    Call: `hidden [batch, from, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `context [batch, from, hidden]`; with `return_attention_probs=True`
    `(context, attention_probs [batch, heads, from, to])`, both in the compute type.
    With `queries=N` only the first N positions ask: `from` of the results is N.
    The probabilities returned are those before dropout.

    Args:
        hidden_size: width of the input and the output.
        num_attention_heads: heads; divides `hidden_size`.
        dropout: rate on the attention probabilities.
        initializer_range, seed: see `Dense`.

    Raises:
        UsageError: `hidden_size` is not a multiple of `num_attention_heads`.
    """

    def __init__(self, hidden_size, num_attention_heads, dropout=0.0, initializer_range=0.02,
                 seed=None, **kwargs):
        super().__init__(**kwargs)
        if hidden_size % num_attention_heads:
            raise UsageError(explain(f"hidden_size={hidden_size}",
                                     f"a multiple of num_attention_heads={num_attention_heads}"))
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.head_size = hidden_size // num_attention_heads
        self.initializer_range = initializer_range
        self.seed = seed
        self.query, self.key, self.value = (
            Dense(hidden_size, initializer_range, seed, name=name, dtype=self.dtype_policy)
            for name in ("query", "key", "value"))
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)

    def build(self, hidden_shape, adder_shape=None):
        """Create the three dense layers."""
        for layer in (self.query, self.key, self.value):
            layer.build(hidden_shape)
        self.dropout.build((None, self.num_attention_heads, None, None))

    def call(self, hidden, adder, training=False, return_attention_probs=False, queries=None):
        """Attend from positions of `hidden` to the positions that `adder` leaves open."""
        check_rank("hidden", hidden, 3)
        check_rank("adder", adder, 4)
        asking = hidden
        if queries is not None:
            asking, adder = hidden[:, :queries], adder[:, :, :queries]
        # Scaling the query is cheaper than scaling the scores.
        query = self._heads(self.query(asking) * self.head_size**-0.5)  # [B, N, F, H]
        key = self._heads(self.key(hidden))  # [B, N, T, H]
        value = self._heads(self.value(hidden))  # [B, N, T, H]
        scores = tf.matmul(query, key, transpose_b=True) + adder  # [B, N, F, T]
        attention_probs = tf.nn.softmax(scores)
        weights = self.dropout(attention_probs, training=training)
        context = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])  # [B, F, N, H]
        context = tf.reshape(context, tf.shape(asking))  # [B, F, D]
        context.set_shape(asking.shape)
        return (context, attention_probs) if return_attention_probs else context

    def _heads(self, projected):
        """`[B, S, D]` -> `[B, N, S, H]`."""
        shape = tf.shape(projected)
        split = tf.reshape(projected,
                           [shape[0], shape[1], self.num_attention_heads, self.head_size])
        return tf.transpose(split, [0, 2, 1, 3])

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "hidden_size": self.hidden_size,
                "num_attention_heads": self.num_attention_heads, "dropout": self.dropout.rate,
                "initializer_range": self.initializer_range, "seed": self.seed}
