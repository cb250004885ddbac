"""MaxSim of vectors of tokens: equation 3 in NumPy, its gradient, and what has no vectors."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.layers import max_sim as module
from bert_tf.layers.max_sim import max_sim, pair_max_sim

DRAW = np.random.default_rng(1)
QUERIES, PASSAGES = (DRAW.normal(size=(n, length, 3)).astype("float32")
                     for n, length in ((4, 5), (6, 7)))
QUERY_MASK, PASSAGE_MASK = (DRAW.integers(0, 2, values.shape[:2]) for values in (QUERIES, PASSAGES))
QUERY_MASK[1], PASSAGE_MASK[2] = 0, 0  # texts without a vector
PASSAGE_MASK[4], PASSAGES[4] = np.eye(7)[0], -QUERIES[0, QUERY_MASK[0] > 0].sum(0)  # far away


def by_formula(query, passage):
    query, passage = QUERIES[query][QUERY_MASK[query] > 0], PASSAGES[passage][
        PASSAGE_MASK[passage] > 0]
    return sum(max(row @ other for other in passage) for row in query) if len(passage) else 0.0


@pytest.fixture(params=[1, 1 << 24])
def at_once(request, monkeypatch):
    monkeypatch.setattr(module, "_PRODUCTS_AT_ONCE", request.param)


def test_scores_are_those_of_the_formula(at_once):
    found = max_sim(QUERIES, QUERY_MASK, PASSAGES, PASSAGE_MASK).numpy()
    expected = [[by_formula(i, j) for j in range(6)] for i in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    pairs = pair_max_sim(QUERIES, QUERY_MASK, PASSAGES[:4], PASSAGE_MASK[:4])
    np.testing.assert_allclose(pairs, np.diag(found), rtol=1e-5)
    assert not found[1].any() and not found[:, 2].any() and (found < 0).any()
    assert max_sim(QUERIES[:0], QUERY_MASK[:0], PASSAGES, PASSAGE_MASK).shape == (0, 6)


def test_the_gradient_is_that_of_all_products(at_once):
    weights = DRAW.normal(size=(4, 6)).astype("float32")
    queries, passages = tf.constant(QUERIES), tf.constant(PASSAGES)

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([queries, passages])
            scores = max_sim(queries, QUERY_MASK, passages, PASSAGE_MASK)
            loss = tf.reduce_sum(weights * scores)
        return tape.gradient(loss, [queries, passages])

    with tf.GradientTape() as tape:
        tape.watch([queries, passages])
        products = tf.einsum("nqd,mpd->nmqp", queries, passages)
        largest = tf.reduce_max(tf.where(PASSAGE_MASK[:, tf.newaxis] > 0, products, -1e9), -1)
        counted = (QUERY_MASK[:, tf.newaxis] > 0) & PASSAGE_MASK.any(1)[:, tf.newaxis]
        loss = tf.reduce_sum(weights * tf.reduce_sum(tf.where(counted, largest, 0.0), -1))
    for found, expected in zip(gradients(), tape.gradient(loss, [queries, passages]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
