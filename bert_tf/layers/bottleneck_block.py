"""A layer of the encoder that is narrower within (Sun et al. 2020, "MobileBERT", section 3)."""

import keras

from bert_tf.layers.dense import Dense
from bert_tf.layers.feed_forward import Intermediate, Output, fed_forward
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens
from bert_tf.layers.norm import norm_layer
from bert_tf.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable("bert_tf")
class Bottleneck(Layer):
    """Dense layer, then LayerNorm: `[…, hidden]` -> `[…, size]`.

    Args:
        size: width of the output.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
        use_bias: whether LayerNorm has one.
        dense_bias: whether the dense layer has it then.
        norm: kind of LayerNorm, see `norm_layer`.
    """

    def __init__(self, size, layer_norm_eps=1e-12, initializer_range=0.02, seed=None,
                 use_bias=True, dense_bias=True, norm="layer_norm", **kwargs):
        super().__init__(**kwargs)
        self.dense = Dense(size, initializer_range, seed, use_bias=use_bias and dense_bias,
                           name="dense", dtype=self.dtype_policy)
        self.layer_norm = norm_layer(norm, layer_norm_eps, use_bias, self.dtype_policy)

    def build(self, hidden_shape):
        """Create both."""
        self.dense.build(hidden_shape)
        self.layer_norm.build(self.dense.compute_output_shape(hidden_shape))

    def call(self, hidden):
        """Map `[…, hidden]` to `[…, size]`."""
        return self.layer_norm(self.dense(hidden))


@keras.saving.register_keras_serializable("bert_tf")
class FeedForward(Layer):
    """One of several feed-forward networks with their residuals: `[…, size]` -> `[…, size]`.

    Args:
        size: width of input and output.
        intermediate: arguments of `Intermediate`, a dict.
        output: those of `Output`.
    """

    def __init__(self, size, intermediate, output, **kwargs):
        super().__init__(**kwargs)
        self.intermediate = Intermediate(**intermediate, name="intermediate",
                                         dtype=self.dtype_policy)
        self.block_output = Output(size, **output, name="output", dtype=self.dtype_policy)

    def build(self, hidden_shape):
        """Create the two halves."""
        self.intermediate.build(hidden_shape)
        self.block_output.build((*hidden_shape[:-1], self.intermediate.intermediate_size))

    def call(self, hidden, training=False, layout=None):
        """Map `[…, size]`; of tokens with their `layout`."""
        return fed_forward(self.intermediate, self.block_output, hidden, training, layout)


@keras.saving.register_keras_serializable("bert_tf")
class BottleneckBlock(TransformerBlock):
    """Attention and feed-forward networks of another width than the layer's, between dense layers.

    Call: as `TransformerBlock`.

    Args:
        hidden_size: width of the input and of the output.
        num_attention_heads, intermediate_size, hidden_act, layer_norm_eps, initializer_range, seed,
            use_bias, gated, dense_bias, intermediate_bias, norm: see `TransformerBlock`.
        dropout: rate after the dense layer out of the bottleneck; without one as there.
        intra_bottleneck_size: width within the block; 0 for `hidden_size`, without bottlenecks.
        key_query_shared_bottleneck, use_bottleneck_attention: what queries and keys are made of, a
            bottleneck of their own or the one into the block. Values, and without either queries
            and keys, are made of the block's input; with the latter values of the same bottleneck.
        num_feedforward_networks: how many there are, one after the other.
        kwargs: further arguments of `TransformerBlock`, whose `norm_position` is `post`.
    """

    def __init__(self, hidden_size, num_attention_heads, intermediate_size, hidden_act="gelu",
                 dropout=0.0, layer_norm_eps=1e-12, initializer_range=0.02, seed=None,
                 use_bias=True, gated=False, dense_bias=True, intermediate_bias=True,
                 norm="layer_norm", intra_bottleneck_size=0, key_query_shared_bottleneck=False,
                 use_bottleneck_attention=False, num_feedforward_networks=1, **kwargs):
        common = {"initializer_range": initializer_range, "seed": seed, "use_bias": use_bias,
                  "norm": norm}
        biased = {**common, "layer_norm_eps": layer_norm_eps, "dense_bias": dense_bias}
        size = intra_bottleneck_size or hidden_size
        super().__init__(
            size, num_attention_heads, intermediate_size, hidden_act,
            dropout=0.0 if intra_bottleneck_size else dropout, gated=gated,
            intermediate_bias=intermediate_bias, **biased, **kwargs)
        self.size = size
        self.attends_within = use_bottleneck_attention
        options = {"dtype": self.dtype_policy}
        self.bottleneck_input = self.kq_shared_bottleneck = self.bottleneck_output = None
        if intra_bottleneck_size:
            self.bottleneck_input = Bottleneck(size, **biased, name="bottleneck_input", **options)
            self.bottleneck_output = Output(hidden_size, dropout, **biased,
                                            name="bottleneck_output", **options)
        if key_query_shared_bottleneck:
            self.kq_shared_bottleneck = Bottleneck(size, **biased, name="kq_shared_bottleneck",
                                                   **options)
        intermediate = {"intermediate_size": intermediate_size, "hidden_act": hidden_act,
                        "gated": gated, "dense_bias": dense_bias and intermediate_bias, **common}
        self.before = [FeedForward(size, intermediate, biased, name=f"ffn_layer_{i}", **options)
                       for i in range(num_feedforward_networks - 1)]

    def build(self, hidden_shape, adder_shape=None):
        """Create the layers."""
        within = (*hidden_shape[:-1], self.size)
        for layer in (self.bottleneck_input, self.kq_shared_bottleneck):
            if layer is not None:
                layer.build(hidden_shape)
        attending = self.attends_within or self.kq_shared_bottleneck is not None
        self.attention.build(within if attending else hidden_shape, None,
                             within if self.attends_within else hidden_shape)
        for layer in (*self.before, self.intermediate):
            layer.build(within)
        self.block_output.build((*within[:-1], self.intermediate.intermediate_size))
        if self.bottleneck_output is not None:
            self.bottleneck_output.build(within)

    def entering(self, hidden):
        """See `TransformerBlock`."""
        return self._entering(hidden, self._within(hidden))

    def _within(self, hidden):
        return hidden if self.bottleneck_input is None else self.bottleneck_input(hidden)

    def _entering(self, hidden, within):
        if self.attends_within:
            return within, within
        shared = self.kq_shared_bottleneck
        return hidden if shared is None else shared(hidden), hidden

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None, relative=None):
        """What the block makes of `hidden`, and the probabilities on request."""
        hidden, own = as_tokens(hidden, adder, layout)
        within = self._within(hidden)
        attending, values = self._entering(hidden, within)
        tokens = self.attention(attending, training=training, first_only=first_only, layout=own,
                                return_attention_probs=return_attention_probs, relative=relative,
                                values=values, residual=within)
        tokens, probs = tokens if return_attention_probs else (tokens, [None])
        of_tokens = own.of_first if first_only else own
        for network in self.before:
            tokens = network(tokens, training=training, layout=of_tokens)
        output = fed_forward(self.intermediate, self.block_output, tokens, training, of_tokens)
        if self.bottleneck_output is not None:
            output = self.bottleneck_output(output, own.first(hidden) if first_only else hidden,
                                            training=training, layout=of_tokens)
        output, probs = as_called(output, probs, own, layout, first_only)
        return (output, probs) if return_attention_probs else output
