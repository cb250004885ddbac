"""Bidirectional LSTMs over encoded tokens (Devlin et al. 2019, sections 5.1 and 5.3)."""

import zlib

import keras
import tensorflow as tf

from bert_tf.layers.layer import Layer
from bert_tf.layers.pooling import last_token


@keras.saving.register_keras_serializable("bert_tf")
class Orthogonal(keras.initializers.Orthogonal):
    """Keras' initializer, in half precision too, in which TensorFlow has no QR decomposition."""

    def __call__(self, shape, dtype=None):
        """Return a tensor of this shape and type."""
        return keras.ops.cast(super().__call__(shape, "float32"), dtype or keras.config.floatx())


@keras.saving.register_keras_serializable("bert_tf")
class BiLstm(Layer):
    """What the paper puts, with fresh weights, on top of its left-to-right model in fine-tuning.

    Call: `[batch, seq_length, hidden]` and `input_mask` int `[batch, seq_length]`, padding
    anywhere -> `[batch, seq_length, hidden]`, half of the width from each direction; 0 at padding.

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
                recurrent_initializer=Orthogonal(
                    seed=_seed(seed, name, "recurrent")), dtype=self.dtype_policy)
            for name in ("forward", "backward"))

    def build(self, hidden_shape, input_mask_shape=None):
        """Create both directions."""
        self.forward.build(hidden_shape)
        self.backward.build(hidden_shape)

    def call(self, hidden, input_mask):
        """Read `[batch, seq_length, hidden]` from both ends."""
        input_mask = tf.cast(input_mask > 0, tf.int32)
        lengths = tf.reduce_sum(input_mask, axis=1)
        real = tf.sequence_mask(lengths, tf.shape(hidden)[1])
        # cuDNN reads rows that begin with their tokens.
        order = tf.argsort(input_mask, direction="DESCENDING", stable=True)
        tokens = tf.gather(hidden, order, batch_dims=1)
        left = self.forward(tokens, mask=real)
        right = self.backward(tf.reverse_sequence(tokens, lengths, seq_axis=1), mask=real)
        read = tf.concat([left, tf.reverse_sequence(right, lengths, seq_axis=1)], -1)
        read = tf.gather(read, tf.argsort(order), batch_dims=1)
        return read * tf.cast(input_mask, read.dtype)[..., tf.newaxis]


@keras.saving.register_keras_serializable("bert_tf")
class BiLstmStack(Layer):
    """Several `BiLstm`, one on top of the other.

    Call: `[batch, seq_length, features]` and `input_mask` int `[batch, seq_length]`, padding
    anywhere -> `[batch, seq_length, hidden]`; 0 at padding.

    Args:
        hidden_size: width of every layer's output, even, half of it from each direction.
        num_layers: their number.
        seed: see `BiLstm`.
    """

    def __init__(self, hidden_size, num_layers=2, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.seed = seed
        self.layers = [
            BiLstm(hidden_size, _seed(seed, name), name=name, dtype=self.dtype_policy)
            for name in (f"layer_{i}" for i in range(num_layers))]

    def build(self, inputs_shape, input_mask_shape=None):
        """Create the layers."""
        for layer in self.layers:
            layer.build(inputs_shape)
            inputs_shape = (*inputs_shape[:-1], self.hidden_size)

    def call(self, inputs, input_mask):
        """Read `[batch, seq_length, features]` from both ends."""
        for layer in self.layers:
            inputs = layer(inputs, input_mask)
        return inputs


def both_ends(hidden, input_mask):
    """What each direction of a `BiLstm` has at its end, after it has read all tokens.

    Args:
        hidden: `[batch, seq_length, hidden]`, the layer's output.
        input_mask: int `[batch, seq_length]`.

    Returns: `[batch, hidden]`: of the left-to-right half the vector of the last real token, of the
        other half that of the first.
    """
    half = hidden.shape[-1] // 2
    first = last_token(hidden[:, ::-1, half:], input_mask[:, ::-1])
    return tf.concat([last_token(hidden[..., :half], input_mask), first], -1)


def _seed(seed, *names):
    return None if seed is None else zlib.crc32(f"{seed}/{'/'.join(names)}".encode())
