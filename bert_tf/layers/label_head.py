"""Logits of a few labels: next sentence, sentence order, classes, spans, tags."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import unflatten
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class LabelHead(Layer):
    """A linear map to one logit a label (google-research/bert `run_classifier.py`).

    Call: `[…, hidden]` -> float32 `[…, num_labels]`.

    Args:
        num_labels: width of the output.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, num_labels, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape):
        """Create `output_weights [num_labels, hidden]` (the official layout) and `output_bias`."""
        self.output_weights = self.add_weight(
            name="output_weights", shape=(self.num_labels, input_shape[-1]),
            initializer=truncated_normal(self.initializer_range, self.seed,
                                         f"{self.path}/output_weights"))
        self.output_bias = self.add_weight(name="output_bias", shape=(self.num_labels,),
                                           initializer="zeros", autocast=False,
                                           dtype="float32")

    def call(self, inputs):
        """`[…, hidden]` -> float32 `[…, num_labels]`."""
        weights = tf.convert_to_tensor(self.output_weights)
        tokens = tf.reshape(inputs, [-1, weights.shape[1]])
        logits = tf.matmul(tokens, weights, transpose_b=True)
        logits = tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.output_bias)
        return unflatten(logits, inputs)

    def compute_output_shape(self, input_shape):
        """`[…, num_labels]`."""
        return (*input_shape[:-1], self.num_labels)

    def compute_output_spec(self, inputs):
        """Logits are float32 whatever the compute type."""
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), "float32")
