"""Layer normalization (Ba, Kiros and Hinton 2016)."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import flatten, unflatten
from bert_tf.layers.fused import fused
from bert_tf.layers.inference import layer_norm_for_inference
from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class LayerNorm(Layer):
    """Normalize the last axis to mean 0 and variance 1, then scale by `gamma` and add `beta`.

    Mean and variance are computed in float32 whatever the compute type.

    Call: `[…, D]` -> `[…, D]` in the compute type.

    Args:
        epsilon: added to the variance.
        use_bias: whether there is a `beta`.
    """

    def __init__(self, epsilon=1e-12, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.use_bias = use_bias

    def build(self, input_shape):
        """Create `gamma` and `beta` of width `input_shape[-1]`."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones",
                                     autocast=False, dtype="float32")
        self.beta = None
        if self.use_bias:
            self.beta = self.add_weight(name="beta", shape=width, initializer="zeros",
                                        autocast=False, dtype="float32")

    def call(self, inputs):
        """Normalize `[…, D]`."""
        tokens = flatten(inputs, self.gamma.shape[0])
        kernel = layer_norm_for_inference() or _normalize
        gamma = tf.convert_to_tensor(self.gamma)
        beta = tf.convert_to_tensor(self.beta) if self.use_bias else tf.zeros_like(gamma)
        return unflatten(kernel(tokens, gamma, beta, self.epsilon), inputs)


def normalized(tokens, gamma, beta, epsilon):
    """LayerNorm of `tokens [K, D]`, step by step in float32."""
    x = tf.cast(tokens, tf.float32)
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * gamma + beta, tokens.dtype)


_in_one_pass = fused(normalized)


def _normalize(tokens, gamma, beta, epsilon):
    """`normalized`, with a gradient that keeps nothing but the tokens."""
    epsilon = tf.constant(epsilon)

    @tf.custom_gradient
    def call(tokens, gamma, beta):
        return (_in_one_pass(tokens, gamma, beta, epsilon),
                lambda upstream: _gradient(tokens, gamma, upstream, epsilon))

    return call(tokens, gamma, beta)


@fused
def _gradient(tokens, gamma, upstream, epsilon):
    """Those of `tokens`, `gamma` and `beta`."""
    x = tf.cast(tokens, tf.float32)
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)  # [K, 1]
    normal = centred * scale
    upstream = tf.cast(upstream, tf.float32)
    projected = upstream * normal
    d_normal = upstream * gamma
    d_tokens = scale * (d_normal - tf.reduce_mean(d_normal, -1, keepdims=True)
                        - normal * tf.reduce_mean(projected * gamma, -1, keepdims=True))
    # The quickest sum over rows that TensorFlow has.
    d_gamma, d_beta = (tf.raw_ops.BiasAddGrad(out_backprop=x) for x in (projected, upstream))
    return tf.cast(d_tokens, tokens.dtype), d_gamma, d_beta
