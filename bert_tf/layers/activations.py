"""The activations a model configuration can name.

Each is called as `function(x, training=False)`. TensorFlow fuses `tf.nn.gelu` into the matrix
product before it, but only where no gradient is taken; for training, its gradient op by op is
slow and in bfloat16 inexact, so that there both forms are computed in float32 inside, with their
gradients written out.
"""

import math

import tensorflow as tf

from bert_tf.errors import check_choice
from bert_tf.layers.fused import fused

_SLOPE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _SLOPE
# Operands are sorted by name before TensorFlow looks for what it can fuse, and it finds the tanh
# form only where the bias (…/dense/BiasAdd) comes first.
_NAME = "gelu"


def gelu(x, training=False):
    """x Φ(x) with the exact normal distribution function (Hendrycks and Gimpel 2016)."""
    return _trained_gelu(x) if training else tf.nn.gelu(x, approximate=False, name=_NAME)


def gelu_approximate(x, training=False):
    """The tanh form of `gelu`: what google-research/bert computes under the name "gelu"."""
    if training:
        return _trained_gelu_approximate(x)
    return tf.nn.gelu(x, approximate=True, name=_NAME)


def relu(x, training=False):
    """max(x, 0)."""
    return tf.nn.relu(x)


def tanh(x, training=False):
    """Hyperbolic tangent."""
    return tf.math.tanh(x)


def silu(x, training=False):
    """x σ(x) with the logistic function (Elfwing et al. 2017; the "Swish" of SwiGLU)."""
    return _trained_silu(x) if training else x * tf.math.sigmoid(x)


def _in_float32(share, slope):
    """`x share(x)` of any float type, computed in float32, and its gradient by `slope`, dy/dx.

    Nothing but `x` is kept for the gradient.
    """

    @fused
    def value(x):
        wide = tf.cast(x, tf.float32)
        return tf.cast(wide * share(wide), x.dtype)

    @fused
    def gradient(x, upstream):
        return tf.cast(tf.cast(upstream, tf.float32) * slope(tf.cast(x, tf.float32)), x.dtype)

    @tf.custom_gradient
    def call(x):
        return value(x), lambda upstream: gradient(x, upstream)

    return call


def _share(x):
    return 0.5 * (1.0 + tf.math.erf(x * math.sqrt(0.5)))  # Φ(x)


def _slope(x):
    return _share(x) + x * tf.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def _share_approximate(x):
    return 0.5 + 0.5 * tf.math.tanh(x * (_SLOPE + _CUBIC * (x * x)))


def _slope_approximate(x):
    # tanh' = 1 - tanh²; with share = (1 + tanh) / 2 that is 4 share (1 - share).
    share = _share_approximate(x)
    return share + x * share * (1.0 - share) * (2 * _SLOPE + 6 * _CUBIC * (x * x))


def _slope_silu(x):
    share = tf.math.sigmoid(x)
    return share + x * share * (1.0 - share)


_trained_gelu = _in_float32(_share, _slope)
_trained_gelu_approximate = _in_float32(_share_approximate, _slope_approximate)
_trained_silu = _in_float32(tf.math.sigmoid, _slope_silu)


_TABLE = {"gelu": gelu, "gelu_approximate": gelu_approximate, "relu": relu, "tanh": tanh,
          "silu": silu}


def activation(name):
    """The function of that name in `config.ACTIVATIONS`; UsageError lists the choices."""
    return _TABLE[check_choice("hidden_act", name, _TABLE)]
