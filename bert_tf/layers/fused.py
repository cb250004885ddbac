"""Chains of element-wise operations in one pass over memory."""

import functools

import tensorflow as tf

_LARGE = 1 << 20  # elements from which on compiling pays off


def pays(tensor):
    """Return whether compiling pays off: it is large and of known shape.

    XLA would compile anew for every shape, so where the shape is open, as it is for batches of
    mixed lengths, it is not asked.
    """
    return (tensor.shape.num_elements() or 0) >= _LARGE


def fused(function):
    """`function`, compiled by XLA where that `pays` by its first argument.

    Op by op TensorFlow goes through memory once for each operation.

    Args:
        function: of tensors, made of element-wise operations and reductions only.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(first, *others):
        return (compiled if pays(first) else function)(first, *others)

    return call
