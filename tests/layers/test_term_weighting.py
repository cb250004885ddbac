"""Weights of tokens against the formulas, worked out by hand and in loops."""

import math

import numpy as np
import pytest

from bert_tf.errors import UsageError
from bert_tf.layers.term_weighting import TermWeighting

IDF = np.array([0.5, 1.0, 2.0, 3.0, 0.25])


def weigh(weighting, ids, mask, average_length=4.0, **options):
    layer = TermWeighting(5, weighting, **options)
    layer.build()
    layer.assign(IDF, average_length)
    return layer(np.array(ids, "int32"), np.array(mask, "int32")).numpy()


def test_by_hand():
    ids, mask = [[1, 2, 2, 3], [4, 1, 0, 0]], [[1, 1, 1, 1], [1, 1, 0, 0]]
    np.testing.assert_allclose(weigh("idf", ids, mask), [[1, 2, 2, 3], [0.25, 1, 0, 0]])
    # Texts of 4 and 2 tokens, 4 on average: k1 ((1 - b) + b l / 4) is 1.2 and 0.75.
    np.testing.assert_allclose(weigh("bm25", ids, mask), [
        [1 / 2.2, 2 / 3.2, 2 / 3.2, 3 / 2.2], [0.25 / 1.75, 1 / 1.75, 0, 0]], rtol=1e-6)


def test_bm25_of_random_texts():
    random = np.random.default_rng(5)
    ids, lengths = random.integers(0, 5, (6, 12)), random.integers(0, 13, 6)
    mask = np.arange(12) < lengths[:, None]
    weights = weigh("bm25", ids, mask, average_length=7.25, k1=1.6, b=0.4)
    for row in range(6):
        text = ids[row, :lengths[row]].tolist()
        for place in range(12):
            norm = 1.6 * (0.6 + 0.4 * len(text) / 7.25)
            expected = (IDF[text[place]] / (text.count(text[place]) + norm)
                        if place < len(text) else 0)
            assert math.isclose(weights[row, place], expected, rel_tol=1e-5)


def test_a_term_counts_more_often_said_but_ever_less():
    """Its weight is that of each time it is said, together."""
    said = [number * weigh("bm25", [[1] * number + [2] * (9 - number)], [[1] * 9])[0, 0]
            for number in (1, 2, 3, 4)]
    steps = np.diff(said)
    assert (steps > 0).all() and (np.diff(steps) < 0).all()


def test_nothing_is_learned_yet():
    layer = TermWeighting(5, "idf")
    layer.build()
    assert not layer.is_learned
    with pytest.raises(UsageError, match="without the statistics of a corpus"):
        layer(np.ones((1, 2), "int32"), np.ones((1, 2), "int32"))
    layer.assign(IDF, 4.0)
    assert layer.is_learned and not layer.trainable_variables


@pytest.mark.parametrize(("idf", "average_length", "message"), [
    (IDF[:3], 4.0, r"shape \(3,\); expected \(5,\)"),
    (-IDF, 4.0, "below 0"), (IDF * np.nan, 4.0, "not finite"), (IDF, 0.0, "without a token")])
def test_weights_that_are_none(idf, average_length, message):
    layer = TermWeighting(5, "idf")
    layer.build()
    with pytest.raises(UsageError, match=message):
        layer.assign(idf, average_length)
