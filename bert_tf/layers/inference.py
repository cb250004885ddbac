"""Graphs that only compute: no gradient is taken of them, and they have kernels of their own."""

import contextlib
import contextvars
import functools

import tensorflow as tf

_layer_norm = contextvars.ContextVar("layer_norm", default=None)


@contextlib.contextmanager
def for_inference(layer_norm):
    """Within, graphs are traced that no gradient will be taken of.

    Args:
        layer_norm: what computes LayerNorm there: a function of `[K, D]`, float32 `[D]` twice and
            a float -> `[K, D]` of the type of the first.
    """
    token = _layer_norm.set(layer_norm)
    try:
        yield
    finally:
        _layer_norm.reset(token)


def layer_norm_for_inference():
    """Return what `for_inference` was told; None outside of it."""
    return _layer_norm.get()


def is_for_inference():
    """Return whether a graph for inference is traced, whose requests are checked outside of it."""
    return _layer_norm.get() is not None


def own_gradient(function):
    """Decorate as `tf.custom_gradient` does; for inference the gradient is left out.

    It would add some ten nodes at every place, which take time to trace, to load and to optimize.
    """
    differentiable = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*args):
        return function(*args)[0] if is_for_inference() else differentiable(*args)

    return call
