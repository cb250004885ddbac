"""One vector for a whole sequence."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import Dense
from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class Pooler(Layer):
    """tanh of a dense layer on the first token (google-research/bert `modeling.py`).

    Call: `sequence_output [batch, seq_length, hidden]`, or the first tokens alone
    `[batch, hidden]` -> `pooled_output [batch, hidden]`.

    Args:
        hidden_size: width of the output.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.dense = Dense(hidden_size, initializer_range, seed, name="dense",
                           dtype=self.dtype_policy)

    def build(self, input_shape):
        """Create the dense layer."""
        self.dense.build((input_shape[0], input_shape[-1]))

    def call(self, sequence_output):
        """Pool to `[batch, hidden]`."""
        first = sequence_output if len(sequence_output.shape) == 2 else sequence_output[:, 0]
        return tf.math.tanh(self.dense(first))


def mean_of_tokens(sequence_output, input_mask):
    """The mean of each sequence's real tokens.

    Args:
        sequence_output: `[batch, seq_length, hidden]`.
        input_mask: int32 `[batch, seq_length]`, 1 for real tokens.

    Returns: `[batch, hidden]`; of a sequence without a real token, 0.
    """
    weights = tf.cast(input_mask > 0, sequence_output.dtype)
    total = tf.einsum("bsd,bs->bd", sequence_output, weights)
    return tf.math.divide_no_nan(total, tf.reduce_sum(weights, axis=1, keepdims=True))


def last_token(sequence_output, input_mask):
    """The vector of each sequence's last real token.

    Args:
        sequence_output: `[batch, seq_length, hidden]`.
        input_mask: int32 `[batch, seq_length]`, 1 for real tokens, wherever padding is.

    Returns: `[batch, hidden]`; of a sequence without a real token the first one.
    """
    last = tf.reduce_max(tf.where(input_mask > 0, tf.range(tf.shape(input_mask)[1]), 0), axis=1)
    return tf.gather(sequence_output, last, batch_dims=1)
