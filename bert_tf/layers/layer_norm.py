"""Layer normalization (Ba, Kiros and Hinton 2016)."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("bert_tf")
class LayerNorm(keras.Layer):
    """Normalize the last axis to mean 0 and variance 1, then scale by `gamma` and add `beta`.

    Mean and variance are computed in float32 whatever the compute type.

    Call: `[…, D]` -> `[…, D]` in the compute type.

    Args:
        epsilon: added to the variance.
    """

    def __init__(self, epsilon=1e-12, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Create `gamma` and `beta` of width `input_shape[-1]`."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones",
                                     autocast=False)
        self.beta = self.add_weight(name="beta", shape=width, initializer="zeros",
                                    autocast=False)

    def call(self, inputs):
        """Normalize `[…, D]`."""
        x = tf.cast(inputs, tf.float32)
        mean = tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
        outputs = tf.nn.batch_normalization(
            x, mean, variance, tf.convert_to_tensor(self.beta), tf.convert_to_tensor(self.gamma),
            self.epsilon)
        return tf.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        """As the input."""
        return input_shape

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "epsilon": self.epsilon}
