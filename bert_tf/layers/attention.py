"""Multi-head self-attention (Vaswani et al. 2017, section 3.2) with an additive mask."""

import functools
import math

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.layers.dense import Dense
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens
from bert_tf.layers.local_attention import in_window, window_adder
from bert_tf.layers.norm import norm_layer
from bert_tf.layers.rotary import rotated
from bert_tf.randomness import draw_scope
from bert_tf.shapes import sizes_of


@keras.saving.register_keras_serializable("bert_tf")
class SelfAttention(Layer):
    """softmax(query keyᵀ / √(score_terms score_size) + adder) value, per head.

    Call: `hidden [batch, from, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `context [batch, from, heads × head_size]`; with `return_attention_probs=True`
    `(context, attention_probs [batch, heads, from, to])`, both in the compute type. The
    probabilities are those before dropout.
    Instead of an adder a `layout` may be given, with `hidden [tokens, hidden]`: then `context` is
    `[tokens, …]` as well and `attention_probs` a list, an item for each rectangle. With
    `first_only=True` only the first token of every row asks: `context [batch, …]`, in the
    order of `layout.first`. Values are made of `hidden`, or of what is given as `values`, of
    another width perhaps. `relative`, which `RelativeBias` or `RelativeEmbeddings` made of the
    layout, adds to the scores.

    With fewer heads of keys and values, each serves several heads of queries, side by side.

    Args:
        hidden_size: width of the input, and of the output where `head_size` is not given.
        num_attention_heads: heads; divides `hidden_size`, but where `head_size` is given.
        dropout: rate on the attention probabilities.
        initializer_range, seed: see `Dense`.
        use_bias: whether the dense layers have one.
        window: tokens that a position sees, half of them on either side; 0 for all. Those of a
            window are computed block by block, but where probabilities are asked for.
        rotary_base, rotary_factor: turn queries and keys by their positions, see `rotation`; a base
            of 0 does not.
        key_bias: whether the one of keys has one where the others do.
        position_terms: of `RelativeEmbeddings`, those that have dense layers of their own here:
            `position_key` without a bias for "c2p", `position_query` for "p2c".
        score_terms: of how many products a score is the sum.
        num_key_value_heads: heads of keys and values, a divisor of `num_attention_heads`; 0 for as
            many.
        head_size: width of a head; 0 for `hidden_size / num_attention_heads`.
        score_size: by whose square root scores are divided; 0 for the width of a head.
        query_key_norm: arguments of `norm_layer` for each head of queries and of keys (Henry et
            al. 2020, "Query-Key Normalization for Transformers"), before they are turned; None for
            no such.

    Raises:
        UsageError: `hidden_size` is not a multiple of `num_attention_heads` and there is no
            `head_size`.
    """

    def __init__(self, hidden_size, num_attention_heads, dropout=0.0, initializer_range=0.02,
                 seed=None, use_bias=True, window=0, rotary_base=0.0, score_terms=1,
                 rotary_factor=1.0, num_key_value_heads=0, head_size=0, score_size=0,
                 query_key_norm=None, key_bias=True, position_terms=(), **kwargs):
        super().__init__(**kwargs)
        if hidden_size % num_attention_heads and not head_size:
            raise UsageError(explain(f"hidden_size={hidden_size}",
                                     f"a multiple of num_attention_heads={num_attention_heads}"))
        self.hidden_size = hidden_size
        self.head_size = head_size or hidden_size // num_attention_heads
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.reach = window // 2
        self.rotary_base = rotary_base
        self.rotary_factor = rotary_factor
        self.scale = (score_terms * (score_size or self.head_size)) ** -0.5
        self.initializer_range = initializer_range
        self.seed = seed
        key_value_size = self.head_size * self.num_key_value_heads
        self.query, self.key, self.value, self.position_key, self.position_query = (
            Dense(width, initializer_range, seed, use_bias=use_bias and has_bias, name=name,
                  dtype=self.dtype_policy) if there else None
            for name, width, has_bias, there in (
                ("query", self.query_size, True, True), ("key", key_value_size, key_bias, True),
                ("value", key_value_size, True, True),
                ("position_key", self.query_size, False, "c2p" in position_terms),
                ("position_query", self.query_size, True, "p2c" in position_terms)))
        self.query_norm = self.key_norm = None
        if query_key_norm is not None:
            self.query_norm, self.key_norm = (
                norm_layer(**query_key_norm, dtype=self.dtype_policy) for _ in range(2))
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)

    @property
    def query_size(self):
        """Width of queries and of the context, of all heads."""
        return self.head_size * self.num_attention_heads

    def build(self, hidden_shape, adder_shape=None, values_shape=None):
        """Create the dense layers, and the norms."""
        for layer in (self.query, self.key, self.position_key, self.position_query):
            if layer is not None:
                layer.build(hidden_shape)
        self.value.build(values_shape or hidden_shape)
        for dense, norm in ((self.query, self.query_norm), (self.key, self.key_norm)):
            if norm is not None:
                with keras.name_scope(dense.name):
                    norm.build((None, self.head_size))
        self.dropout.build((None, self.num_attention_heads, None, None))

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None, relative=None, values=None):
        """Attend from positions of `hidden` to the positions that the adders leave open."""
        tokens, own = as_tokens(hidden, adder, layout)
        num_heads = self.num_attention_heads
        # Where no gradient is taken and nothing added TensorFlow fuses the scale with the scores.
        scaled = training or relative is not None
        query = self.queries(own.first(tokens) if first_only else tokens)
        query, key = self.scaled(query) if scaled else query, self.keys(tokens)
        if self.rotary_base:
            angles = self.rotation(own)
            key = rotated(key, angles)
            if first_only:  # those of the tokens that ask, `[batch, 1, head_size / 2]`
                angles = [own.first(each[:, 0])[:, tf.newaxis] for each in angles]
            query = rotated(query, angles)
        query = (own.first_heads if first_only else own.heads)(query, num_heads)
        key, value = (own.heads(projected, self.num_key_value_heads) for projected in (
            key, self.value(tokens if values is None else values)))
        key, value = own.with_past(key, value)
        if self.num_key_value_heads < num_heads:
            key, value = ([_repeated(part, num_heads) for part in parts] for parts in (key, value))
        attend = functools.partial(self._attend, scaled=scaled, training=training)
        if (self.reach and not (first_only or return_attention_probs)
                and own.paddings[0] is not None and _longest(own) > 3 * self.reach):
            attend = functools.partial(in_window, reach=self.reach, causal=own.causal,
                                       attend=attend)
            adders = own.paddings
        else:
            adders = self._adders(own, query, key, relative, first_only)
        contexts, probs = [], []
        for number, parts in enumerate(zip(query, key, value, adders, strict=True)):
            with draw_scope(f"rectangle_{number}" if number else ""):
                context, part = attend(*parts)
            contexts.append(context)
            probs.append(part)
        context = own.merge_first(contexts) if first_only else own.merge(contexts)
        context, probs = as_called(context, probs, own, layout, first_only)
        return (context, probs) if return_attention_probs else context

    def rotation(self, layout):
        """The layout's `rotary.rotation`, which queries and keys are turned by, made at the first
        call for it; None where they are not turned."""
        return layout.rotation(self.rotary_base, self.rotary_factor,
                               self.head_size) if self.rotary_base else None

    def queries(self, tokens):
        """The queries of `tokens […, hidden]`, `[…, query_size]`, before they are turned."""
        return _normalized(self.query(tokens), self.query_norm, self.head_size)

    def keys(self, tokens):
        """The keys likewise, `[…, key_value_heads × head_size]`."""
        return _normalized(self.key(tokens), self.key_norm, self.head_size)

    def scaled(self, query):
        """The projected `query`, scaled as the scores are."""
        return query * self.scale

    def _adders(self, layout, query, key, relative, first_only):
        """What is added to each rectangle's scores."""
        def asking(term):
            return term[..., :1, :] if first_only else term

        adders = [asking(adder) for adder in layout.adders]
        if relative is not None:
            adders = [adder + asking(term) for adder, term in zip(
                adders, relative(self, query, key), strict=True)]
        if self.reach and _longest(layout) > self.reach + 1:
            positions = [tf.range(tf.shape(part)[2]) for part in key]
            adders = [adder + asking(window_adder(position, position, self.reach, adder.dtype))
                      for adder, position in zip(adders, positions, strict=True)]
        return adders

    def _attend(self, query, key, value, adder, scaled, training):
        """`[…, F, H]`, `[…, T, H]` twice -> context `[…, F, H]` and probabilities `[…, F, T]`."""
        scores = tf.matmul(query, key, transpose_b=True)
        if not scaled:
            scores *= tf.constant(self.scale, query.dtype)
        scores += adder
        attention_probs = tf.nn.softmax(scores)
        return self.dropout.product(attention_probs, value, training), attention_probs


def _normalized(projected, norm, size):
    """`projected […, heads × size]`, each head by itself."""
    if norm is None:
        return projected
    return tf.reshape(norm(tf.reshape(projected, [-1, size])), sizes_of(projected))


def _repeated(heads, count):
    """`[rows, groups, positions, head_size]` -> `[rows, count, …]`, each group's as often."""
    rows, groups, positions, size = sizes_of(heads)
    repeated = tf.tile(heads[:, :, tf.newaxis], [1, 1, count // groups, 1, 1])
    return tf.reshape(repeated, [rows, count, positions, size])


def _longest(layout):
    """The most positions of a row, infinite where the graph does not know."""
    return layout.seq_length if isinstance(layout.seq_length, int) else math.inf
