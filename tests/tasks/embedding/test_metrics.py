"""Metrics of likeness, worked out by hand."""

import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.embedding.metrics import similarity_metrics


def test_by_hand():
    # Of 2 x 3 comparisons of an alike pair with another one, 4 are won.
    metrics = similarity_metrics([True, False, True, False, False], [0.9, 0.8, 0.3, 0.6, 0.1])
    assert metrics["auc"] == pytest.approx(4 / 6)
    # The first is found after 1 of 1, the second after 2 of 4.
    assert metrics["average_precision"] == pytest.approx((1 / 1 + 2 / 4) / 2)


@pytest.mark.parametrize(("alike", "likeness", "message"), [
    ([True, True], [0.1, 0.2], "pairs of one sort"), ([], [], "at least one"),
    ([True], [0.1, 0.2], "2 predictions for 1 examples")])
def test_what_cannot_be_measured(alike, likeness, message):
    with pytest.raises(BertTfError, match=message):
        similarity_metrics(alike, likeness)
