"""The activations a model configuration can name."""

import tensorflow as tf

from bert_tf.errors import check_choice


def gelu(x):
    """x Φ(x) with the exact normal distribution function (Hendrycks and Gimpel 2016)."""
    return tf.nn.gelu(x, approximate=False)


def gelu_approximate(x):
    """The tanh form of `gelu`: what google-research/bert computes under the name "gelu"."""
    return tf.nn.gelu(x, approximate=True)


_TABLE = {"gelu": gelu, "gelu_approximate": gelu_approximate, "relu": tf.nn.relu,
          "tanh": tf.math.tanh}


def activation(name):
    """The function of that name in `config.ACTIVATIONS`; UsageError lists the choices."""
    return _TABLE[check_choice("hidden_act", name, _TABLE)]
