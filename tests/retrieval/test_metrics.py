"""Metrics of rankings against scikit-learn and cases worked out by hand."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from bert_tf.errors import BertTfError
from bert_tf.retrieval.metrics import average_precision, ndcg, ranking_metrics, reciprocal_rank
from bert_tf.retrieval.ranking import cosines, ranking


def test_ndcg_and_average_precision_are_those_of_scikit_learn():
    random = np.random.default_rng(3)
    for _ in range(20):
        relevances, scores = random.integers(0, 3, 15), random.normal(size=15)
        relevances[0] = 1
        ranked = relevances[np.argsort(-scores)]
        relevant = relevances[relevances > 0]
        for k in (1, 5, 10, 30):
            assert ndcg(ranked, relevant, k) == pytest.approx(
                sklearn_metrics.ndcg_score([relevances], [scores], k=k))
        assert average_precision(ranked, relevant) == pytest.approx(
            sklearn_metrics.average_precision_score(relevances > 0, scores))


def test_by_hand():
    # Ranks 2 and 4 of three relevant documents, one of which was not found; then none in time.
    found = ranking_metrics([[0, 1, 0, 1, 0], [0] * 10 + [1]], [[1, 1, 1], [1]], (1, 2, 100))
    assert found["mrr@10"] == pytest.approx((1 / 2 + 0) / 2)
    assert found["map"] == pytest.approx(((1 / 2 + 2 / 4) / 3 + 1 / 11) / 2)
    assert [found[f"recall@{k}"] for k in (1, 2, 100)] == pytest.approx([0, 1 / 6, (2 / 3 + 1) / 2])
    gain = (1 / np.log2(3) + 1 / np.log2(5)) / (1 + 1 / np.log2(3) + 1 / np.log2(4))
    assert found["ndcg@10"] == pytest.approx(gain / 2)
    assert reciprocal_rank([]) == average_precision([], [1]) == ndcg([], [2]) == 0
    with pytest.raises(BertTfError, match="no query"):
        ranking_metrics([], [])


def test_a_ranking_of_equal_scores_keeps_the_order():
    assert ranking(["a", "b", "c"], [1, 2, 1]) == [
        {"text": "b", "index": 1, "score": 2.0}, {"text": "a", "index": 0, "score": 1.0},
        {"text": "c", "index": 2, "score": 1.0}]
    np.testing.assert_allclose(cosines(np.array([3., 4]), np.array([[4., 3], [0, 0]])), [0.96, 0])
