"""Cross-entropy and its gradient against TensorFlow's own operation."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.base.cross_entropy import cross_entropy
from bert_tf.tasks.base.objective import Objective


@pytest.mark.parametrize("scale", [1.0, 300.0])  # at 300 most shares are 0 in float32
@pytest.mark.parametrize("shape", [(7, 40), (2, 3, 40), (0, 40)])
def test_of_classes(shape, scale):
    random = np.random.default_rng(1)
    logits = tf.constant(random.normal(size=shape) * scale, tf.float32)
    labels = tf.constant(random.integers(0, 40, shape[:-1]), tf.int32)
    found = []
    for function in (cross_entropy, lambda labels, logits: tf.nn
                     .sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            nats = function(labels, logits)
            loss = tf.reduce_sum(nats * tf.cast(labels + 1, tf.float32))
        found.append((nats, tape.gradient(loss, logits)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_of_yes_and_no():
    nats = cross_entropy(tf.constant([1, 0]), tf.constant([0.0, 2.0]))
    np.testing.assert_allclose(nats, [np.log(2), np.log1p(np.exp(2))], rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 2), (3,)])  # of classes; of yes and no
def test_a_label_that_is_none_is_told_where_a_graph_would_take_it_for_another(shape):
    compiled = tf.function(cross_entropy, jit_compile=True)
    nats = compiled(tf.constant([0, 2, -1]), tf.ones(shape))
    np.testing.assert_array_equal(np.isnan(nats), [False, True, True])


def test_a_label_without_weight_may_be_any():
    task = types.SimpleNamespace(tasks=["t"], labels_of=lambda *_: {"t": tf.constant([0, -100, 1])},
                                 weights_of=lambda _: {"t": tf.constant([1.0, 0.0, 2.0])})
    sums = tf.function(lambda logits: Objective.loss_sums(task, {"t_logits": logits}, {}),
                       jit_compile=True)(tf.ones((3, 2)))
    np.testing.assert_allclose(sums["t"], 3 * np.log(2), rtol=1e-6)
