"""Baselines against formulas and a library; evaluations that leave nothing behind."""

import gc

import numpy as np
import pytest

from bert_tf.training.best import BestEvaluation
from bert_tf.training.evaluate import (
    binary_entropy,
    majority,
    unigram_entropy,
    wilson_interval,
)


def test_unigram_entropy_is_the_least_loss_of_frequencies():
    random = np.random.default_rng(1)
    batches = [(random.integers(0, high, (4, 5)), random.integers(0, 2, (4, 5)).astype("float32"))
               for high in (3, 9, 6)]
    labels = np.concatenate([labels[weights > 0] for labels, weights in batches])
    shares = np.bincount(labels) / len(labels)
    assert unigram_entropy(batches) == pytest.approx(-np.log(shares[labels]).mean())


def test_majority_is_the_accuracy_of_frequencies():
    batches = [(np.array([0, 1, 1]), np.array([1, 1, 0])), (np.array([1, 1, 0]), np.ones(3))]
    assert majority(batches) == pytest.approx(3 / 5)


def test_binary_entropy():
    assert binary_entropy(0.5) == pytest.approx(np.log(2))
    assert binary_entropy(0.1) == pytest.approx(-0.1 * np.log(0.1) - 0.9 * np.log(0.9))
    assert binary_entropy(0.0) == binary_entropy(1.0) == 0


@pytest.mark.parametrize(("right", "count"), [(5, 10), (60, 100), (0, 20), (1000, 1000)])
def test_wilson_interval_is_where_the_score_test_does_not_reject(right, count):
    """At its bounds p, |share - p| is 1.96 standard errors of p."""
    share = right / count
    low, high = wilson_interval(share, count)
    for bound in (low, high):
        assert abs(share - bound) == pytest.approx(
            1.959964 * np.sqrt(max(bound * (1 - bound), 0) / count), abs=1e-9)
    assert -1e-9 <= low <= share <= high <= 1 + 1e-9


def test_evaluations_leave_nothing_behind(tiny, monkeypatch):
    """Not even cycles, which Python looks for ever more seldom the more it holds."""
    held = []
    judge = BestEvaluation.judge

    def judged(*arguments):
        held.append(len(gc.get_objects()))
        judge(*arguments)

    monkeypatch.setattr(BestEvaluation, "judge", judged)
    gc.disable()
    try:
        tiny.train("run", "one_device", train_steps=4, eval_every=1, eval_examples=40)
    finally:
        gc.enable()
    assert len(held) == 4 and held[-1] - held[1] < 100  # a graph has thousands
