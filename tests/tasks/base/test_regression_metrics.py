"""Metrics of numbers, worked out by hand."""

import math

import numpy as np
import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.base.regression_metrics import regression_metrics


def test_by_hand():
    # Both have the mean 3. Deviations -2 -1 0 3 and -1 -2 1 2: covariance 10, squares 14 and 10.
    # Ranks 1 2 3 4 and 2 1 3 4: Spearman 1 - 6 * (1 + 1) / (4 * 15).
    metrics = regression_metrics([1, 2, 3, 6], np.float32([2, 1, 4, 5]))
    assert metrics == pytest.approx({"pearson": 10 / math.sqrt(14 * 10), "spearman": 0.8,
                                     "mse": (1 + 1 + 1 + 1) / 4, "mae": 1.0})
    assert all(type(value) is float for value in metrics.values())


def test_equal_numbers_share_their_ranks():
    # Ranks 1 2.5 2.5 4 and 1.5 1.5 3 4, mean 2.5: deviations -1.5 0 0 1.5 and -1 -1 .5 1.5.
    metrics = regression_metrics([0, 1, 1, 5], [2, 2, 3, 9])
    assert metrics["spearman"] == pytest.approx((1.5 + 2.25) / math.sqrt(4.5 * 4.5))


def test_ranks_do_not_see_the_scale():
    gold, told = [1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]
    metrics = regression_metrics(gold, told)
    assert metrics["spearman"] == pytest.approx(1) and metrics["pearson"] < 0.9
    assert regression_metrics(gold, told[::-1])["spearman"] == pytest.approx(-1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("gold", "told"), [([1, 2, 3], [2, 2, 2]), ([2, 2, 2], [1, 2, 3]),
                                            ([2, 2, 2], [2, 2, 2]), ([1], [2])])
def test_no_correlation_where_nothing_varies(gold, told):
    metrics = regression_metrics(gold, told)
    assert metrics["pearson"] == metrics["spearman"] == 0.0
    assert metrics["mse"] == pytest.approx(np.mean((np.array(gold) - told) ** 2))


@pytest.mark.parametrize(("gold", "told", "message"), [
    ([], [], "no example"), ([1.0], [1.0, 2.0], "2 predictions for 1 examples"),
    ([1.0, 2.0], [0.0, math.nan], "predicted value nan of example 1; expected a finite number"),
    ([math.inf], [0.0], "gold value inf of example 0")])
def test_bad_input_is_refused(gold, told, message):
    with pytest.raises(BertTfError, match=message):
        regression_metrics(gold, told)
