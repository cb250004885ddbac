"""Layer normalization (Ba, Kiros and Hinton 2016)."""

import functools

import keras
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from bert_tf.layers.dense import unflatten
from bert_tf.layers.fused import fused

# Numbers from which on one kernel, which is prepared at every call, beats ten small ones.
_LARGE = 1 << 16


@keras.saving.register_keras_serializable("bert_tf")
class LayerNorm(keras.Layer):
    """Normalize the last axis to mean 0 and variance 1, then scale by `gamma` and add `beta`.

    Mean and variance are computed in float32 whatever the compute type.

    Call: `[…, D]` -> `[…, D]` in the compute type.

    Args:
        epsilon: added to the variance.
    """

    def __init__(self, epsilon=1e-12, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Create `gamma` and `beta` of width `input_shape[-1]`."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones",
                                     autocast=False, dtype="float32")
        self.beta = self.add_weight(name="beta", shape=width, initializer="zeros",
                                    autocast=False, dtype="float32")

    def call(self, inputs):
        """Normalize `[…, D]`."""
        width = self.gamma.shape[0]
        outputs = _normalize(tf.reshape(inputs, [-1, width]), tf.convert_to_tensor(self.gamma),
                             tf.convert_to_tensor(self.beta), self.epsilon)
        return unflatten(outputs, inputs)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "epsilon": self.epsilon}


def _normalize(tokens, gamma, beta, epsilon):
    """LayerNorm of `tokens [K, D]`, with a gradient that keeps nothing but the tokens."""

    @tf.custom_gradient
    def call(tokens, gamma, beta):
        return (_forward(tokens, gamma, beta, epsilon),
                lambda upstream: _gradient(tokens, gamma, upstream, tf.constant(epsilon)))

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


def _forward(tokens, gamma, beta, epsilon):
    """The value, by what is quicker for so many numbers."""
    large = tf.size(tokens) >= _LARGE
    known = tf.get_static_value(large)
    if known is not None:
        return (_in_one if known else _in_steps)(tokens, gamma, beta, epsilon)
    # `tf.cond` would trace both ways anew at every place, half of what a whole layer takes.
    ways = [_traced(way, tokens.dtype, tokens.shape[1], epsilon) for way in (_in_one, _in_steps)]
    output, = tf.raw_ops.StatelessIf(
        cond=large, input=[tokens, gamma, beta], Tout=[tokens.dtype], then_branch=ways[0],
        else_branch=ways[1], output_shapes=[tokens.shape])
    # As `tf.cond` has it: the branches become part of the graph when it is run.
    output.op._set_attr("_lower_using_switch_merge", attr_value_pb2.AttrValue(b=True))
    return output


@functools.cache
def _traced(way, dtype, width, epsilon):
    """The graph of a way for any number of tokens."""
    with tf.init_scope():
        return tf.function(functools.partial(way, epsilon=epsilon), autograph=False
                           ).get_concrete_function(tf.TensorSpec([None, width], dtype),
                                                   *[tf.TensorSpec([width])] * 2)


def _in_steps(tokens, gamma, beta, epsilon):
    x = tf.cast(tokens, tf.float32)
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * gamma + beta, tokens.dtype)


def _in_one(tokens, gamma, beta, epsilon):
    """Operations that TensorFlow on a CPU replaces by one kernel of oneDNN.

    Each token is a channel of an image of height D, which batch normalization in training mode
    brings to mean 0 and variance 1. The replacement (grappler's remapper) wants its scale and
    offset as `Fill`, which a known number of tokens would turn into constants: so it is hidden.
    """
    count = tf.raw_ops.PlaceholderWithDefault(input=tf.shape(tokens)[:1], shape=[1])
    images = tf.reshape(tokens, tf.concat([[1], count, [tokens.shape[1], 1]], 0))
    empty = tf.constant([], tf.float32)
    normal = tf.raw_ops.FusedBatchNormV3(
        x=images, scale=tf.fill(count, 1.0), offset=tf.fill(count, 0.0), mean=empty,
        variance=empty, epsilon=epsilon, data_format="NCHW", is_training=True).y
    normal = tf.reshape(normal, tf.shape(tokens))
    return normal * tf.cast(gamma, tokens.dtype) + tf.cast(beta, tokens.dtype)
