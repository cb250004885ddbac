"""One layer of the encoder (Vaswani et al. 2017, section 3.1)."""

import keras

from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.feed_forward import Intermediate, Output, fed_forward
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import as_called, as_tokens
from bert_tf.layers.norm import norm_layer


@keras.saving.register_keras_serializable("bert_tf")
class Attention(Layer):
    """Self-attention and its output layer: the first half of a block.

    Call: as `SelfAttention`; the result has passed the dense layer, the residual and LayerNorm.
    The residual is `hidden`, or what is given as `residual`.

    Args:
        hidden_size, num_attention_heads: see `SelfAttention`.
        attention_dropout: rate on the attention probabilities.
        dropout: rate after the output layer.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
        norm_position: `post`, LayerNorm after the residual; `pre`, before the attention; `both`,
            before it and after the output layer, before the residual; `none`.
        use_bias: whether dense layers and LayerNorm have one.
        dense_bias: whether the dense layers have it then.
        options: further ones of `SelfAttention`, a dict.
        norm: kind of LayerNorm, see `norm_layer`.
    """

    def __init__(self, hidden_size, num_attention_heads, attention_dropout=0.0, dropout=0.0,
                 layer_norm_eps=1e-12, initializer_range=0.02, seed=None, norm_position="post",
                 use_bias=True, options=None, dense_bias=True, norm="layer_norm", **kwargs):
        super().__init__(**kwargs)
        self.layer_norm = None
        if norm_position in ("pre", "both"):
            self.layer_norm = norm_layer(norm, layer_norm_eps, use_bias, self.dtype_policy)
        self.self_attention = SelfAttention(hidden_size, num_attention_heads, attention_dropout,
                                            initializer_range, seed, use_bias and dense_bias,
                                            **(options or {}),
                                            name="self", dtype=self.dtype_policy)
        self.attention_output = Output(
            hidden_size, dropout, layer_norm_eps if norm_position in ("post", "both") else None,
            None, initializer_range, seed, use_bias, dense_bias, norm, norm_position == "both",
            name="output", dtype=self.dtype_policy)

    def build(self, hidden_shape, adder_shape=None, values_shape=None):
        """Create the layers."""
        if self.layer_norm is not None:
            self.layer_norm.build(hidden_shape)
        self.self_attention.build(hidden_shape, None, values_shape)
        self.attention_output.build((*hidden_shape[:-1], self.self_attention.query_size))

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None, relative=None, values=None, residual=None):
        """The context after its output layer, and the probabilities on request."""
        tokens, own = as_tokens(hidden, adder, layout)
        context = self.self_attention(
            tokens if self.layer_norm is None else self.layer_norm(tokens), training=training,
            return_attention_probs=return_attention_probs, first_only=first_only, layout=own,
            relative=relative, values=values)
        context, probs = context if return_attention_probs else (context, [None])
        residual = tokens if residual is None else residual
        residual = own.first(residual) if first_only else residual
        output = self.attention_output(context, residual, training=training,
                                       layout=own.of_first if first_only else own)
        output, probs = as_called(output, probs, own, layout, first_only)
        return (output, probs) if return_attention_probs else output


@keras.saving.register_keras_serializable("bert_tf")
class TransformerBlock(Layer):
    """Attention, then the feed-forward network, each with a residual and LayerNorm.

    Call: `hidden [batch, from, hidden]`, `adder` float `[batch, 1, from or 1, to]` ->
    `[batch, from, hidden]`; with `return_attention_probs=True` also
    `attention_probs [batch, heads, from, to]`. Or tokens and their `layout`, and `first_only` and
    `relative`, as of `SelfAttention` (`first_only` not with convolutions, which look at
    neighbours).

    Args:
        hidden_size, num_attention_heads, intermediate_size: widths.
        hidden_act: activation of the intermediate layer, one of `config.ACTIVATIONS`.
        kernel_size: of convolutions as the feed-forward network; None for dense layers.
        attention_dropout: rate on the attention probabilities.
        dropout: rate after each output layer.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
        norm_position: of LayerNorm, `post`, after each residual, `pre`, before each half, or
            `both`, before each half and after it, before the residual is added (Ding et al. 2021,
            "CogView", section 2.4).
        use_bias: whether dense layers and LayerNorms have one.
        dense_bias: whether the dense layers have it then.
        intermediate_bias: whether the one of the intermediate layer has it then.
        gated: see `Intermediate`.
        attention_norm: whether there is a LayerNorm before the attention, of `pre`.
        attention: further options of `SelfAttention`, a dict.
        norm: kind of LayerNorm, see `norm_layer`.
    """

    def __init__(self, hidden_size, num_attention_heads, intermediate_size, hidden_act="gelu",
                 kernel_size=None, attention_dropout=0.0, dropout=0.0, layer_norm_eps=1e-12,
                 initializer_range=0.02, seed=None, norm_position="post", use_bias=True,
                 gated=False, attention_norm=True, attention=None, dense_bias=True,
                 intermediate_bias=True, norm="layer_norm", **kwargs):
        super().__init__(**kwargs)
        after, before = norm_position in ("post", "both"), norm_position in ("pre", "both")
        self.attention = Attention(hidden_size, num_attention_heads, attention_dropout, dropout,
                                   layer_norm_eps, initializer_range, seed,
                                   norm_position if attention_norm else "none", use_bias,
                                   attention, dense_bias, norm, name="attention",
                                   dtype=self.dtype_policy)
        self.intermediate = Intermediate(intermediate_size, hidden_act, kernel_size,
                                         initializer_range, seed, use_bias, gated,
                                         layer_norm_eps if before else None,
                                         dense_bias and intermediate_bias, norm,
                                         name="intermediate", dtype=self.dtype_policy)
        self.block_output = Output(hidden_size, dropout, layer_norm_eps if after else None,
                                   kernel_size, initializer_range, seed, use_bias, dense_bias,
                                   norm, norm_position == "both", name="output",
                                   dtype=self.dtype_policy)

    def build(self, hidden_shape, adder_shape=None):
        """Create the three layers."""
        self.attention.build(hidden_shape)
        self.intermediate.build(hidden_shape)
        self.block_output.build((*hidden_shape[:-1], self.intermediate.intermediate_size))

    def entering(self, hidden):
        """What queries and keys, and what values are made of, of the block's input."""
        norm = self.attention.layer_norm
        hidden = hidden if norm is None else norm(hidden)
        return hidden, hidden

    def call(self, hidden, adder=None, training=False, return_attention_probs=False,
             first_only=False, layout=None, relative=None):
        """What the block makes of `hidden`, and the probabilities on request."""
        tokens, own = as_tokens(hidden, adder, layout)
        tokens = self.attention(tokens, training=training, first_only=first_only, layout=own,
                                return_attention_probs=return_attention_probs, relative=relative)
        tokens, probs = tokens if return_attention_probs else (tokens, [None])
        of_tokens = own.of_first if first_only else own
        output = fed_forward(self.intermediate, self.block_output, tokens, training, of_tokens)
        output, probs = as_called(output, probs, own, layout, first_only)
        return (output, probs) if return_attention_probs else output
