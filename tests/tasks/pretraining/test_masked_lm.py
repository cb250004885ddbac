"""Accounting, fit with and without replicas, compute types, and saving."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf import randomness
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.tasks.pretraining.masked_lm import Pretrainer

TINY = ModelConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=32, max_position_embeddings=12)
STILL = TINY.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                     initializer_range=0.2)


def make_batch(size=6, length=9, predictions=4, seed=0):
    """Sequences whose masked tokens repeat the first one, which also tells the next sentence."""
    random = np.random.default_rng(seed)
    words = random.integers(5, 50, (size, length)).astype("int32")
    words[:, 0] = random.integers(5, 9, size)
    counts = random.integers(1, predictions + 1, (size, 1))
    weights = (np.arange(predictions) < counts).astype("float32")
    return {"input_word_ids": words, "input_mask": np.ones_like(words),
            "input_type_ids": np.zeros_like(words),
            "masked_lm_positions": np.where(weights, np.arange(1, predictions + 1), 0
                                            ).astype("int32"),
            "masked_lm_ids": np.where(weights, words[:, :1], 0).astype("int32"),
            "masked_lm_weights": weights,
            "next_sentence_labels": (words[:, 0] % 2).astype("int32")}


def rows(batch, start, stop):
    return {name: value[start:stop] for name, value in batch.items()}


def test_accounting_against_numpy():
    model, batch = Pretrainer(TINY, seed=1), make_batch()
    batch["example_weights"] = np.array([1, 1, 0, 1, 1, 0], "float32")
    outputs = model(batch)
    weights = batch["masked_lm_weights"] * batch["example_weights"][:, None]
    logits = outputs["masked_lm_logits"].numpy().astype("float64")
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, batch["masked_lm_ids"][..., None], -1)[..., 0]
    sums = model.loss_sums(outputs, batch)
    assert set(sums) == {"masked_lm", "next_sentence"}
    np.testing.assert_allclose(sums["masked_lm"], (losses * weights).sum(), rtol=1e-5)
    counts = model.loss_weights(batch)
    assert float(counts["masked_lm"]) == weights.sum() and float(counts["next_sentence"]) == 4
    right, total = model.metric_sums(outputs, batch)["masked_lm_accuracy"]
    assert float(right) == ((logits.argmax(-1) == batch["masked_lm_ids"]) * weights).sum()
    assert float(total) == weights.sum()
    assert all(value.dtype == tf.float32 for value in [*sums.values(), *counts.values()])


@pytest.mark.parametrize("config", [
    STILL, pytest.param(STILL.replace(
        num_hidden_layers=2, global_attention_every=2, local_attention=2,
        max_position_embeddings=100), id="in_windows")])
def test_some_rows_are_read_left_to_right(config):
    """As a model whose attention is causal reads them."""
    batch = make_batch(length=100 if config.local_attention else 9)
    batch["input_mask"][1, 7:] = 0
    both, left = (Pretrainer(each, None, seed=1) for each in (
        config, config.replace(attention="causal")))
    expected, causal = (model(batch)["masked_lm_logits"].numpy() for model in (both, left))
    assert np.abs(expected - causal).max() > 0.01
    expected[[1, 4]] = causal[[1, 4]]
    found = both({**batch, "causal_rows": np.array([0, 1, 0, 0, 1, 0])})["masked_lm_logits"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(UsageError, match="causal_rows with a BiLSTM"):
        Pretrainer(config.replace(bilstm=True))({**batch, "causal_rows": np.ones(6, int)})


def test_weights_beside_the_batch(eager):
    model, batch = Pretrainer(STILL, seed=1), make_batch()
    model.compile("sgd")
    weights = np.array([1, 1, 0, 1, 1, 0], "float32")
    expected = model.evaluate({**batch, "example_weights": weights}, verbose=0)
    assert model.evaluate(batch, sample_weight=weights, verbose=0) == expected
    data = tf.data.Dataset.from_tensors((batch, np.zeros(6), weights))
    assert model.evaluate(data, verbose=0) == expected


def test_sums_of_parts_are_the_sums_of_the_whole():
    model, batch = Pretrainer(STILL, seed=1), make_batch()

    def sums(part):
        outputs = model(part)
        return [*model.loss_sums(outputs, part).values(), *model.loss_weights(part).values()]

    parts = np.add(sums(rows(batch, 0, 2)), sums(rows(batch, 2, 6)))
    np.testing.assert_allclose(sums(batch), parts, rtol=1e-5)


def test_without_next_sentence():
    model, batch = Pretrainer(TINY, None), make_batch()
    del batch["next_sentence_labels"]
    outputs = model(batch)
    assert set(outputs) == {"masked_lm_logits"} and set(model.loss_weights(batch)) == {"masked_lm"}
    assert not any("seq_relationship" in variable.path for variable in model.variables)


def fitted(replicas, policy="float32", config=STILL, epochs=1,
           make_optimizer=lambda: keras.optimizers.SGD(0.1)):
    """A Pretrainer after `fit` on 16 batches of 8, and its history."""
    with mirrored(replicas).scope():
        model = Pretrainer(config, dtype=policy, seed=2)
        model.compile(make_optimizer())
    data = tf.data.Dataset.from_tensor_slices(make_batch(128)).batch(8)
    return model, model.fit(data, epochs=epochs, verbose=0).history


@pytest.mark.long
def test_two_replicas_fit_what_one_fits():
    one, history = fitted(1)
    two, other = fitted(2)
    start = Pretrainer(STILL, seed=2)
    np.testing.assert_allclose(history["loss"], other["loss"], atol=1e-5)
    np.testing.assert_allclose(history["masked_lm_accuracy"], other["masked_lm_accuracy"],
                               atol=1e-5)
    moved = 0
    for a, b, c in zip(one.trainable_variables, two.trainable_variables,
                       start.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
        moved = max(moved, np.abs(a.numpy() - c.numpy()).max())
    assert moved > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_fit_learns_and_keras_files_keep_everything(policy, tmp_path):
    def optimizer():
        inner = keras.optimizers.Adam(0.01)
        if policy == "mixed_bfloat16":
            return inner
        # Keras looks for an overflow on the first replica only: start where there is none.
        return keras.optimizers.LossScaleOptimizer(inner, initial_scale=1024.0)

    model, history = fitted(2, policy, TINY.replace(initializer_range=0.2), 5, optimizer)
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)
    got, want = loaded(make_batch()), model(make_batch())
    for name in want:
        assert got[name].dtype == "float32"
        np.testing.assert_array_equal(got[name], want[name])
    assert [v.path for v in loaded.trainable_variables] == [
        v.path for v in model.trainable_variables]
    data = tf.data.Dataset.from_tensor_slices(make_batch(16)).batch(8)
    np.testing.assert_allclose(loaded.evaluate(data, verbose=0, return_dict=True)["loss"],
                               model.evaluate(data, verbose=0, return_dict=True)["loss"],
                               rtol=1e-4)


def test_dropout_of_an_example_is_the_same_in_any_batch():
    model, batch = Pretrainer(TINY, seed=1), make_batch()

    def logits(start, stop, step=7):
        with randomness.draw_at(3, step, 100 + start):
            return model(rows(batch, start, stop), training=True)["masked_lm_logits"].numpy()

    whole = logits(0, 6)
    np.testing.assert_allclose(whole, np.concatenate([logits(0, 2), logits(2, 6)]), atol=1e-5)
    assert np.abs(whole - logits(0, 6, step=8)).max() > 1e-3
    assert np.abs(whole - model(batch)["masked_lm_logits"]).max() > 1e-3
