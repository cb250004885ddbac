"""A convolution over the positions of each sequence."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import add_bias, unflatten
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class Conv(Layer):
    """Convolution over positions, as one 2-D matrix product.

    Neighbours outside the sequence, padding among them, count as zero. So a sequence gives the
    same alone, padded, packed with others in a row, or in a row of real tokens without padding.
    With `kernel_size=1` it is `Dense` (Vaswani et al. 2017, section 3.3).

    Call: `[batch, seq_length, in]` with `sequence_ids` int `[batch, seq_length]`, or `[tokens, in]`
    with `[tokens]`, -> `[…, units]` in the compute type. `sequence_ids` are 0 at padding, else the
    same throughout a sequence and different in its neighbours; an `input_mask` will do.

    Args:
        units: width of the output.
        kernel_size: positions that one looks at, odd.
        initializer_range: standard deviation of the truncated normal of
            `kernel [kernel_size, in, units]`.
        seed: seed of the initial kernel, see `initializers.truncated_normal`.
    """

    def __init__(self, units, kernel_size, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.kernel_size = kernel_size
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, inputs_shape, sequence_ids_shape=None):
        """Create `kernel` and `bias` for inputs of width `inputs_shape[-1]`."""
        initializer = truncated_normal(self.initializer_range, self.seed, f"{self.path}/kernel")
        self.kernel = self.add_weight(
            name="kernel", shape=(self.kernel_size, inputs_shape[-1], self.units),
            initializer=initializer)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(self, inputs, sequence_ids):
        """Map `[…, in]` to `[…, units]`."""
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        reach = self.kernel_size // 2
        axis = len(inputs.shape) - 2
        columns = []
        for offset in range(-reach, reach + 1):
            column = inputs
            if offset:
                same = (_shift(sequence_ids, offset, axis) == sequence_ids) & (sequence_ids > 0)
                column = _shift(inputs, offset, axis) * tf.cast(same, inputs.dtype)[..., None]
            columns.append(column)
        joined = tf.concat(columns, -1)  # […, kernel_size in]
        tokens = tf.reshape(joined, [-1, joined.shape[-1]])
        flat_kernel = tf.reshape(kernel, [-1, self.units])
        return unflatten(add_bias(tf.matmul(tokens, flat_kernel), bias), inputs)

    def compute_output_shape(self, inputs_shape, sequence_ids_shape=None):
        """`[…, units]`."""
        return (*inputs_shape[:-1], self.units)


def _shift(tensor, offset, axis):
    """`tensor` at position + offset along `axis`, 0 where that is outside."""
    before, after = max(-offset, 0), max(offset, 0)
    paddings = [[0, 0]] * len(tensor.shape)
    paddings[axis] = [before, after]
    window = slice(after, after + tf.shape(tensor)[axis])
    return tf.ensure_shape(tf.pad(tensor, paddings)[(*[slice(None)] * axis, window)],
                           tensor.shape)
