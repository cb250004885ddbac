"""AdamW and LAMB against the papers' formulas and against a trajectory of another framework."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.training.config import TrainConfig
from bert_tf.training.optimizers import AdamW, Lamb, build_optimizer
from bert_tf.training.schedules import WarmupLinearDecay


def variables():
    random = np.random.default_rng(0)
    return [keras.Variable(random.normal(size=shape).astype("float32"), name=name)
            for name, shape in (("kernel", (3, 4)), ("bias", (4,)))]


def paper(kind, weights, gradients, rates):
    """Loshchilov and Hutter, algorithm 2; You et al., algorithm 2; in float64."""
    results = []
    for weight, decay, rate in zip(weights, (0.01, 0.0), rates, strict=True):
        weight = weight.astype("float64")
        m = v = 0.0
        for n, gradient in enumerate(gradients[len(results)], 1):
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * gradient**2
            update = m / (1 - 0.9**n) / (np.sqrt(v / (1 - 0.999**n)) + 1e-6) + decay * weight
            ratio = np.linalg.norm(weight) / np.linalg.norm(update)
            weight = weight - rate * (ratio if kind is Lamb and decay else 1.0) * update
        results.append(weight)
    return results


@pytest.mark.parametrize(("rates", "factors"), [
    ((), (1, 1)), ((("kern", 0.25), ("kernel", 9)), (0.25, 1)),
    ((("^bias$", 0), (".", 2)), (2, 0))])
@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_updates_are_the_papers(kind, rates, factors):
    """Each variable's learning rate times the factor of the first pattern that its path has."""
    weights = variables()
    random = np.random.default_rng(1)
    gradients = [[random.normal(size=weight.shape) * 10.0 ** -n for n in range(6)]
                 for weight in weights]
    expected = paper(kind, [weight.numpy() for weight in weights], gradients,
                     [0.01 * factor for factor in factors])
    optimizer = kind(0.01, rates=rates)
    for step in range(6):
        optimizer.apply([tf.constant(g[step], tf.float32) for g in gradients], weights)
    for weight, right in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight.numpy(), right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_fit_and_saving(kind, tmp_path):
    """Usable with plain Keras: compile, fit, save with its state, load, fit on."""
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5]], "float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(kind(WarmupLinearDecay(0.1, 2, 100), weight_decay=0.0,
                       rates=[("bias", 0.5)]), "mse")
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=16, epochs=5, shuffle=False, verbose=0)
    assert model.evaluate(x, y, verbose=0) < 0.7 * before
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    for each in (model, again):
        each.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])


def test_decay_skips_biases_and_layer_norm(tiny):
    model = tiny.model()
    optimizer = build_optimizer(TrainConfig())
    optimizer.build(model.trainable_variables)
    kept = {variable.path for variable, decayed
            in zip(model.trainable_variables, optimizer._decayed, strict=True) if not decayed}
    vectors = {variable.path for variable in model.trainable_variables if len(variable.shape) == 1}
    assert kept == vectors


def test_rates_of_a_built_optimizer():
    optimizer = build_optimizer(TrainConfig(), rates=[("layer_0/", 0.5), ("embeddings", 0)])
    assert optimizer.rates == (("layer_0/", 0.5), ("embeddings", 0.0))
    assert type(optimizer).from_config(optimizer.get_config()).rates == optimizer.rates
    assert build_optimizer(TrainConfig()).rates == ()
