"""Classifiers that learn probabilities: losses by SciPy, what is ignored, refused."""

import keras
import numpy as np
import pytest
from scipy import special
from text_models import classifier

from bert_tf.errors import UsageError

TEXTS = ["good a b", "bad", "good c d e", "bad a", "c", "a b c d"]
NAMES = ("a", "b", "c")
PROBLEMS = ("single_label", "multi_label")


def soft_labels(problem):
    drawn = np.random.default_rng(3)
    size = (len(TEXTS), len(NAMES))
    values = drawn.uniform(size=size) if problem == "multi_label" else drawn.dirichlet(
        np.ones(size[1]), size[0])
    values[2] = np.nan
    return values.astype("float32")


def nats_of(problem, soft, logits):
    """Float64 `[n]`, or of several labels `[n, labels]`."""
    logits = logits.astype(np.float64)
    if problem == "single_label":
        return -(soft * special.log_softmax(logits, axis=1)).sum(1)
    return -(soft * special.log_expit(logits) + (1 - soft) * special.log_expit(-logits))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_losses_by_their_formulas(problem):
    """Rows of nan count for nothing, the others by their weights."""
    model, soft = classifier(NAMES, problem), soft_labels(problem)
    logits = model(TEXTS).numpy()
    weights = np.arange(1, len(TEXTS) + 1, dtype="float32")
    batch = {"label_ids": soft, "example_weights": weights}
    nats = nats_of(problem, soft, logits)
    known = ~np.isnan(nats)
    each = np.broadcast_to(weights.reshape([-1] + [1] * (nats.ndim - 1)), nats.shape)
    assert float(model.loss_sums(logits, batch)["classifier"]) == pytest.approx(
        np.sum(nats[known] * each[known]), rel=1e-5)
    assert float(model.loss_weights(batch)["classifier"]) == each[known].sum()
    right, _ = model.metric_sums(logits, batch)["classifier_accuracy"]
    found = (logits.argmax(1) == soft.argmax(1) if problem == "single_label"
             else (logits > 0) == (soft >= 0.5))
    assert float(right) == each[known & found].sum()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_certain_ones_are_labels(problem, eager):
    model = classifier(NAMES, problem)
    model.compile(keras.optimizers.Adam(1e-3))
    numbers = np.array([0, 2, -1, 1, 0, 2], "int32")
    certain = np.eye(3, dtype="float32")[numbers]
    certain[2] = np.nan
    hard = numbers if problem == "single_label" else np.where(
        numbers[:, None] < 0, -1, np.nan_to_num(certain).astype("int32"))
    assert model.evaluate(TEXTS, certain, verbose=0) == pytest.approx(
        model.evaluate(TEXTS, hard, verbose=0), rel=1e-6)


@pytest.mark.parametrize("problem", [
    "single_label", pytest.param("multi_label", marks=pytest.mark.long)])
def test_probabilities_are_what_is_learned(problem):
    model = classifier(NAMES, problem)
    soft = np.tile(soft_labels(problem)[:1], (len(TEXTS), 1))
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(TEXTS * 60, np.tile(soft, (60, 1)), batch_size=len(TEXTS), verbose=0)
    np.testing.assert_allclose(model.probabilities(model(TEXTS)), soft, atol=0.02)


@pytest.mark.parametrize(("problem", "wrong"), [
    ("single_label", [2.0, -0.5, -0.5]),  # sums to 1
    ("single_label", np.log([0.2, 0.3, 0.5])),
    ("single_label", [0.5, 0.5, 0.5]),
    ("multi_label", [0.5, -0.5, 0]),
    ("multi_label", [0.5, 1.5, 0])])
def test_logits_and_their_like_are_refused_or_give_nan(problem, wrong):
    """They were ignored where they are below 0: a loss of 0 from which nothing is learned."""
    model, soft = classifier(NAMES, problem), soft_labels(problem)
    logits = model(TEXTS).numpy()
    soft[3] = wrong
    assert np.isnan(model.loss_sums(logits, {"label_ids": soft})["classifier"])
    unweighed = {"label_ids": soft, "example_weights": np.float32(np.arange(6) != 3)}
    assert np.isfinite(model.loss_sums(logits, unweighed)["classifier"])
    model.compile("sgd")
    with pytest.raises(UsageError, match="label_ids such as .*expected probabilities"):
        model.evaluate(TEXTS, soft, verbose=0)


def test_of_several_labels_some_may_be_unknown():
    model, soft = classifier(NAMES, "multi_label"), soft_labels("multi_label")
    soft[4, 1] = -1
    other = np.where(soft == -1, np.nan, soft)
    model.compile("sgd")
    assert model.evaluate(TEXTS, soft, verbose=0) == model.evaluate(TEXTS, other, verbose=0)


def test_what_is_no_probability_is_refused():
    model = classifier(NAMES)
    model.compile("sgd")
    with pytest.raises(UsageError, match="label_ids such as .*expected probabilities, which sum"):
        model.fit(TEXTS, np.full((6, 3), 0.5, "float32"), verbose=0)
    with pytest.raises(UsageError, match=r"of the shape \(6, 2\)"):
        model.loss_sums(model(TEXTS), {"label_ids": np.full((6, 2), 0.5, "float32")})
    several = classifier(NAMES, "multi_label")
    several.compile("sgd")
    with pytest.raises(UsageError, match=r"label_ids such as \[0.5, 1.5, .*expected probabilities"):
        several.fit(TEXTS, np.tile(np.array([[0.5, 1.5, 0]], "float32"), (6, 1)), verbose=0)
