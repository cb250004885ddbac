"""The kinds of normalization that a model's layers may have in one place."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import flatten, unflatten
from bert_tf.layers.fused import fused
from bert_tf.layers.inference import own_gradient
from bert_tf.layers.layer import Layer
from bert_tf.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable("bert_tf")
class RMSNorm(Layer):
    """Divide the last axis by its root mean square, then scale by `gamma` (Zhang and Sennrich
    2019, "Root Mean Square Layer Normalization").

    The mean is computed in float32 whatever the compute type.

    Call: `[…, D]` -> `[…, D]` in the compute type.

    Args:
        epsilon: added to the mean square.
        plus_one: whether it is scaled by `1 + gamma`, which begins as 0.
    """

    def __init__(self, epsilon=1e-5, plus_one=False, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.plus_one = plus_one

    def build(self, input_shape):
        """Create `gamma` of width `input_shape[-1]`."""
        self.gamma = self.add_weight(
            name="gamma", shape=(input_shape[-1],),
            initializer="zeros" if self.plus_one else "ones", autocast=False, dtype="float32")

    def call(self, inputs):
        """Normalize `[…, D]`."""
        tokens, gamma = flatten(inputs, self.gamma.shape[0]), tf.convert_to_tensor(self.gamma)
        epsilon = tf.constant(self.epsilon)
        gamma = 1.0 + gamma if self.plus_one else gamma

        @own_gradient
        def normalize(tokens, gamma):
            return (_normalized(tokens, gamma, epsilon),
                    lambda upstream: _gradient(tokens, gamma, upstream, epsilon))

        return unflatten(normalize(tokens, gamma), inputs)


@fused
def _normalized(tokens, gamma, epsilon):
    """RMSNorm of `tokens [K, D]`."""
    x = tf.cast(tokens, tf.float32)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + epsilon)
    return tf.cast(x * scale * gamma, tokens.dtype)


@fused
def _gradient(tokens, gamma, upstream, epsilon):
    """Those of `tokens` and `gamma`, of nothing but the tokens."""
    x, upstream = tf.cast(tokens, tf.float32), tf.cast(upstream, tf.float32)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + epsilon)  # [K, 1]
    normal = x * scale
    projected = upstream * normal
    d_tokens = scale * (upstream * gamma
                        - normal * tf.reduce_mean(projected * gamma, -1, keepdims=True))
    # The quickest sum over rows that TensorFlow has.
    return tf.cast(d_tokens, tokens.dtype), tf.raw_ops.BiasAddGrad(out_backprop=projected)


@keras.saving.register_keras_serializable("bert_tf")
class NoNorm(Layer):
    """Scale the last axis by `gamma` and add `beta`, in the place of a norm (Sun et al. 2020,
    "MobileBERT", section 3.3).

    Both are computed in float32 whatever the compute type.

    Call: `[…, D]` -> `[…, D]` in the compute type.

    Args:
        use_bias: whether there is a `beta`.
    """

    def __init__(self, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.use_bias = use_bias

    def build(self, input_shape):
        """Create `gamma` and `beta` of width `input_shape[-1]`."""
        options = {"shape": (input_shape[-1],), "autocast": False, "dtype": "float32"}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **options)
        self.beta = None
        if self.use_bias:
            self.beta = self.add_weight(name="beta", initializer="zeros", **options)

    def call(self, inputs):
        """Scale and shift `[…, D]`."""
        outputs = tf.cast(inputs, tf.float32) * tf.convert_to_tensor(self.gamma)
        if self.use_bias:
            outputs += tf.convert_to_tensor(self.beta)
        return tf.cast(outputs, self.compute_dtype)


def norm_layer(norm, epsilon, use_bias, dtype):
    """Return a layer of the kind `norm`, as in `ModelConfig`.

    Its name is `LayerNorm`, the place's, whichever kind it is.

    Args:
        epsilon: see the classes.
        use_bias: whether a `LayerNorm` or `NoNorm` has one; `RMSNorm` has none.
        dtype: Keras policy.
    """
    options = {"name": "LayerNorm", "dtype": dtype}
    if norm == "layer_norm":
        return LayerNorm(epsilon, use_bias, **options)
    if norm == "no_norm":
        return NoNorm(use_bias, **options)
    return RMSNorm(epsilon, norm == "rms_norm_plus_one", **options)
