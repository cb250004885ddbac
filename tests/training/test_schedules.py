"""Learning rates against Keras' own schedules and against straight lines drawn by NumPy."""

import keras
import numpy as np
import pytest

from bert_tf.training.config import TrainConfig
from bert_tf.training.schedules import (
    WarmupCosineDecay,
    WarmupLinearDecay,
    WarmupStableDecay,
    build_schedule,
)


def rates(schedule, count):
    return [float(schedule(step)) for step in range(count)]


def test_linear():
    np.testing.assert_allclose(rates(WarmupLinearDecay(1.0, 4, 8), 10),
                               [0.25, 0.5, 0.75, 1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0], atol=1e-6)
    assert float(WarmupLinearDecay(1.0, 0, 4)(0)) == pytest.approx(0.8)


@pytest.mark.parametrize("warmup", [0, 5])
def test_cosine_is_that_of_keras(warmup):
    """Ours counts updates from 1, and meets 0 one after the last."""
    right = keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else 0.3, 21 - warmup, warmup_target=0.3 if warmup else None,
        warmup_steps=warmup)
    np.testing.assert_allclose(rates(WarmupCosineDecay(0.3, warmup, 20), 20),
                               [float(right(number)) for number in range(1, 21)], atol=1e-7)


@pytest.mark.parametrize(("warmup", "decay"), [(4, 5), (0, 5), (5, 15), (3, 0)])
def test_trapezoid(warmup, decay):
    found = rates(WarmupStableDecay(0.5, warmup, 20, decay), 22)
    right = np.interp(np.arange(1, 23), [0, warmup, 20 - decay, 21], [0 if warmup else 0.5, 0.5,
                                                                      0.5, 0])
    np.testing.assert_allclose(found, right, atol=1e-7)
    assert sum(rate < 0.5 - 1e-6 for rate in found[warmup:20]) == decay
    if warmup + decay == 20:
        np.testing.assert_allclose(found, rates(WarmupLinearDecay(0.5, warmup, 20), 22), atol=1e-7)


@pytest.mark.parametrize(("schedule", "kind"), [
    ("linear", WarmupLinearDecay), ("cosine", WarmupCosineDecay), ("trapezoid", WarmupStableDecay)])
def test_a_run_names_its_schedule(schedule, kind):
    built = build_schedule(TrainConfig(schedule=schedule, train_steps=30, warmup_steps=3,
                                       decay_ratio=0.5, learning_rate=0.1))
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(built))
    assert type(again) is kind
    assert rates(again, 30) == rates(built, 30)
    assert max(rates(built, 30)) == pytest.approx(0.1)
    if schedule == "trapezoid":
        assert again.decay_steps == 15
