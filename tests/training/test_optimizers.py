"""The optimizers against the papers' formulas in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.training.config import TrainConfig
from bert_tf.training.muon import orthogonalize
from bert_tf.training.optimizers import AdamW, Lamb, Lion, Muon, build_optimizer
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


@pytest.mark.parametrize("kind", [AdamW, Muon])
def test_betas_of_any_type_of_number(kind):
    """Without a mean of gradients the first update is a learning rate times their sign."""
    weights = [keras.Variable(np.zeros(3, "float32"), name="bias")]
    optimizer = kind(0.01, beta_1=0, beta_2=np.float64(0.98), epsilon=0.0)
    optimizer.apply([tf.constant([2.0, -3.0, 0.5])], weights)
    np.testing.assert_allclose(weights[0].numpy(), [-0.01, 0.01, -0.01], rtol=1e-5)


def test_lion_is_the_papers():
    """Chen et al. 2023, algorithm 2, in float64."""
    weights, random = variables(), np.random.default_rng(1)
    right = [weight.numpy().astype("float64") for weight in weights]
    means = [np.zeros(weight.shape) for weight in weights]
    optimizer = Lion(0.01, 0.9, 0.98, weight_decay=0.5)
    for _ in range(6):
        gradients = [random.normal(size=weight.shape) for weight in weights]
        optimizer.apply([tf.constant(each, tf.float32) for each in gradients], weights)
        for index, gradient in enumerate(gradients):
            update = np.sign(0.9 * means[index] + 0.1 * gradient)
            decay = 0.0 if weights[index].path == "bias" else 0.5
            right[index] -= 0.01 * (update + decay * right[index])
            means[index] = 0.98 * means[index] + 0.02 * gradient
    for weight, expected in zip(weights, right, strict=True):
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-5, atol=1e-6)


def polar(matrix, steps=5):
    """Five iterations by singular values: those of the polynomial, the vectors stay."""
    u, values, v = np.linalg.svd(matrix, full_matrices=False)
    values = values / np.linalg.norm(values)
    for _ in range(steps):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return (u * values) @ v


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (3, 2, 5)])
def test_muon_is_the_papers(shape):
    """Liu et al. 2025, equations 1 to 4, with Nesterov's momentum, in float64; a kernel of three
    axes as a matrix of its last one; the rest is AdamW at its own rate."""
    random = np.random.default_rng(2)
    kernel, bias = (random.normal(size=each).astype("float32") for each in (shape, shape[-1:]))
    weights = [keras.Variable(kernel, name="kernel"), keras.Variable(bias, name="bias")]
    gradients = [[random.normal(size=each.shape) for each in (kernel, bias)] for _ in range(6)]
    optimizer = Muon(0.02, rates=[("kernel", 0.5)], weight_decay=0.1, adamw_rate=0.25,
                     orthogonalized=["kernel"])
    right, total = kernel.reshape(-1, shape[-1]).astype("float64"), 0.0
    for step in gradients:
        optimizer.apply([tf.constant(each, tf.float32) for each in step], weights)
        gradient = step[0].reshape(right.shape)
        total = 0.95 * total + gradient
        update = polar(gradient + 0.95 * total) * 0.2 * max(right.shape) ** 0.5
        right = right - 0.01 * (update + 0.1 * right)
    np.testing.assert_allclose(weights[0].numpy().reshape(right.shape), right, rtol=1e-4, atol=1e-5)
    _, expected = paper(AdamW, [kernel, bias], list(zip(*gradients, strict=True)), [0, 0.005])
    np.testing.assert_allclose(weights[1].numpy(), expected, rtol=1e-5, atol=1e-6)
    assert len(optimizer.variables) == 2 + 1 + 2  # iterations, rate; a momentum; two moments


def test_orthogonalized_in_bfloat16():
    matrix = np.random.default_rng(0).normal(size=(40, 160)).astype("float32")
    for dtype in (tf.float32, tf.bfloat16):
        values = np.linalg.svd(orthogonalize(tf.constant(matrix), dtype=dtype), compute_uv=False)
        assert values.min() > 0.6 and values.max() < 1.25
    assert not orthogonalize(tf.zeros([3, 4])).numpy().any()


def test_muon_takes_the_matrices_of_the_blocks(tiny):
    """A model's own variables: kernels of its layers, not those of the pooler and the heads."""
    model = tiny.model(0.0, "float32", "replaced_tokens")
    optimizer = build_optimizer(TrainConfig(optimizer="muon", dtype="bfloat16"))
    optimizer.build(model.trainable_variables)
    taken = {variable.path for variable, matrix in zip(
        model.trainable_variables, optimizer._is_matrix, strict=True) if matrix}
    assert taken == {variable.path for variable in model.trainable_variables
                     if "/encoder/layer_" in variable.path and len(variable.shape) == 2}
    assert len(taken) == 12  # of two encoders
    assert optimizer.dtype == "bfloat16"


@pytest.mark.parametrize("kind", [
    AdamW, *(pytest.param(kind, marks=pytest.mark.long) for kind in (Lamb, Lion, Muon))])
def test_fit_and_saving(kind, tmp_path):
    """Usable with plain Keras: compile, fit, save with its state, load, fit on."""
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5]], "float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(
        1, kernel_initializer=keras.initializers.Constant(0.1))])
    # A Sequential has no blocks, whose matrices are Muon's.
    more = {"orthogonalized": ["kernel"]} if kind is Muon else {}
    model.compile(kind(WarmupLinearDecay(0.1, 2, 100), weight_decay=0.0,
                       rates=[("bias", 0.5)], **more), "mse")
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


@pytest.mark.parametrize("kind", [AdamW, Lamb, Lion, Muon])
def test_nothing_is_computed_of_a_weight_before_its_gradient(kind):
    """Else the decayed weights would be held for a whole step."""
    kernel = keras.Variable(np.ones((4, 4), np.float32), name="kernel")
    optimizer = kind()
    optimizer.build([kernel])

    @tf.function(autograph=False)
    def step(inputs):
        optimizer.apply_reduced(tf.distribute.get_strategy(), [tf.exp(inputs)], [kernel])

    graph = step.get_concrete_function(tf.TensorSpec([4, 4])).graph
    [gradient] = [each for each in graph.get_operations() if each.type == "Exp"]
    after = {gradient}
    for each in graph.get_operations():  # in the order in which they were made
        if not after.isdisjoint([*each.control_inputs, *(tensor.op for tensor in each.inputs)]):
            after.add(each)
    products = [each for each in graph.get_operations() if len(each.outputs) == 1
                and each.outputs[0].shape == [4, 4] and each.type not in ("Exp", "Placeholder")]
    assert products and after.issuperset(products)
