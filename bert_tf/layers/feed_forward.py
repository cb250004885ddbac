"""The two halves of the position-wise feed-forward network (Vaswani et al. 2017, section 3.3).

Each is a dense layer or, with a `kernel_size`, a convolution of tokens, of which the `layout` says
what sequences they are of.
"""

import keras

from bert_tf.layers import activations
from bert_tf.layers.conv import Conv
from bert_tf.layers.dense import Dense
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.layer import Layer
from bert_tf.layers.norm import norm_layer

# Elements from which on activations are computed again for the gradient instead of kept: of fewer
# the memory matters less than the time, and where the shape is open it takes longer, see `fused`.
_MANY = 1 << 23


@keras.saving.register_keras_serializable("bert_tf")
class Intermediate(Layer):
    """Dense layer and activation: `[…, hidden]` -> `[…, intermediate]`.

    Call: `[…, hidden]`, of a convolution `[tokens, hidden]` and their `layout`.

    Args:
        intermediate_size: width of the output.
        hidden_act: one of `config.ACTIVATIONS`.
        kernel_size: of a convolution; None for a dense layer.
        initializer_range, seed: see `Dense`.
        use_bias: whether the dense layer has one, and LayerNorm.
        gated: the dense layer is twice as wide; its first half, activated, is multiplied by its
            second one (Shazeer 2020, "GLU Variants Improve Transformer").
        norm_eps: of a LayerNorm before the dense layer; None for no such.
        dense_bias: whether the dense layer has a bias where `use_bias` says so.
        norm: kind of LayerNorm, see `norm_layer`.
    """

    def __init__(self, intermediate_size, hidden_act="gelu", kernel_size=None,
                 initializer_range=0.02, seed=None, use_bias=True, gated=False, norm_eps=None,
                 dense_bias=True, norm="layer_norm", **kwargs):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.gated = gated
        self.activation = (activations.gated if gated else activations.activation)(hidden_act)
        self.layer_norm = None
        if norm_eps is not None:
            self.layer_norm = norm_layer(norm, norm_eps, use_bias, self.dtype_policy)
        self.dense = _dense_or_conv(2 * intermediate_size if gated else intermediate_size,
                                    kernel_size, initializer_range, seed, use_bias and dense_bias,
                                    self.dtype_policy)
        self.kernel_size = kernel_size

    def build(self, inputs_shape):
        """Create the dense layer and LayerNorm."""
        self.dense.build(inputs_shape)
        if self.layer_norm is not None:
            self.layer_norm.build(inputs_shape)

    def call(self, inputs, training=False, layout=None, activated=True):
        """Map `[…, hidden]` to `[…, intermediate]`; or to what `activation` makes that of."""
        if self.layer_norm is not None:
            inputs = self.layer_norm(inputs)
        if activated and self.kernel_size is None and not self.gated:
            return self.dense.activated(inputs, self.activation, training)
        args = (inputs,) if self.kernel_size is None else (inputs, layout.sequence_ids)
        outputs = self.dense(*args)
        return self.activation(outputs, training) if activated else outputs


@keras.saving.register_keras_serializable("bert_tf")
class Output(Layer):
    """Dense layer and dropout, then LayerNorm of the sum with the residual, or before it.

    Ends both halves of a block: after self-attention and after `Intermediate`.

    Call: `[…, in]` and the residual `[…, hidden]` -> `[…, hidden]`, of a convolution as of
    `Intermediate`. With `activate`, a function, the dense layer is given what that makes of the
    inputs; where they are many, the gradient makes it once more, and it is not kept.

    Args:
        hidden_size: width of the output.
        dropout: rate after the dense layer.
        layer_norm_eps: added to the variance; None for the sum without LayerNorm.
        kernel_size: of a convolution; None for a dense layer.
        initializer_range, seed: see `Dense`.
        use_bias: whether the dense layer has one, and LayerNorm.
        dense_bias: whether the dense layer has it then.
        norm: kind of LayerNorm, see `norm_layer`.
        norm_first: whether LayerNorm comes before the residual is added.
    """

    def __init__(self, hidden_size, dropout=0.0, layer_norm_eps=1e-12, kernel_size=None,
                 initializer_range=0.02, seed=None, use_bias=True, dense_bias=True,
                 norm="layer_norm", norm_first=False, **kwargs):
        super().__init__(**kwargs)
        self.norm_first = norm_first
        self.dense = _dense_or_conv(hidden_size, kernel_size, initializer_range, seed,
                                    use_bias and dense_bias, self.dtype_policy)
        self.kernel_size = kernel_size
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)
        self.layer_norm = None
        if layer_norm_eps is not None:
            self.layer_norm = norm_layer(norm, layer_norm_eps, use_bias, self.dtype_policy)

    def build(self, inputs_shape, residual_shape=None):
        """Create the dense layer and LayerNorm."""
        hidden_shape = self.dense.compute_output_shape(inputs_shape)
        self.dense.build(inputs_shape)
        self.dropout.build(hidden_shape)
        if self.layer_norm is not None:
            self.layer_norm.build(hidden_shape)

    def call(self, inputs, residual, training=False, layout=None, activate=None):
        """Map `[…, in]` to `[…, hidden]` and add the residual; of tokens with their `layout`."""
        many = (inputs.shape.num_elements() or 0) >= _MANY
        convolution = self.kernel_size is not None
        if activate and many and not convolution and not self.dense.quantization_mode:
            hidden = self.dense.of_activated(inputs, lambda inputs: activate(inputs, training))
        else:
            inputs = activate(inputs, training) if activate else inputs
            hidden = self.dense(inputs, *([layout.sequence_ids] if convolution else []))
        hidden = self.dropout(hidden, training=training, layout=layout)
        if self.layer_norm is None:
            return hidden + residual
        return (self.layer_norm(hidden) + residual if self.norm_first
                else self.layer_norm(hidden + residual))


def fed_forward(intermediate, output, tokens, training, layout):
    """What an `Intermediate` and an `Output` make of `tokens […, hidden]`, which are added."""
    inner = intermediate(tokens, training=training, layout=layout, activated=not training)
    return output(inner, tokens, training=training, layout=layout,
                  activate=intermediate.activation if training else None)


def _dense_or_conv(units, kernel_size, initializer_range, seed, use_bias, dtype):
    options = {"name": "dense", "dtype": dtype}
    if kernel_size is None:
        return Dense(units, initializer_range, seed, use_bias=use_bias, **options)
    return Conv(units, kernel_size, initializer_range, seed, **options)
