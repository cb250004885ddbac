"""One layer of the encoder (Vaswani et al. 2017, section 3.1), LayerNorm after the residual."""

import keras

from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.feed_forward import Intermediate, Output
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens


@keras.saving.register_keras_serializable("bert_tf")
class Attention(Layer):
    """Self-attention and its output layer: the first half of a block.

    Call: as `SelfAttention`; the result has passed the dense layer, the residual and LayerNorm.

    Args:
        hidden_size, num_attention_heads: see `SelfAttention`.
        attention_dropout: rate on the attention probabilities.
        dropout: rate after the output layer.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, num_attention_heads, attention_dropout=0.0, dropout=0.0,
                 layer_norm_eps=1e-12, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.self_attention = SelfAttention(hidden_size, num_attention_heads, attention_dropout,
                                            initializer_range, seed, name="self",
                                            dtype=self.dtype_policy)
        self.attention_output = Output(hidden_size, dropout, layer_norm_eps, None,
                                       initializer_range, seed, name="output",
                                       dtype=self.dtype_policy)

    def build(self, hidden_shape, adder_shape=None):
        """Create both layers."""
        self.self_attention.build(hidden_shape)
        self.attention_output.build(hidden_shape)

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None):
        """The context after its output layer, and the probabilities on request."""
        tokens, own = as_tokens(hidden, adder, layout)
        context, probs = self.self_attention(
            tokens, training=training, return_attention_probs=True, first_only=first_only,
            layout=own)
        residual = own.first(tokens) if first_only else tokens
        output = self.attention_output(context, residual, training=training,
                                       layout=own.of_first if first_only else own)
        output, probs = as_called(output, probs, own, layout, first_only)
        return (output, probs) if return_attention_probs else output


@keras.saving.register_keras_serializable("bert_tf")
class TransformerBlock(Layer):
    """Attention, then the feed-forward network, each ended by residual and LayerNorm.

    Call: `hidden [batch, from, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `[batch, from, hidden]`; with `return_attention_probs=True` also
    `attention_probs [batch, heads, from, to]`. Or tokens and
    their `layout`, and `first_only`, as of `SelfAttention` (`first_only` not with convolutions,
    which look at neighbours).

    Args:
        hidden_size, num_attention_heads, intermediate_size: widths.
        hidden_act: activation of the intermediate layer, one of `config.ACTIVATIONS`.
        kernel_size: of convolutions as the feed-forward network; None for dense layers.
        attention_dropout: rate on the attention probabilities.
        dropout: rate after each output layer.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, num_attention_heads, intermediate_size, hidden_act="gelu",
                 kernel_size=None, attention_dropout=0.0, dropout=0.0, layer_norm_eps=1e-12,
                 initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.attention = Attention(hidden_size, num_attention_heads, attention_dropout, dropout,
                                   layer_norm_eps, initializer_range, seed, name="attention",
                                   dtype=self.dtype_policy)
        self.intermediate = Intermediate(intermediate_size, hidden_act, kernel_size,
                                         initializer_range, seed, name="intermediate",
                                         dtype=self.dtype_policy)
        self.block_output = Output(hidden_size, dropout, layer_norm_eps, kernel_size,
                                   initializer_range, seed, name="output",
                                   dtype=self.dtype_policy)

    def build(self, hidden_shape, adder_shape=None):
        """Create the three layers."""
        self.attention.build(hidden_shape)
        self.intermediate.build(hidden_shape)
        self.block_output.build(self.intermediate.dense.compute_output_shape(hidden_shape))

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None):
        """What the block makes of `hidden`, and the probabilities on request."""
        tokens, own = as_tokens(hidden, adder, layout)
        tokens, probs = self.attention(tokens, training=training, return_attention_probs=True,
                                       first_only=first_only, layout=own)
        of_tokens = own.of_first if first_only else own
        intermediate = self.intermediate(tokens, training=training, layout=of_tokens)
        output = self.block_output(intermediate, tokens, training=training, layout=of_tokens)
        output, probs = as_called(output, probs, own, layout, first_only)
        return (output, probs) if return_attention_probs else output
