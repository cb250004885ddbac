"""A bidirectional LSTM over encoded tokens (Devlin et al. 2019, section 5.1)."""

import zlib

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("bert_tf")
class BiLstm(keras.Layer):
    """What the paper puts, with fresh weights, on top of its left-to-right model in fine-tuning.

    Call: `[batch, seq_length, hidden]` and `input_mask` int `[batch, seq_length]`, padding on the
    right -> `[batch, seq_length, hidden]`, half of the width from each direction; 0 at padding.

    Args:
        hidden_size: width of the output, even.
        seed: integer seed of the initial weights; None draws from Keras' own random state.
    """

    def __init__(self, hidden_size, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.seed = seed
        self.forward, self.backward = (
            keras.layers.LSTM(
                hidden_size // 2, return_sequences=True, name=name,
                kernel_initializer=keras.initializers.GlorotUniform(_seed(seed, name)),
                recurrent_initializer=keras.initializers.Orthogonal(
                    seed=_seed(seed, name, "recurrent")), dtype=self.dtype_policy)
            for name in ("forward", "backward"))

    def build(self, hidden_shape, input_mask_shape=None):
        """Create both directions."""
        self.forward.build(hidden_shape)
        self.backward.build(hidden_shape)

    def call(self, hidden, input_mask):
        """Read `[batch, seq_length, hidden]` from both ends."""
        lengths = tf.reduce_sum(input_mask, axis=1)
        real = tf.sequence_mask(lengths, tf.shape(hidden)[1])
        turned = tf.reverse_sequence(hidden, lengths, seq_axis=1)
        left = self.forward(hidden, mask=real)
        right = tf.reverse_sequence(self.backward(turned, mask=real), lengths, seq_axis=1)
        return tf.concat([left, right], -1) * tf.cast(real, hidden.dtype)[..., tf.newaxis]

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "hidden_size": self.hidden_size, "seed": self.seed}


def _seed(seed, *names):
    return None if seed is None else zlib.crc32(f"{seed}/{'/'.join(names)}".encode())
