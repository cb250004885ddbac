"""One vector a token from those of several encoder layers (Devlin et al. 2019, table 7)."""

import keras
import tensorflow as tf

from bert_tf.errors import check_choice
from bert_tf.layers.layer import Layer

COMBINES = ("concat", "weighted_sum")


@keras.saving.register_keras_serializable("bert_tf")
class FeatureMix(Layer):
    """Concatenates layers, or sums them up with weights that are learned.

    The weighted sum is `scale * sum(softmax(weights)[i] * layer[i])` (Peters et al. 2018, "Deep
    contextualized word representations", equation 1); it begins as the mean.

    Call: a list of `[batch, seq_length, hidden]` -> `[batch, seq_length, layers * hidden]` of
    `concat`, `[batch, seq_length, hidden]` of `weighted_sum`.

    Args:
        num_layers: length of the list.
        combine: one of `COMBINES`.
    """

    def __init__(self, num_layers, combine="concat", **kwargs):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.combine = check_choice("combine", combine, COMBINES)

    def build(self, layers_shape=None):
        """Create `weights [layers]` and `scale` of a weighted sum."""
        if self.combine == "weighted_sum":
            self.layer_weights = self.add_weight(name="layer_weights", shape=(self.num_layers,),
                                                 initializer="zeros", autocast=False,
                                                 dtype="float32")
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones",
                                         autocast=False, dtype="float32")

    def call(self, layers):
        """Mix the layers."""
        if self.combine == "concat":
            return tf.concat(layers, -1)
        shares = tf.nn.softmax(self.layer_weights) * self.scale
        return tf.add_n([tf.cast(share, layer.dtype) * layer
                         for share, layer in zip(tf.unstack(shares), layers, strict=True)])
