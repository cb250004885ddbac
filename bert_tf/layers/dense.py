"""A position-wise linear map."""

import keras
import tensorflow as tf

from bert_tf.layers.initializers import truncated_normal


@keras.saving.register_keras_serializable("bert_tf")
class Dense(keras.Layer):
    """`x kernel + bias` over the last axis, as one 2-D matrix product.

    Call: `[…, in]` -> `[…, units]` in the compute type.

    Args:
        units: width of the output.
        initializer_range: standard deviation of the truncated normal of `kernel [in, units]`.
        seed: seed of the initial kernel, see `initializers.truncated_normal`.
    """

    def __init__(self, units, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape):
        """Create `kernel` and `bias` for inputs of width `input_shape[-1]`."""
        initializer = truncated_normal(self.initializer_range, self.seed, f"{self.path}/kernel")
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], self.units),
                                      initializer=initializer)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        """Map `[…, in]` to `[…, units]`."""
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        tokens = tf.reshape(inputs, [-1, kernel.shape[0]])
        outputs = tf.nn.bias_add(tf.matmul(tokens, kernel), bias)
        return unflatten(outputs, inputs)

    def compute_output_shape(self, input_shape):
        """`[…, units]`."""
        return (*input_shape[:-1], self.units)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "units": self.units,
                "initializer_range": self.initializer_range, "seed": self.seed}


def unflatten(tokens, like):
    """Give `tokens [K, D]` the leading axes of `like […, any]`."""
    if like.shape.rank == 2:
        return tokens
    shape = tf.concat([tf.shape(like)[:-1], [tokens.shape[-1]]], 0)
    outputs = tf.reshape(tokens, shape)
    outputs.set_shape([*like.shape[:-1], tokens.shape[-1]])
    return outputs
