"""Chains of element-wise operations in one pass over memory."""

import functools

import tensorflow as tf

_LARGE = 1 << 20  # elements from which on compiling pays off


def fused(function):
    """`function`, compiled by XLA where its first argument is large and of known shape.

    Op by op TensorFlow goes through memory once for each operation. XLA would compile anew for
    every shape, so where the shape is open, as it is for batches of mixed lengths, it is not asked.

    Args:
        function: of tensors, made of element-wise operations and reductions only.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(first, *others):
        size = first.shape.num_elements()
        return (compiled if size is not None and size >= _LARGE else function)(first, *others)

    return call
