"""Replaced token detection against the original's numbers, and what its draws must be."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf import randomness
from bert_tf.config import ModelConfig
from bert_tf.converters import google_tf1
from bert_tf.errors import UsageError
from bert_tf.presets import generator_config
from bert_tf.storage.variables import assign_variables
from bert_tf.tasks.pretraining import replaced_tokens
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens

TINY = ModelConfig.from_dict({
    "family": "electra", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 12,
    "embedding_size": 8})
STILL = TINY.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                     initializer_range=0.2)


def build(config=STILL, seed=1, cls=ReplacedTokens, **options):
    return cls(config, generator_config(config), seed=seed, **options)


def make_batch(size=6, length=9, predictions=3, seed=0):
    """Masked sequences of different lengths with 1 to 3 predictions each."""
    random = np.random.default_rng(seed)
    lengths = random.integers(predictions + 2, length + 1, (size, 1))
    mask = (np.arange(length) < lengths).astype("int32")
    words = random.integers(5, 50, (size, length)).astype("int32") * mask
    used = np.arange(predictions) < random.integers(1, predictions + 1, (size, 1))
    positions = np.where(used, np.arange(1, predictions + 1), 0).astype("int32")
    originals = np.where(used, np.take_along_axis(words, positions, 1), 0).astype("int32")
    rows, slots = np.nonzero(used)
    words[rows, positions[rows, slots]] = 4
    return {"input_word_ids": words, "input_mask": mask, "input_type_ids": np.zeros_like(words),
            "masked_lm_positions": positions, "masked_lm_ids": originals,
            "masked_lm_weights": used.astype("float32")}


def rows(batch, start, stop):
    return {name: value[start:stop] for name, value in batch.items()}


def test_google_electra(shared):
    """Every number of google-research/electra's pre-training model, given what it drew."""
    folder = shared / "reference/google_electra"
    given = np.load(folder / "expected.npz")
    # Its average where a position came twice; ours come once.
    drawn = np.take_along_axis(given["discriminator_input_ids"], given["masked_lm_positions"], 1)

    class Given(ReplacedTokens):
        def sample(self, logits):
            return tf.constant(drawn)

    checkpoint = google_tf1.read(str(folder))
    model = Given(checkpoint.config, checkpoint.task["generator"], dtype="float32")
    assert {variable.path for variable in model.trainable_variables} == set(checkpoint.tensors)
    assign_variables(model.trainable_variables, checkpoint.tensors, str(folder))
    labels = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    batch = {"input_word_ids": given["generator_input_ids"], "input_mask": given["input_mask"],
             "input_type_ids": given["segment_ids"], **{name: given[name] for name in labels}}
    outputs = model(batch)
    np.testing.assert_allclose(outputs["masked_lm_logits"], given["generator_logits"], atol=1e-4)
    np.testing.assert_allclose(outputs["replaced_logits"], given["discriminator_logits"],
                               atol=1e-4)
    np.testing.assert_array_equal(outputs["corrupted_word_ids"], given["discriminator_input_ids"])
    np.testing.assert_array_equal(outputs["replaced_labels"], given["discriminator_labels"])
    sums, weights = model.loss_sums(outputs, batch), model.loss_weights(batch)
    losses = {task: float(sums[task] / (weights[task] + 1e-6)) for task in sums}
    assert losses["masked_lm"] == pytest.approx(float(given["generator_loss"]), abs=1e-4)
    assert losses["replaced"] == pytest.approx(float(given["discriminator_loss"]), abs=1e-4)
    total = sum(model.loss_scales[task] * loss for task, loss in losses.items())
    assert total == pytest.approx(float(given["total_loss"]), rel=1e-5)
    metrics = {name: float(value / weight)
               for name, (value, weight) in model.metric_sums(outputs, batch).items()}
    real, called = given["input_mask"] == 1, given["discriminator_logits"] > 0
    replaced = given["discriminator_labels"] == 1
    assert metrics["replaced_accuracy"] == pytest.approx((called == replaced)[real].mean())
    assert metrics["replaced_rate"] == pytest.approx(replaced[real].mean())
    assert metrics["replaced_precision"] == pytest.approx(replaced[called & real].mean())
    assert metrics["replaced_recall"] == pytest.approx(called[replaced & real].mean())


