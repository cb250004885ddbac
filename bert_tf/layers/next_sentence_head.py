"""Next-sentence prediction (Devlin et al. 2019, section 3.1, task 2)."""

import keras
import tensorflow as tf

from bert_tf.layers.initializers import truncated_normal


@keras.saving.register_keras_serializable("bert_tf")
class NextSentenceHead(keras.Layer):
    """Logits of "follows" (0) and "random" (1).

    Call: `pooled_output [batch, hidden]` -> `next_sentence_logits` float32 `[batch, 2]`.

    Args:
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape):
        """Create `output_weights [2, hidden]` (the official layout) and `output_bias [2]`."""
        self.output_weights = self.add_weight(
            name="output_weights", shape=(2, input_shape[-1]),
            initializer=truncated_normal(self.initializer_range, self.seed,
                                         f"{self.path}/output_weights"))
        self.output_bias = self.add_weight(name="output_bias", shape=(2,), initializer="zeros",
                                           autocast=False)

    def call(self, pooled_output):
        """`[batch, hidden]` -> float32 `[batch, 2]`."""
        logits = tf.matmul(pooled_output, tf.convert_to_tensor(self.output_weights),
                           transpose_b=True)
        return tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.output_bias)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "initializer_range": self.initializer_range,
                "seed": self.seed}
