"""Dropout whose mask is a function of seed, step and global example index."""

import keras
import tensorflow as tf

from bert_tf import randomness
from bert_tf.errors import UsageError, explain

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
        if not 0 <= rate < 1:
            raise UsageError(explain(f"rate={rate}", "in [0, 1)"))
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None

    def build(self, input_shape):
        """Nothing to create; gives the layer its path."""

    def call(self, inputs, training=False):
        """Drop elements of `inputs` if `training`."""
        if not training or not self.rate:
            return inputs
        dropped = int(self.rate * _LEVELS)
        key, first_example = self._stream()
        sizes = tf.shape(inputs)
        shape = [sizes[axis] if size is None else size for axis, size in enumerate(inputs.shape)]
        bits = randomness.example_bits(key, first_example, shape, tf.uint16)
        # The gradient needs the mask again: kept, as drawing is dearer than the memory.
        keep = tf.cast(tf.ensure_shape(bits >= dropped, inputs.shape), inputs.dtype)
        return inputs * (keep * tf.cast(_LEVELS / (_LEVELS - dropped), inputs.dtype))

    def _stream(self):
        """The stream's key and the index of this call's first example in it."""
        purpose = f"dropout/{self.path}{randomness.current_scope()}"
        position = randomness.current_position()
        if position is not None:
            key = randomness.stream_key(position.seed, purpose, position.step)
            return key, position.first_example
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group if context else 0
        seed, calls = tf.unstack(tf.cast(self.seed_generator.next(), tf.uint64))
        # Replicas take neighbouring steps of one stream: at most 2**20 of them.
        step = tf.bitwise.left_shift(calls, tf.constant(20, tf.uint64))
        return randomness.stream_key(seed, purpose, step + tf.cast(replica, tf.uint64)), 0

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
