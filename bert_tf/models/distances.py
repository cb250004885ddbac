"""How far each layer moves what it reads (ALBERT paper, section 4.1 and figure 1)."""

import math

import tensorflow as tf


def layer_distances(outputs, input_mask):
    """L2 and cosine distance between every layer's input and output, the mean over real tokens.

    Args:
        outputs: of an encoder built with `encoder_outputs=True`.
        input_mask: int32 `[batch, seq_length]`, 1 for real tokens.

    Returns: dict of float32 `[layers]`: `l2`, the Euclidean distance, `cosine`, one minus the
        cosine of the angle, and `degrees`, the angle, which is what the paper's figure shows.
    """
    states = tf.stack([outputs["embedding_output"], *outputs["encoder_outputs"]])
    before, after = states[:-1], states[1:]  # [layers, B, S, D]
    real = tf.cast(input_mask, tf.float32)[tf.newaxis]

    def mean(values):
        return tf.reduce_sum(values * real, [1, 2]) / tf.reduce_sum(real)

    lengths = tf.norm(before, axis=-1) * tf.norm(after, axis=-1)
    cosine = tf.math.divide_no_nan(tf.reduce_sum(before * after, -1), lengths)
    angle = tf.acos(tf.clip_by_value(cosine, -1.0, 1.0))
    return {"l2": mean(tf.norm(after - before, axis=-1)), "cosine": mean(1.0 - cosine),
            "degrees": mean(angle * (180.0 / math.pi))}