def test_draws_follow_the_softmax():
    """Chi-square of 40,000 draws from one distribution, of which a class has no probability."""
    logits = np.array([0.0, 2.0, -np.inf, 1.0, -3.0], "float32")
    uniform = np.random.default_rng(5).random(40_000, "float32")
    drawn = replaced_tokens.draw(tf.tile(logits[None], [len(uniform), 1]), uniform).numpy()
    expected = np.exp(logits) / np.exp(logits).sum() * len(uniform)
    counts = np.bincount(drawn, minlength=5)
    assert counts[2] == 0
    possible = expected > 0
    assert ((counts - expected)[possible] ** 2 / expected[possible]).sum() < 16.3  # 1 in 1000
    edges = replaced_tokens.draw(tf.constant([logits, logits]), tf.constant([0, 1 - 2**-24]))
    assert edges.numpy().tolist() == [0, 4]
    nothing = tf.constant([[np.nan, np.nan]])
    assert replaced_tokens.draw(nothing, tf.constant([0.5])).numpy()[0] in (0, 1)


def test_draws_of_the_model_are_uniform():
    """What every slot draws, over many examples and steps, from equal logits."""
    model, logits = build(), tf.zeros([1000, 3, 50])
    drawn = []
    for step in range(4):
        with randomness.draw_at(7, step, 1000):
            drawn.append(model.sample(logits).numpy())
    for slot in range(3):
        counts = np.bincount(np.concatenate(drawn)[:, slot], minlength=50)
        assert ((counts - 80) ** 2 / 80).sum() < 85.4  # 49 degrees of freedom, 1 in 1000
    assert (drawn[0] == drawn[1]).mean() < 0.05
    assert (drawn[0][:, 0] == drawn[0][:, 1]).mean() < 0.06
    plain = [model.sample(logits).numpy() for _ in range(2)]
    assert (plain[0] == plain[1]).mean() < 0.05


def test_what_is_corrupted():
    """Only used slots change; a right guess is original; padding has no weight."""
    model, batch = build(), make_batch()
    outputs = model(batch)
    slots = batch["masked_lm_weights"] > 0
    originals = batch["input_word_ids"].copy()
    for row, slot in zip(*np.nonzero(slots), strict=True):
        originals[row, batch["masked_lm_positions"][row, slot]] = batch["masked_lm_ids"][row, slot]
    corrupted = outputs["corrupted_word_ids"].numpy()
    elsewhere = np.ones_like(corrupted, bool)
    for row, slot in zip(*np.nonzero(slots), strict=True):
        elsewhere[row, batch["masked_lm_positions"][row, slot]] = False
    np.testing.assert_array_equal(corrupted[elsewhere], originals[elsewhere])
    np.testing.assert_array_equal(outputs["replaced_labels"], corrupted != originals)
    assert float(model.loss_weights(batch)["replaced"]) == batch["input_mask"].sum()

    class Right(ReplacedTokens):
        def sample(self, logits):
            return tf.constant(batch["masked_lm_ids"])

    outputs = build(cls=Right)(batch)
    np.testing.assert_array_equal(outputs["corrupted_word_ids"], originals)
    assert not outputs["replaced_labels"].numpy().any()


def test_gradients():
    """Each loss reaches its own model and the shared embeddings, and nothing goes through draws."""
    model, batch = build(), make_batch()
    with tf.GradientTape(persistent=True) as tape:
        sums = model.loss_sums(model(batch, training=True), batch)
    paths = [variable.path for variable in model.trainable_variables]
    assert len(set(paths)) == len(paths)

    def reached(task):
        gradients = tape.gradient(sums[task], [v.value for v in model.trainable_variables])
        return {path for path, gradient in zip(paths, gradients, strict=True)
                if gradient is not None and np.abs(tf.convert_to_tensor(gradient)).max() > 0}

    embeddings = {path for path in paths if path.startswith("electra/embeddings/")}
    own = {path for path in paths if path.startswith("generator")}
    assert embeddings and reached("masked_lm") == embeddings | own
    assert reached("replaced") == set(paths) - own


