"""Weights of the vocabulary from logits, computed some positions at a time, and their gradients."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.layers import term_pooling
from bert_tf.layers.term_pooling import ACTIVATIONS, POOLINGS, pool_terms

DRAW = np.random.default_rng(0)
GIVEN = [DRAW.normal(size=shape).astype("float32") for shape in ((3, 7, 5), (11, 5), (11,))]
UPSTREAM = DRAW.normal(size=(3, 11)).astype("float32")
MASK = np.array([[1] * 7, [1] * 3 + [0] * 4, [0] * 7])


def by_formula(hidden, table, bias, pooling, act):
    logits = hidden @ tf.transpose(table) + bias
    weights = tf.math.log1p(tf.nn.relu(logits)) * MASK[..., np.newaxis].astype("float32")
    weights = tf.math.log1p(weights) if act == "log1p_relu" else weights
    return tf.reduce_max(weights, 1) if pooling == "max" else tf.reduce_sum(weights, 1)


def with_gradients(function):
    given = list(map(tf.constant, GIVEN))
    with tf.GradientTape() as tape:
        tape.watch(given)
        weights = function(*given)
        loss = tf.reduce_sum(UPSTREAM * weights)
    return [weights, *tape.gradient(loss, given)]


@pytest.mark.parametrize("at_once", [1 << 24, 66, 1])  # logits: of all positions, of 2, of 1
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_weights_and_gradients_are_those_of_the_formula(pooling, act, at_once, monkeypatch):
    monkeypatch.setattr(term_pooling, "_LOGITS_AT_ONCE", at_once)
    expected = with_gradients(functools.partial(by_formula, pooling=pooling, act=act))
    assert not np.any(expected[0][2])  # a row of padding
    for training in (False, True):
        def ours(hidden, table, bias, training=training):
            return pool_terms(hidden, tf.constant(MASK), table, bias, pooling, act, training)

        for found, right in zip(with_gradients(ours), expected, strict=True):
            np.testing.assert_allclose(found, right, atol=1e-5)
