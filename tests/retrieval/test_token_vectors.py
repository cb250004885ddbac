"""Exact search by MaxSim, in blocks, and what has no vectors."""

import numpy as np
import pytest

from bert_tf.retrieval import token_vectors
from bert_tf.retrieval.token_vectors import TokenVectors, max_sims, search_tokens

DRAW = np.random.default_rng(1)
QUERIES, PASSAGES = ([DRAW.normal(size=(length, 3)).astype("float32") for length in lengths]
                     for lengths in ((2, 0, 3, 1), (4, 0, 1, 5, 2, 0)))


def by_formula(query, passage):
    return sum(max((row @ other for other in passage), default=0) for row in query)


@pytest.fixture(params=[1, 1 << 24], autouse=True)
def at_once(request, monkeypatch):
    monkeypatch.setattr(token_vectors, "_PRODUCTS_AT_ONCE", request.param)


def test_scores_are_those_of_the_formula():
    expected = [[by_formula(query, passage) for passage in PASSAGES] for query in QUERIES]
    queries, passages = map(TokenVectors.of, (QUERIES, PASSAGES))
    np.testing.assert_allclose(max_sims(queries, passages), expected, rtol=1e-5)
    np.testing.assert_allclose(max_sims(queries[[2, 0]], passages[1:4]),
                               np.array(expected)[[2, 0], 1:4], rtol=1e-5)
    assert max_sims(queries, TokenVectors.of([])).shape == (4, 0)


def test_search_in_parts_is_that_of_all():
    queries, passages = ([TokenVectors.of(values[:3]), TokenVectors.of(values[3:])]
                         for values in (QUERIES, PASSAGES))
    scores, rows = search_tokens(queries, iter(passages), 4)
    expected = np.array([[by_formula(query, passage) for passage in PASSAGES] for query in QUERIES])
    order = np.argsort(-expected, 1, kind="stable")[:, :4]
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, order, 1), rtol=1e-5)
    assert search_tokens(queries, passages, 10)[0].shape == (4, 6)
