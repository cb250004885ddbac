"""What Keras promises of any optimizer: ours and Keras' own, side by side.

With the options in `OURS` both compute the same, but that Keras loses digits of `1 - beta ** n` and
its Adam adds epsilon to the uncorrected root: numbers are compared to four digits.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import UsageError
from bert_tf.training.optimizers import AdamW, Lamb, Lion, Muon


class _KerasMuon(keras.optimizers.Muon):
    """With the names that its Adam's options have elsewhere."""

    def __init__(self, rate, weight_decay=None, beta_1=0.9, beta_2=0.999, **options):
        options = {"adam_beta_1": beta_1, "adam_beta_2": beta_2,
                   "adam_weight_decay": weight_decay, **options}
        super().__init__(rate, weight_decay=weight_decay, **options)

    def get_config(self):
        return {**keras.optimizers.Optimizer.get_config(self), "momentum": self.momentum}


# Ours, Keras', and the options that make both compute the same.
OURS = {"adamw": (AdamW, keras.optimizers.AdamW, {"epsilon": 1e-7, "not_decayed": ()}),
        "lamb": (Lamb, keras.optimizers.Lamb, {"epsilon": 1e-7, "not_decayed": ()}),
        "lion": (Lion, keras.optimizers.Lion, {"not_decayed": ()}),
        "muon": (Muon, _KerasMuon, {"epsilon": 1e-7, "not_decayed": (),
                                    "orthogonalized": ["kernel"]})}
SHARED = {"weight_decay": None}


def variables():
    random = np.random.default_rng(0)
    return [keras.Variable(random.normal(size=shape).astype("float32"), name=name)
            for name, shape in (("kernel", (3, 4)), ("gamma", (4,)), ("bias", (4,)))]


def gradients(steps=4):
    random = np.random.default_rng(1)
    return [[tf.constant(random.normal(size=shape), tf.float32)
             for shape in ((3, 4), (4,), (4,))] for _ in range(steps)]


def run(optimizer, apply=None):
    """The variables after four updates."""
    weights = variables()
    for step in gradients():
        if apply is None:
            optimizer.apply(step, weights)
        else:
            apply(optimizer, step, weights)
    optimizer.finalize_variable_values(weights)
    return [weight.numpy() for weight in weights]


# What is common to all is one class; their own updates are in `test_optimizers`.
@pytest.fixture(params=[
    "adamw", "muon", *(pytest.param(name, marks=pytest.mark.long) for name in ("lamb", "lion"))])
def pair(request):
    """Makers of ours and of Keras' optimizer, which compute the same of the same options."""
    ours, theirs, same = OURS[request.param]
    return (lambda rate=0.01, **options: ours(rate, **{**same, **SHARED, **options}),
            # Keras' AdamW takes no None, which its Adam is for.
            lambda rate=0.01, **options: (
                keras.optimizers.Adam if theirs is keras.optimizers.AdamW
                and options.get("weight_decay") is None else theirs)(
                    rate, **{**SHARED, **options}))


@pytest.mark.parametrize("options", [
    {}, {"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"clipvalue": 0.1},
    {"loss_scale_factor": 8.0}, {"gradient_accumulation_steps": 2}, {"use_ema": True},
    {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    {"beta_1": 0.8, "beta_2": 0.99}], ids=str)
def test_options_do_what_they_do_to_keras_own(pair, options):
    plain = run(pair[1]())
    ours, theirs = (run(make(**options)) for make in pair)
    for own, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, right, rtol=1e-4, atol=1e-5)
    changed = any(not np.allclose(own, before) for own, before in zip(ours, plain, strict=True))
    # Adam divides by the gradients' own size.
    assert changed == bool(options and set(options) != {"loss_scale_factor"})


def test_learning_rates(pair):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.5)
    for rate in (schedule, lambda: 0.02):
        for own, right in zip(*(run(make(rate)) for make in pair), strict=True):
            np.testing.assert_allclose(own, right, rtol=1e-4, atol=1e-5)
    ours, theirs = (make() for make in pair)
    for optimizer in (ours, theirs):
        optimizer.learning_rate = 0.05
        assert float(optimizer.learning_rate) == pytest.approx(0.05)
    for own, right in zip(run(ours), run(theirs), strict=True):
        np.testing.assert_allclose(own, right, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError):
        pair[0](schedule).learning_rate = 0.05


def test_ways_to_apply(pair):
    expected = run(pair[0]())

    def zipped(optimizer, step, weights):
        optimizer.apply_gradients(zip(step, weights, strict=True))

    def built(optimizer, step, weights):
        if not optimizer.built:
            optimizer.build(weights)
        optimizer.apply(step)

    @tf.function(jit_compile=True)
    def compiled(optimizer, step, weights):
        optimizer.apply(step)

    def jitted(optimizer, step, weights):
        if not optimizer.built:
            optimizer.build(weights)
        compiled(optimizer, step, weights)

    def sparse(optimizer, step, weights):
        rows = tf.IndexedSlices(step[0], tf.range(3), tf.constant([3, 4]))
        optimizer.apply([rows, *step[1:]], weights)

    for way in (zipped, built, jitted, sparse):
        for own, right in zip(run(pair[0](), way), expected, strict=True):
            np.testing.assert_allclose(own, right, rtol=1e-5, atol=1e-6, err_msg=way.__name__)
    optimizer = pair[0]()
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([gradients()[0][0], None, None], variables())
    with pytest.raises(ValueError, match="Unknown variable"):
        optimizer.apply(gradients()[0], variables())


