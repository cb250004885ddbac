"""Replaced token detection (Clark et al. 2020, section 2)."""

import keras
import tensorflow as tf

from bert_tf.layers.activations import activation
from bert_tf.layers.dense import Dense
from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class ReplacedHead(Layer):
    """One logit a token: above 0 where the token seems replaced (google-research/electra).

    Call: `sequence_output [batch, seq_length, hidden]` -> float32 `[batch, seq_length]`.

    Args:
        hidden_size: width of the dense layer before the logit.
        hidden_act: its activation, one of `config.ACTIVATIONS`.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, hidden_act="gelu", initializer_range=0.02, seed=None,
                 **kwargs):
        super().__init__(**kwargs)
        self.hidden_act = hidden_act
        self.activation = activation(hidden_act)
        options = {"initializer_range": initializer_range, "seed": seed,
                   "dtype": self.dtype_policy}
        self.dense = Dense(hidden_size, **options, name="dense")
        self.logit = Dense(1, **options, name="dense_1")

    def build(self, sequence_output_shape):
        """Create both dense layers."""
        self.dense.build(sequence_output_shape)
        self.logit.build(self.dense.compute_output_shape(sequence_output_shape))

    def call(self, sequence_output, training=False):
        """Logits float32 `[batch, seq_length]`."""
        hidden = self.activation(self.dense(sequence_output), training)
        return tf.cast(self.logit(hidden)[..., 0], tf.float32)

    def compute_output_shape(self, sequence_output_shape):
        """`[batch, seq_length]`."""
        return sequence_output_shape[:-1]

    def compute_output_spec(self, sequence_output, training=False):
        """Logits are float32 whatever the compute type."""
        return keras.KerasTensor(sequence_output.shape[:-1], "float32")
