"""The two halves of the position-wise feed-forward network (Vaswani et al. 2017, section 3.3).

Each is a dense layer or, with a `kernel_size`, a convolution of tokens, of which the `layout` says
what sequences they are of.
"""

import keras

from bert_tf.layers.activations import activation
from bert_tf.layers.conv import Conv
from bert_tf.layers.dense import Dense
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.layer import Layer
from bert_tf.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable("bert_tf")
class Intermediate(Layer):
    """Dense layer and activation: `[…, hidden]` -> `[…, intermediate]`.

    Call: `[…, hidden]`, of a convolution `[tokens, hidden]` and their `layout`.

    Args:
        intermediate_size: width of the output.
        hidden_act: one of `config.ACTIVATIONS`.
        kernel_size: of a convolution; None for a dense layer.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, intermediate_size, hidden_act="gelu", kernel_size=None,
                 initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.activation = activation(hidden_act)
        self.dense = _dense_or_conv(intermediate_size, kernel_size, initializer_range, seed,
                                    self.dtype_policy)
        self.kernel_size = kernel_size

    def build(self, inputs_shape):
        """Create the dense layer."""
        self.dense.build(inputs_shape)

    def call(self, inputs, training=False, layout=None):
        """Map `[…, hidden]` to `[…, intermediate]`."""
        args = (inputs,) if self.kernel_size is None else (inputs, layout.sequence_ids)
        return self.activation(self.dense(*args), training)


@keras.saving.register_keras_serializable("bert_tf")
class Output(Layer):
    """Dense layer and dropout, then LayerNorm of the sum with the residual.

    Ends both halves of a block: after self-attention and after `Intermediate`.

    Call: `[…, in]` and the residual `[…, hidden]` -> `[…, hidden]`, of a convolution as of
    `Intermediate`.

    Args:
        hidden_size: width of the output.
        dropout: rate after the dense layer.
        layer_norm_eps: added to the variance.
        kernel_size: of a convolution; None for a dense layer.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, dropout=0.0, layer_norm_eps=1e-12, kernel_size=None,
                 initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.dense = _dense_or_conv(hidden_size, kernel_size, initializer_range, seed,
                                    self.dtype_policy)
        self.kernel_size = kernel_size
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)
        self.layer_norm = LayerNorm(layer_norm_eps, name="LayerNorm", dtype=self.dtype_policy)

    def build(self, inputs_shape, residual_shape=None):
        """Create the dense layer and LayerNorm."""
        hidden_shape = self.dense.compute_output_shape(inputs_shape)
        self.dense.build(inputs_shape)
        self.dropout.build(hidden_shape)
        self.layer_norm.build(hidden_shape)

    def call(self, inputs, residual, training=False, layout=None):
        """Map `[…, in]` to `[…, hidden]` and add the residual; of tokens with their `layout`."""
        args = (inputs,) if self.kernel_size is None else (inputs, layout.sequence_ids)
        hidden = self.dropout(self.dense(*args), training=training, layout=layout)
        return self.layer_norm(hidden + residual)


def _dense_or_conv(units, kernel_size, initializer_range, seed, dtype):
    if kernel_size is None:
        return Dense(units, initializer_range, seed, name="dense", dtype=dtype)
    return Conv(units, kernel_size, initializer_range, seed, name="dense", dtype=dtype)