def test_draws_and_dropout_are_the_same_in_any_batch():
    model, batch = build(TINY), make_batch()

    def outputs(start, stop, step=7):
        with randomness.draw_at(3, step, 100 + start):
            return model(rows(batch, start, stop), training=True)

    whole, parts = outputs(0, 6), [outputs(0, 2), outputs(2, 6)]
    for name in ("corrupted_word_ids", "replaced_logits", "masked_lm_logits"):
        np.testing.assert_allclose(whole[name], np.concatenate([part[name] for part in parts]),
                                   atol=1e-5)
    assert (outputs(0, 6, step=8)["corrupted_word_ids"] != whole["corrupted_word_ids"]
            ).numpy().any()


def test_discriminator_alone(tmp_path):
    """It gives what the whole model's gives, from the same folder; labels come with the batch."""
    model, batch = build(), make_batch()
    model.save_pretrained(str(tmp_path / "model"))
    alone = ReplacedTokens(model.config)
    weights = {variable.path: variable.value for variable in model.trainable_variables}
    assign_variables(alone.trainable_variables, weights, "the whole model")
    outputs = alone(batch)
    assert set(outputs) == {"replaced_logits"} and alone.task_config()["generator"] is None
    np.testing.assert_allclose(outputs["replaced_logits"], model.discriminate(
        {name: batch[name] for name in ("input_word_ids", "input_mask", "input_type_ids")}),
        atol=1e-6)
    labels = {**batch, "replaced_labels": batch["input_word_ids"] % 2}
    logits, real = outputs["replaced_logits"].numpy().astype("float64"), labels["input_mask"]
    losses = np.log1p(np.exp(logits)) - labels["replaced_labels"] * logits
    assert float(alone.loss_sums(outputs, labels)["replaced"]) == pytest.approx(
        (losses * real).sum(), rel=1e-5)


@pytest.mark.long
def test_two_replicas_fit_what_one_fits():
    """With given draws, as those of plain fit differ from replica to replica."""
    class Shifted(ReplacedTokens):
        def sample(self, logits):
            return tf.argmax(logits, -1, output_type=tf.int32) // 2

    fitted = []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            model = build(cls=Shifted)
            model.compile(keras.optimizers.SGD(0.02), run_eagerly=replicas == 1)
        data = tf.data.Dataset.from_tensor_slices(make_batch(64)).batch(16)
        fitted.append((model, model.fit(data, verbose=0).history))
    (one, history), (two, other) = fitted
    for name in ("loss", "masked_lm_accuracy", "replaced_accuracy"):
        np.testing.assert_allclose(history[name], other[name], rtol=1e-4)
    for a, b in zip(one.trainable_variables, two.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_keras_files_keep_everything(tmp_path):
    model = build(dtype="mixed_bfloat16")
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded, batch = keras.saving.load_model(path), make_batch()
    with randomness.draw_at(1, 0, 0):
        want = model(batch)
    with randomness.draw_at(1, 0, 0):
        got = loaded(batch)
    for name, value in want.items():
        assert value.dtype == ("float32" if name.endswith("logits") else "int32")
        np.testing.assert_array_equal(got[name], value)


@pytest.mark.long
def test_keras_exports_both_models(tmp_path):
    model, batch = build(), make_batch()
    model.export(str(tmp_path), verbose=False)
    exported = tf.saved_model.load(str(tmp_path))
    served = exported.serve(
        {name: tf.cast(values, tf.int32) for name, values in batch.items()})
    np.testing.assert_allclose(served["masked_lm_logits"], model(batch)["masked_lm_logits"],
                               atol=1e-5)
    replaced = {"input_word_ids": served["corrupted_word_ids"],
                **{name: tf.constant(batch[name])
                   for name in ("input_mask", "input_type_ids")}}
    np.testing.assert_allclose(served["replaced_logits"], model.discriminate(replaced), atol=1e-5)


def test_a_generator_that_does_not_fit_is_refused():
    with pytest.raises(UsageError, match=r"the generator's vocab_size=60; expected .* 50"):
        ReplacedTokens(TINY, generator_config(TINY).replace(vocab_size=60))
