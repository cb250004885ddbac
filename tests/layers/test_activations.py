"""Activations, with gates and without, and what is computed in one pass."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.layers.activations import activation, gated
from bert_tf.layers.layer_norm import LayerNorm

RANDOM = np.random.default_rng(0)


def test_large_inputs_are_computed_in_one_pass():
    """What XLA compiles for large tensors of known shape gives what the small ones give."""
    x = tf.constant(RANDOM.normal(size=(1024, 1024)) * 3, tf.float32)
    norm = LayerNorm(1e-5)
    norm.build(x.shape)
    norm.gamma.assign(RANDOM.normal(size=1024))
    for function in (lambda x: activation("gelu")(x, training=True),
                     lambda x: activation("gelu_approximate")(x, training=True),
                     lambda x: gated("silu")(x / 3, training=True), norm):
        found = []
        for parts in (1, 2):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.concat([function(part) for part in tf.split(x, parts)], 0)
                loss = tf.reduce_sum(tf.sin(y))
            found.append((y, tape.gradient(loss, x)))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize(("form", "peer"), [
    ("gelu", tf.nn.gelu), ("gelu_approximate", lambda x: tf.nn.gelu(x, approximate=True)),
    ("silu", tf.nn.silu)])
def test_gradients_of_activations_are_those_of_tensorflow(form, peer):
    x = tf.constant(np.linspace(-6, 6, 2001), tf.float32)

    def value_and_slope(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    expected = value_and_slope(peer)
    np.testing.assert_allclose(activation(form)(x), expected[0], atol=1e-6)
    for got, want in zip(value_and_slope(lambda x: activation(form)(x, training=True)), expected,
                         strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
    half = activation(form)(tf.cast(x, tf.bfloat16), training=True)
    np.testing.assert_allclose(tf.cast(half, tf.float32), expected[0], rtol=0.01, atol=0.01)


@pytest.mark.parametrize("rows", [3, 1024])  # op by op, and in one pass
@pytest.mark.parametrize("form", ["gelu", "gelu_approximate", "silu", "relu", "tanh"])
def test_a_gate_is_a_product_with_the_activation(form, rows):
    halves = tf.constant(RANDOM.normal(size=[2, rows, 512]), tf.float32)
    x = tf.concat(tf.unstack(halves), -1)

    def value_and_gradients(function, given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = function(given)
            loss = tf.reduce_sum(tf.sin(y))
        return y, tape.gradient(loss, given)

    expected, of_halves = value_and_gradients(lambda x: activation(form)(x[0]) * x[1], halves)
    found, gradient = value_and_gradients(lambda x: gated(form)(x, training=True), x)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_allclose(gradient, tf.concat(tf.unstack(of_halves), -1), atol=2e-5)
    np.testing.assert_allclose(gated(form)(x), expected, atol=2e-6)
    for training in (True, False):
        half = gated(form)(tf.cast(x, tf.bfloat16), training=training)
        np.testing.assert_allclose(tf.cast(half, tf.float32), expected, rtol=0.03, atol=0.03)
