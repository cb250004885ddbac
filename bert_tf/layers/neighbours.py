"""What a layer's neighbours say, by a convolution beside it (DeBERTa v2)."""

import keras

from bert_tf.layers.activations import activation
from bert_tf.layers.conv import Conv
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.layer import Layer
from bert_tf.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable("bert_tf")
class Neighbours(Layer):
    """LayerNorm of a layer's output and a convolution of what the layer was given.

    `LayerNorm(output + act(dropout(conv(input))))`, beside the first layer of DeBERTa v2
    (microsoft/DeBERTa `deberta/bert.py`, class ConvLayer), for n-grams of pieces.

    Call: `[…, hidden]`, the layer's input and output, and their `layout` -> `[…, hidden]`.

    Args:
        hidden_size: width.
        kernel_size: positions that one looks at, odd.
        act: activation of the convolution, one of `config.ACTIVATIONS`.
        dropout: rate before the activation.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, kernel_size, act="tanh", dropout=0.0, layer_norm_eps=1e-7,
                 initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.conv = Conv(hidden_size, kernel_size, initializer_range, seed, name="conv",
                         dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)
        self.activation = activation(act)
        self.layer_norm = LayerNorm(layer_norm_eps, name="LayerNorm", dtype=self.dtype_policy)

    def build(self, hidden_shape, output_shape=None):
        """Create the convolution and LayerNorm."""
        for layer in (self.conv, self.dropout, self.layer_norm):
            layer.build(hidden_shape)

    def call(self, hidden, output, training=False, layout=None):
        """Add what the neighbours in `hidden` say to `output`."""
        seen = self.dropout(self.conv(hidden, layout.sequence_ids), training=training,
                            layout=layout)
        return self.layer_norm(output + self.activation(seen, training))
