"""Multi-head self-attention (Vaswani et al. 2017, section 3.2) with an additive mask."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.dense import Dense
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens
from bert_tf.randomness import draw_scope


@keras.saving.register_keras_serializable("bert_tf")
class SelfAttention(Layer):
    """softmax(query keyᵀ / √head_size + adder) value, per head.

    Call: `hidden [batch, from, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `context [batch, from, hidden]`; with `return_attention_probs=True`
    `(context, attention_probs [batch, heads, from, to])`, both in the compute type. The
    probabilities are those before dropout.
    Instead of an adder a `layout` may be given, with `hidden [tokens, hidden]`: then `context` is
    of the same shape and `attention_probs` a list, an item for each rectangle. With
    `first_only=True` only the first token of every row asks: `context [batch, hidden]`, in the
    order of `layout.first`.

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

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None):
        """Attend from positions of `hidden` to the positions that the adders leave open."""
        tokens, own = as_tokens(hidden, adder, layout)
        num_heads = self.num_attention_heads
        key = own.heads(self.key(tokens), num_heads)
        value = own.heads(self.value(tokens), num_heads)
        if first_only:
            query = own.first_heads(self._scaled(self.query(own.first(tokens)), training),
                                    num_heads)
        else:
            query = own.heads(self._scaled(self.query(tokens), training), num_heads)
        contexts, probs = [], []
        for number, parts in enumerate(zip(query, key, value, own.adders, strict=True)):
            with draw_scope(f"rectangle_{number}" if number else ""):
                context, part = self._attend(*parts, training, first_only)
            contexts.append(context)
            probs.append(part)
        context = own.merge_first(contexts) if first_only else own.merge(contexts)
        context, probs = as_called(context, probs, own, layout, first_only)
        return (context, probs) if return_attention_probs else context

    def _scaled(self, query, training):
        """The query, scaled where a gradient is taken; else TensorFlow fuses it with the scores."""
        return query * self.head_size**-0.5 if training else query

    def _attend(self, query, key, value, adder, training, first_only):
        """`[B, N, F, H]`, `[B, N, T, H]` twice -> context and probabilities of a rectangle."""
        if first_only:
            adder = adder[:, :, :1]
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, F, T]
        if not training:
            scores *= tf.constant(self.head_size**-0.5, query.dtype)
        scores += adder
        attention_probs = tf.nn.softmax(scores)
        weights = self.dropout(attention_probs, training=training)
        return tf.matmul(weights, value), attention_probs