def decayed(optimizer, weights):
    """Names of the variables that are smaller after updates without a gradient."""
    before = [weight.numpy() for weight in weights]
    for _ in range(2):
        optimizer.apply([tf.zeros_like(weight) for weight in weights], weights)
    return {weight.name for weight, old in zip(weights, before, strict=True)
            if np.abs(weight.numpy()).sum() < np.abs(old).sum() - 1e-4}


@pytest.mark.parametrize("decay", [
    None, 0.1, *(pytest.param(decay, marks=pytest.mark.long) for decay in (0, 0.0))])
@pytest.mark.parametrize("exclude", [
    lambda weights: {}, lambda weights: {"var_list": [weights[0]]},
    lambda weights: {"var_names": ["bias", "gam"]},
    lambda weights: {"var_list": weights[1:2], "var_names": ["kernel"]}])
def test_what_is_decayed(pair, decay, exclude):
    found = []
    for make in pair:
        weights = variables()
        optimizer = make(weight_decay=decay)
        optimizer.exclude_from_weight_decay(**exclude(weights))
        found.append(decayed(optimizer, weights))
    assert found[0] == found[1]
    assert bool(found[0]) == bool(decay)


@pytest.mark.parametrize("kind", [AdamW, Lamb])
def test_exclusions_of_both_kinds_add_up(kind):
    weights = variables()
    optimizer = kind(0.01, weight_decay=0.1)
    assert decayed(optimizer, weights) == {"kernel", "gamma"}
    with pytest.raises(ValueError, match="before the first update"):
        optimizer.exclude_from_weight_decay(var_names=["kernel"])
    optimizer = kind(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["gamma"])
    assert decayed(optimizer, variables()) == {"kernel"}


@pytest.mark.parametrize("options", [
    {}, {"weight_decay": 0.1, "clipnorm": 1.0, "name": "mine"},
    {"global_clipnorm": 1.0, "use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 3},
    {"clipvalue": 1.0, "loss_scale_factor": 2.0, "gradient_accumulation_steps": 2},
    {"rate": keras.optimizers.schedules.CosineDecay(0.1, 10)}], ids=",".join)
def test_config_round_trip(pair, options):
    ours, theirs = (make(**options) for make in pair)
    config = ours.get_config()
    for key, value in theirs.get_config().items():
        if key != "amsgrad" and (key != "name" or "name" in options):
            assert config[key] == value, key
    again = type(ours).from_config(ours.get_config())  # Keras' method changes its argument
    assert again.get_config() == config
    for own, right in zip(run(again), run(ours), strict=True):
        np.testing.assert_array_equal(own, right)
    named = keras.optimizers.deserialize(keras.optimizers.serialize(ours))
    assert (type(named), named.get_config()) == (type(ours), config)


def test_wrong_arguments_are_refused_as_by_keras(pair):
    for wrong in ({"clipnorm": 1.0, "clipvalue": 1.0}, {"gradient_accumulation_steps": 1},
                  {"use_ema": True, "ema_momentum": 2.0}, {"unheard_of": 1}):
        for make in pair:
            with pytest.raises((ValueError, TypeError)):
                make(**wrong)


def test_variables_in_half_precision_are_refused(pair):
    weights = [keras.Variable(np.ones((3, 4)), dtype="bfloat16", name="kernel")]
    with pytest.raises(UsageError, match="kernel is bfloat16; expected float32; try a model of"):
        pair[0]().build(weights)


@pytest.mark.parametrize("options", [{}, {"use_ema": True},
                                     {"gradient_accumulation_steps": 2}], ids=str)
def test_state_is_saved_and_loaded(pair, options):
    steps, weights = gradients(), variables()
    optimizer = pair[0](**options)
    for step in steps[:3]:
        optimizer.apply(step, weights)
    store = {}
    optimizer.save_own_variables(store)
    values = [weight.numpy() for weight in weights]
    results = []
    for load in ("as it is", "store", "weights"):
        own = pair[0](**options) if load != "as it is" else optimizer
        copies = variables() if own is not optimizer else weights
        if own is not optimizer:
            for copy, value in zip(copies, values, strict=True):
                copy.assign(value)
            own.build(copies)
            if load == "store":
                own.load_own_variables(store)
            else:
                own.set_weights([store[str(number)] for number in range(len(store))])
        assert int(own.iterations) == (1 if "gradient_accumulation_steps" in options else 3)
        for step in steps[3:]:
            own.apply(step, copies)
        results.append([copy.numpy() for copy in copies])
    for loaded in results[1:]:
        for own, right in zip(loaded, results[0], strict=True):
            np.testing.assert_array_equal(own, right)
