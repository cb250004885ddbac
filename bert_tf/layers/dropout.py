"""Dropout whose mask is a function of seed, step and global example index."""

import keras
import tensorflow as tf

from bert_tf import randomness

_LEVELS = 1 << 16  # sixteen random bits an element


@keras.saving.register_keras_serializable("bert_tf")
class Dropout(keras.Layer):
    """Zero a share of the elements in training and scale the others up (Srivastava et al. 2014).

    Inside `randomness.draw_at(seed, step, first_example)` the mask of an example depends on the
    seed, the layer's path, the step and the example's global index only: not on the replica, the
    batch or the number of restarts. Elsewhere (plain `model.fit`) masks come from a Keras
    `SeedGenerator` with the replica's number mixed in, so that replicas differ, unlike with
    `keras.layers.Dropout`.

    Call: `[batch, …]` -> the same shape and type.

    Args:
        rate: share of elements set to zero, in [0, 1); exact to 1/65536.
        seed: integer seed of the plain mode; None draws from Keras' own random state.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None
        self.built = True

    def build(self, input_shape):
        """Nothing to create."""

    def call(self, inputs, training=False):
        """Drop elements of `inputs` if `training`."""
        if not training or not self.rate:
            return inputs
        dropped = round(self.rate * _LEVELS)
        position = randomness.current_position()
        if position is None:
            key, first_example = self._replica_key(), 0
        else:
            key = randomness.stream_key(position.seed, f"dropout/{self.path}", position.step)
            first_example = position.first_example
        bits = randomness.example_bits(key, first_example, tf.shape(inputs), tf.uint16)
        keep = tf.ensure_shape(bits >= dropped, inputs.shape)
        scale = tf.cast(_LEVELS / (_LEVELS - dropped), inputs.dtype)
        return inputs * (tf.cast(keep, inputs.dtype) * scale)

    def _replica_key(self):
        """Stream key uint64 `[1]` from the seed generator's next state and the replica."""
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group if context else 0
        state = tf.cast(self.seed_generator.next(), tf.uint64)
        count = tf.bitwise.left_shift(state[1], tf.constant(20, tf.uint64))
        return randomness.stream_key(state[0], "dropout", count + tf.cast(replica, tf.uint64))

    def compute_output_shape(self, input_shape):
        """As the input."""
        return input_shape

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
