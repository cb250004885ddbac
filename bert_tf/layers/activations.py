"""The activations a model configuration can name.

Each is called as `function(x, training=False)`. TensorFlow fuses `tf.nn.gelu` into the matrix
product before it, but only where no gradient is taken; for training, its gradient op by op is
slow and in bfloat16 inexact, so that there both forms are computed in float32 inside, with their
gradients written out.
"""

import math

import tensorflow as tf

from bert_tf.errors import check_choice
from bert_tf.layers.fused import fused, pays

_SLOPE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _SLOPE
# Operands are sorted by name before TensorFlow looks for what it can fuse, and it finds the tanh
# form only where the bias (…/dense/BiasAdd) comes first.
_NAME = "gelu"


def gelu(x, training=False):
    """x Φ(x) with the exact normal distribution function (Hendrycks and Gimpel 2016)."""
    return _TRAINED["gelu"](x) if training else tf.nn.gelu(x, approximate=False, name=_NAME)


def gelu_approximate(x, training=False):
    """The tanh form of `gelu`: what google-research/bert computes under the name "gelu"."""
    if training:
        return _TRAINED["gelu_approximate"](x)
    return tf.nn.gelu(x, approximate=True, name=_NAME)


def relu(x, training=False):
    """max(x, 0)."""
    return tf.nn.relu(x)


def tanh(x, training=False):
    """Hyperbolic tangent."""
    return tf.math.tanh(x)


def silu(x, training=False):
    """x σ(x) with the logistic function (Elfwing et al. 2017; the "Swish" of SwiGLU)."""
    return _TRAINED["silu"](x) if training else x * tf.math.sigmoid(x)


def _in_float32(share, slope):
    """`x share(x)` of any float type, computed in float32, and its gradient by `slope`, dy/dx.

    Nothing but `x` is kept for the gradient.
    """
    return _with_gradient(
        lambda x: x * share(x), lambda x, upstream: upstream * slope(x))


def _gated_in_float32(share, slope):
    """The same of the first half of `x […, 2 width]`, times the second half: `[…, width]`."""
    def value(x):
        x, gate = tf.split(x, 2, axis=-1)
        return x * share(x) * gate

    def gradient(x, upstream):
        x, gate = tf.split(x, 2, axis=-1)
        return tf.concat([upstream * gate * slope(x), upstream * (x * share(x))], -1)

    return _with_gradient(value, gradient)


def _with_gradient(value, gradient):
    """`value(x)` with `gradient(x, upstream)`, both of float32, for `x` of any float type."""
    @fused
    def forward(x):
        return tf.cast(value(tf.cast(x, tf.float32)), x.dtype)

    @fused
    def backward(x, upstream):
        return tf.cast(gradient(tf.cast(x, tf.float32), tf.cast(upstream, tf.float32)), x.dtype)

    @tf.custom_gradient
    def call(x):
        return forward(x), lambda upstream: backward(x, upstream)

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


# Of activations x share(x): the share of x that is left, and dy/dx.
_FORMS = {"gelu": (_share, _slope), "gelu_approximate": (_share_approximate, _slope_approximate),
          "silu": (tf.math.sigmoid, _slope_silu)}
_TRAINED, _TRAINED_GATED = ({name: make(*form) for name, form in _FORMS.items()}
                            for make in (_in_float32, _gated_in_float32))
# Those that after the split of a gate are computed by their share in float32: TensorFlow's Erfc
# takes several times as long as Erf, and 1 + erf(x) is too coarse in bfloat16.
_BY_SHARE = ("gelu", "gelu_approximate")

_TABLE = {"gelu": gelu, "gelu_approximate": gelu_approximate, "relu": relu, "tanh": tanh,
          "silu": silu}


def activation(name):
    """The function of that name in `config.ACTIVATIONS`; UsageError lists the choices."""
    return _TABLE[check_choice("hidden_act", name, _TABLE)]


def gated(name):
    """Return `function(x, training=False)`: that activation of the first half of `x […, 2 width]`,
    times the second half, `[…, width]` (Shazeer 2020, "GLU Variants Improve Transformer")."""
    activate, trained = activation(name), _TRAINED_GATED.get(name)
    share = _FORMS[name][0] if name in _BY_SHARE else None

    def call(x, training=False):
        if training and trained and pays(x):
            return trained(x)
        x, gate = tf.split(x, 2, axis=-1)
        if training or share is None:
            return activate(x, training) * gate
        wide = tf.cast(x, tf.float32)
        return tf.cast(wide * share(wide), x.dtype) * gate

    return call
