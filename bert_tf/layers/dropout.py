"""Dropout whose mask is a function of seed, step and global example index."""

import keras
import tensorflow as tf

from bert_tf import randomness
from bert_tf.errors import UsageError, explain
from bert_tf.layers.layer import Layer
from bert_tf.shapes import sizes_of

_LEVELS = 1 << 16  # sixteen random bits an element


@keras.saving.register_keras_serializable("bert_tf")
class Dropout(Layer):
    """Zero a share of the elements in training and scale the others up (Srivastava et al. 2014).

    Inside `randomness.draw_at(seed, step, first_example)` the mask of an example depends on the
    seed, the layer's path, the step and the example's global index only: not on the replica, the
    batch or the number of restarts. Elsewhere (plain `model.fit`) replicas differ too, unlike with
    `keras.layers.Dropout`; see `randomness.current_stream`.

    Call: `[batch, …]`, or `[tokens, width]` with their `layout` -> the same shape and type.

    Args:
        rate: share of elements set to zero, in [0, 1); exact to 1/65536.
        seed: integer seed of the plain mode; None draws from Keras' own random state.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise UsageError(explain(f"rate={rate}", "in [0, 1)"))
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None

    def build(self, input_shape):
        """Nothing to create; gives the layer its path."""

    def call(self, inputs, training=False, layout=None):
        """Drop elements of `inputs` if `training`."""
        if not training or not self.rate:
            return inputs
        factor = self._draw(inputs, layout)

        @tf.custom_gradient
        def dropped(inputs):
            return inputs * factor(), lambda upstream: upstream * factor(upstream)

        return dropped(inputs)

    def product(self, inputs, values, training=False):
        """Drop elements of `inputs [batch, …, M, K]` if `training`, then multiply by
        `values [batch, …, K, N]`: `[batch, …, M, N]`, all of the compute type.

        For the gradient the inputs and the mask are kept, not also what is left of the inputs.
        """
        if not training or not self.rate:
            return tf.matmul(inputs, values)
        factor = self._draw(inputs)

        @tf.custom_gradient
        def product(inputs, values):
            def gradients(upstream):
                again = factor(upstream)
                return (tf.matmul(upstream, values, transpose_b=True) * again,
                        tf.matmul(inputs * again, upstream, transpose_a=True))

            return tf.matmul(inputs * factor(), values), gradients

        return product(inputs, values)

    def _draw(self, inputs, layout=None):
        """Return a function of what has to be known first, which gives the factor of each element.

        Gradients need it once more. The mask is kept, as drawing is dearer than the memory, but as
        a byte an element: the factors are made of it again, not before the upstream gradient.
        """
        dropped = int(self.rate * _LEVELS)
        key, first_example = randomness.current_stream(f"dropout/{self.path}",
                                                       self.seed_generator)
        if layout is None:
            bits = randomness.example_bits(key, first_example, sizes_of(inputs), tf.uint16)
        else:
            bits = layout.bits(key, first_example, inputs.shape[-1])
        kept = tf.ensure_shape(bits >= dropped, inputs.shape)
        scale = tf.constant(_LEVELS / (_LEVELS - dropped), inputs.dtype)

        def factor(*first):
            with tf.control_dependencies(first):
                return tf.cast(kept, scale.dtype) * scale

        return factor

    def compute_output_shape(self, input_shape):
        """That of the input."""
        return input_shape
