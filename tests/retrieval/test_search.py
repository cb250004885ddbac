"""Search in blocks against all scores at once."""

import numpy as np
import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.retrieval import search as module
from bert_tf.retrieval.search import TopK, of_length_1, search


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("k", [1, 7, 600])
def test_blocks_give_what_all_scores_give(monkeypatch, similarity, k):
    monkeypatch.setattr(module, "_BLOCK_ROWS", 37)
    monkeypatch.setattr(module, "QUERY_BLOCK", 5)
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(500, 24)).astype(np.float32)
    vectors[100:300:7] = vectors[50]  # ties, in several blocks
    vectors[9] = 0
    queries = np.concatenate([generator.normal(size=(11, 24)), vectors[50:51] * 3])
    scores, rows = search(queries, vectors, k, similarity)
    expected = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    if similarity == "cosine":
        lengths = np.linalg.norm(vectors, axis=1)
        expected /= np.linalg.norm(queries, axis=1)[:, None] * np.where(lengths, lengths, 1)
    expected[:, 100:300:7] = expected[:, 50:51]
    order = np.lexsort((np.broadcast_to(np.arange(500), expected.shape), -expected))[:, :k]
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, order, 1), atol=1e-5)
    assert scores.dtype == np.float32 and rows.dtype == np.int64


@pytest.mark.parametrize("n", range(9000, 9008))
def test_equal_vectors_of_which_not_all_are_found(n):
    """Products in float32 differ in their last bit by where a vector stands."""
    generator = np.random.default_rng(n)
    vectors, [query, noise] = generator.normal(size=(n, 100)), generator.normal(size=(2, 100))
    rows = np.sort(generator.choice(n - 1, 5, replace=False)).tolist() + [n - 1]
    vectors[rows] = query + 0.1 * noise
    for k in (1, 3):
        assert search(query[np.newaxis], vectors.astype(np.float32), k)[1].tolist() == [rows[:k]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-40, 1e-23, 1e20, 1e36])
def test_cosines_do_not_depend_on_length(scale):
    vectors = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    scaled = np.float32(vectors.astype(np.float64) * scale)
    scaled[1], vectors[1] = 0, 0
    np.testing.assert_allclose(of_length_1(scaled), of_length_1(vectors), atol=1e-4)


def test_ties_of_scores_that_come_in_parts():
    top = TopK(2, 3)
    top.update(np.array([[1, 1], [-np.inf, 0]], np.float32), 0)
    top.update(np.array([[1, 2], [0, 0]], np.float32), 2)
    top.update(np.array([[1], [0]], np.float32), 4)
    scores, rows = top.taken()
    assert rows.tolist() == [[3, 0, 1], [1, 2, 3]] and scores.tolist() == [[2, 1, 1], [0, 0, 0]]
    assert top.taken()[1].tolist() == [[-1] * 3] * 2


def test_refused():
    vectors = np.ones((3, 4), np.float32)
    for k in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="at least 1"):
            search(vectors, vectors, k)
    with pytest.raises(UsageError, match=r"queries \(3, 5\) for vectors \(3, 4\)"):
        search(np.ones((3, 5)), vectors, 1)
    vectors[1, 2] = np.nan
    with pytest.raises(BertTfError, match="not finite"):
        search(vectors[:1], vectors, 1)
    assert search(vectors[:1], vectors[:0], 5)[1].shape == (1, 0)
