"""The input stream is a function of seed and position, whatever the replicas and restarts."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored

from bert_tf.config import ModelConfig
from bert_tf.data.pretraining_input import (
    PretrainingInput,
    examples_per_batch,
    shuffled,
)
from bert_tf.errors import UsageError
from bert_tf.tasks.pretraining.language_model import LanguageModel
from bert_tf.tasks.pretraining.masked_lm import Pretrainer


def _batches(data, **arguments):
    return [{name: value.numpy() for name, value in batch.items()}
            for batch in data.dataset(**arguments)]


def _same(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def _texts(batch):
    """The unmasked token sequences of a batch."""
    ids = batch["input_word_ids"].copy()
    for row, positions, labels, weights in zip(ids, batch["masked_lm_positions"],
                                               batch["masked_lm_ids"], batch["masked_lm_weights"],
                                               strict=True):
        row[positions[weights > 0]] = labels[weights > 0]
    return [tuple(row) for row in ids]


def test_shapes_and_types(dynamic):
    data = PretrainingInput(dynamic[0], "train", batch_size=8, seed=1)
    spec = data.dataset(num_replicas=2).element_spec
    int_sequence = tf.TensorSpec([4, 32], tf.int32)
    int_prediction = tf.TensorSpec([4, 6], tf.int32)
    assert spec == {
        "input_word_ids": int_sequence, "input_mask": int_sequence,
        "input_type_ids": int_sequence, "masked_lm_positions": int_prediction,
        "masked_lm_ids": int_prediction, "masked_lm_weights": tf.TensorSpec([4, 6], tf.float32),
        "next_sentence_labels": tf.TensorSpec([4], tf.int32),
        "first_example": tf.TensorSpec([], tf.int64)}


@pytest.mark.parametrize("kind", ["dynamic", pytest.param("static", marks=pytest.mark.long)])
def test_restart_and_replicas(kind, request):
    folder, _ = request.getfixturevalue(kind)
    data = PretrainingInput(folder, "train", batch_size=8, seed=1)
    steps = 2 * data.num_examples // 8 + 3
    whole = _batches(data, num_steps=steps)
    _same(_batches(data, start_step=steps - 5, num_steps=5), whole[-5:])
    replicas = _batches(data, num_replicas=4, replicas=range(4), start_step=3, num_steps=2)
    assert [int(batch["first_example"]) for batch in replicas] == list(range(24, 40, 2))
    for step in range(2):
        part = replicas[4 * step:4 * step + 4]
        for name, value in whole[3 + step].items():
            if name != "first_example":
                joined = np.concatenate([batch[name] for batch in part])
                np.testing.assert_array_equal(joined, value, err_msg=name)
    _same(_batches(data, num_replicas=4, replicas=[2, 3], start_step=3, num_steps=2),
          replicas[2:4] + replicas[6:8])


def test_the_fraction_of_masks_falls_with_the_step(make):
    """By NumPy's rounding of the fraction of the step; the same whatever went before it."""
    folder, _ = make(holdout=0.2, whole_word=False, masked_lm_prob=0.3, max_predictions_per_seq=10)
    options = {"batch_size": 8, "seed": 1, "final_masked_lm_prob": 0.1, "train_steps": 11}
    data = PretrainingInput(folder, "train", **options)
    batches = _batches(data, num_steps=13)
    for step, batch in enumerate(batches):
        fraction = 0.3 + (0.1 - 0.3) * min(step / 10, 1)
        np.testing.assert_array_equal(
            batch["masked_lm_weights"].sum(1),
            np.maximum(np.round(batch["input_mask"].sum(1) * fraction), 1), err_msg=step)
    _same(_batches(data, start_step=7, num_steps=2), batches[7:9])
    (second,) = _batches(data, num_replicas=2, replicas=[1], start_step=7, num_steps=1)
    np.testing.assert_array_equal(second["masked_lm_ids"], batches[7]["masked_lm_ids"][4:])
    held_out = PretrainingInput(folder, "eval", **options)
    for batch in _batches(held_out):
        real = batch["example_weights"] > 0
        np.testing.assert_array_equal(
            batch["masked_lm_weights"].sum(1)[real],
            np.maximum(np.round(batch["input_mask"].sum(1)[real] * 0.1), 1))
    rising = PretrainingInput(folder, "eval", **{**options, "final_masked_lm_prob": 0.5})
    batch = _batches(rising)[0]  # more than the 10 of the folder
    np.testing.assert_array_equal(batch["masked_lm_weights"].sum(1),
                                  np.round(batch["input_mask"].sum(1) * 0.5))
    capped = PretrainingInput(folder, "eval", max_predictions_per_seq=10, **{
        **options, "final_masked_lm_prob": 0.5})
    np.testing.assert_array_equal(
        _batches(capped)[0]["masked_lm_weights"].sum(1),
        np.minimum(np.round(batch["input_mask"].sum(1) * 0.5), 10))


def test_some_rows_are_read_left_to_right(dynamic):
    """They hold the text as it is, and predict at the position before what a masked row would."""
    folder, options = dynamic[0], {"batch_size": 8, "seed": 1}
    data = PretrainingInput(folder, "train", causal_fraction=0.25, **options)
    masked = _batches(PretrainingInput(folder, "train", **options), num_steps=40)
    batches, seen = _batches(data, num_steps=40), 0
    for before, batch in zip(masked, batches, strict=True):
        rows = batch["causal_rows"] == 1
        seen += rows.sum()
        for name, value in before.items():
            if name not in ("input_word_ids", "masked_lm_positions"):
                np.testing.assert_array_equal(batch[name], value, err_msg=name)
            elif name != "masked_lm_positions":
                np.testing.assert_array_equal(batch[name][~rows], value[~rows], err_msg=name)
        texts, real = np.array(_texts(before)), before["masked_lm_weights"] > 0
        np.testing.assert_array_equal(batch["input_word_ids"][rows], texts[rows])
        np.testing.assert_array_equal(
            batch["masked_lm_positions"],
            before["masked_lm_positions"] - (rows[:, np.newaxis] & real))
    assert 50 < seen < 110  # of 320, by chance 80
    _same(_batches(data, num_replicas=2, replicas=[0, 1], start_step=39, num_steps=1)[1:], [
        {name: value[4:] if value.ndim else value + 4 for name, value in batches[39].items()}])
    held_out = _batches(PretrainingInput(folder, "eval", causal_fraction=0.25, **options))
    _same(held_out, _batches(PretrainingInput(folder, "eval", **options)))
    for wrong, message in (({"objective": "rtd"}, "with objective='rtd'; expected dynamic masks"),
                           ({"objective": "lm"}, "with objective='lm'")):
        with pytest.raises(UsageError, match=message):
            PretrainingInput(folder, "train", causal_fraction=0.25, **options, **wrong)


def test_each_epoch_holds_each_example_once_in_another_order_with_other_masks(dynamic):
    data = PretrainingInput(dynamic[0], "train", batch_size=1, seed=1)
    count = data.num_examples
    batches = _batches(data, num_steps=2 * count)
    texts = [_texts(batch)[0] for batch in batches]
    first, second = texts[:count], texts[count:]
    assert collections.Counter(first) == collections.Counter(second) and first != second
    masked = {True: 0, False: 0}
    for text, batch in zip(first, batches, strict=False):
        again = batches[count + second.index(text)]
        masked[(batch["input_word_ids"] == again["input_word_ids"]).all()] += 1
    assert masked[False] > 5 * masked[True]
    other = PretrainingInput(dynamic[0], "train", batch_size=1, seed=2)
    assert [_texts(batch)[0] for batch in _batches(other, num_steps=count)] != first


@pytest.mark.parametrize("count", [1, 2, 3, 100, 257, 65_536, 65_537, 262_145])
def test_an_epoch_is_a_permutation(count):
    orders = shuffled(tf.range(3 * count, dtype=tf.int64), count, 7).numpy().reshape(3, count)
    np.testing.assert_array_equal(np.sort(orders), np.tile(np.arange(count), (3, 1)))
    assert count < 100 or len(np.unique(orders, axis=0)) == 3


@pytest.mark.parametrize("count", [37_123, 1_000_000, 2**33])
def test_a_batch_comes_from_all_over_the_examples(count):
    """Means of 32 uniform numbers scatter by 0.289 / sqrt(32); epochs have nothing in common."""
    first, second = (shuffled(start + tf.range(2**15, dtype=tf.int64), count, 7).numpy() / count
                     for start in (0, count))
    assert abs(first.reshape(-1, 32).mean(1).std() / 0.051 - 1) < 0.1
    assert abs(np.abs(np.diff(first)).mean() - 1 / 3) < 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_eval_covers_each_example_once(kind, request):
    folder, made = request.getfixturevalue(kind)
    data = PretrainingInput(folder, "eval", batch_size=4, seed=1)
    assert data.num_examples == made["splits"]["eval"]["num_examples"]
    batches = _batches(data)
    weights = np.concatenate([batch["example_weights"] for batch in batches])
    assert len(weights) == -(-data.num_examples // 4) * 4
    np.testing.assert_array_equal(weights, np.arange(len(weights)) < data.num_examples)
    for batch in batches:
        assert not batch["masked_lm_weights"][batch["example_weights"] == 0].any()
    if kind == "dynamic":
        single = PretrainingInput(folder, "eval", batch_size=1, seed=1)
        expected = [_texts(batch)[0] for batch in _batches(single)]
        assert [text for batch in batches for text in _texts(batch)][:len(expected)] == expected
    _same(_batches(data), batches)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_whole_text_for_language_models(dynamic, split):
    plain, masked = (_batches(PretrainingInput(dynamic[0], split, batch_size=4, seed=1,
                                               objective=objective), num_steps=3)
                     for objective in ("lm", None))
    expected = {"input_word_ids", "input_mask", "input_type_ids", "next_sentence_labels",
                "first_example"} | ({"example_weights"} if split == "eval" else set())
    for whole, other in zip(plain, masked, strict=True):
        assert set(whole) == expected
        assert [tuple(row) for row in whole["input_word_ids"]] == _texts(other)
        for name in expected - {"input_word_ids"}:
            np.testing.assert_array_equal(whole[name], other[name])


def test_masks_for_replaced_token_detection(dynamic):
    data = PretrainingInput(dynamic[0], "eval", batch_size=50, seed=1, objective="rtd",
                            eval_examples=2000)
    batches = _batches(data)
    _same(_batches(data), batches)
    columns = {name: np.concatenate([batch[name] for batch in batches])
               for name in ("input_word_ids", "masked_lm_positions", "masked_lm_ids",
                            "masked_lm_weights")}
    real = columns["masked_lm_weights"] > 0
    seen = np.take_along_axis(columns["input_word_ids"], columns["masked_lm_positions"], 1)[real]
    is_mask = seen == dynamic[1]["vocabulary"]["mask_id"]
    assert abs(is_mask.mean() - 0.85) < 0.02
    np.testing.assert_array_equal(seen[~is_mask], columns["masked_lm_ids"][real][~is_mask])


@pytest.mark.parametrize("masking", ["dynamic", "static"])
def test_labels_of_swapped_pairs(make, masking):
    folder, made = make(pairs="swapped", masking=masking, dupe_factor=1)
    facts = made["splits"]["train"]
    data = PretrainingInput(folder, "train", batch_size=facts["num_examples"], seed=1)
    batch, = _batches(data, num_steps=1)
    assert "next_sentence_labels" not in batch
    assert batch["sentence_order_labels"].dtype == np.int32
    assert batch["sentence_order_labels"].mean() == facts["swapped"]


def test_forms_without_labels(make):
    folder, made = make(format="full_sentences")
    data = PretrainingInput(folder, "train", batch_size=2, seed=1)
    assert "next_sentence_labels" not in data.dataset().element_spec
    assert made["pair_labels"] is None
    batch = _batches(data, num_steps=1)[0]
    assert not batch["input_type_ids"].any()


def test_examples_per_batch(dynamic):
    _, made = dynamic
    mean = made["splits"]["train"]["mean_tokens"]
    assert examples_per_batch(made, 40 * mean) == 40
    assert examples_per_batch(made, 41 * mean, multiple=4) == 40
    assert examples_per_batch(made, 1, multiple=3) == 3


def _model(task, manifest, **config):
    config = ModelConfig.from_dict({
        "vocab_size": manifest["vocabulary"]["size"], "hidden_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32,
        "attention": "causal" if task is LanguageModel else "bidirectional", **config})
    return task(config, seed=1)


@pytest.mark.long
@pytest.mark.parametrize(("task", "objective"), [(Pretrainer, None), (LanguageModel, "lm")])
def test_fit_takes_it(task, objective, dynamic):
    train, dev = (PretrainingInput(dynamic[0], split, batch_size=8, seed=1, objective=objective)
                  for split in ("train", "eval"))
    model = _model(task, dynamic[1])
    model.compile(keras.optimizers.Adam(3e-3))
    history = model.fit(train, validation_data=dev, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert model.optimizer.iterations.numpy() == 3 * train.steps_per_epoch
    assert train.steps_per_epoch == -(-train.num_examples // 8)
    np.testing.assert_allclose(model.evaluate(dev, verbose=0, return_dict=True)["loss"],
                               history["val_loss"][-1], rtol=1e-5)
    _same(*([{name: value.numpy() for name, value in batch.items()} for batch in data.take(2)]
            for data in (train.for_fit(6), train.for_fit().skip(6))))


def test_what_is_without_end_is_evaluated_for_an_epoch(dynamic, monkeypatch):
    train = PretrainingInput(dynamic[0], "train", batch_size=32, seed=1)
    given = []
    monkeypatch.setattr(keras.Model, "evaluate", lambda self, x, y: given.append(x))
    monkeypatch.setattr(keras.Model, "fit", lambda self, x, y, validation_data, **_: (
        given.append(validation_data)))
    model = _model(Pretrainer, dynamic[1])
    model.evaluate(train)
    model.fit(train, validation_data=train)
    for data in given:
        assert sum(1 for _ in data.take(train.steps_per_epoch + 1)) == train.steps_per_epoch


@pytest.mark.parametrize("steps", [None, 3])
def test_fit_from_a_later_epoch_goes_on_with_its_examples(dynamic, monkeypatch, steps):
    train = PretrainingInput(dynamic[0], "train", batch_size=32, seed=1)
    starts = []
    monkeypatch.setattr(PretrainingInput, "for_fit", lambda self, start, num: starts.append(start))
    monkeypatch.setattr(keras.Model, "fit", lambda *_, **__: None)
    _model(Pretrainer, dynamic[1]).fit(train, initial_epoch=2, epochs=3, steps_per_epoch=steps)
    assert starts == [2 * (steps or train.steps_per_epoch)]


def test_fit_from_a_backup_goes_on_with_its_examples(dynamic, monkeypatch, tmp_path):
    train = PretrainingInput(dynamic[0], "train", batch_size=32, seed=1)
    model, starts = _model(Pretrainer, dynamic[1]), []
    model.compile("sgd")
    backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    backup.set_model(model)
    backup.on_epoch_end(1)  # the second
    monkeypatch.setattr(PretrainingInput, "for_fit", lambda self, start, num: starts.append(start))
    monkeypatch.setattr(keras.Model, "fit", lambda *_, **__: None)
    again = _model(Pretrainer, dynamic[1])
    again.compile("sgd")
    again.fit(train, epochs=3, callbacks=[backup])
    assert starts == [2 * train.steps_per_epoch]


@pytest.mark.long
def test_fit_on_two_replicas_gives_what_one_gives(dynamic):
    train = PretrainingInput(dynamic[0], "train", batch_size=8, seed=1)
    losses = []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            model = _model(Pretrainer, dynamic[1])
            model.compile(keras.optimizers.SGD(0.1))
        losses.append(model.fit(train, epochs=2, steps_per_epoch=3, verbose=0).history["loss"])
    # Dropout is drawn anew.
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.02)


@pytest.mark.parametrize(("rows", "config", "message"), [
    (-1, {}, "a vocabulary of {0} tokens; expected at most {1}"),
    (0, {"family": "roberta", "padding_id": 1}, "padded with id 0, .* padding_id=1; .*=0$")])
def test_fit_refuses_examples_of_another_vocabulary(dynamic, rows, config, message):
    train = PretrainingInput(dynamic[0], "train", batch_size=8, seed=1)
    size = dynamic[1]["vocabulary"]["size"]
    model = _model(Pretrainer, {"vocabulary": {"size": size + rows}}, **config)
    model.compile("adam")
    with pytest.raises(UsageError, match=message.format(size, size + rows)):
        model.fit(train)


def test_fit_takes_examples_of_fewer_tokens_than_the_table_has_rows(dynamic):
    train = PretrainingInput(dynamic[0], "train", batch_size=8, seed=1)
    size = dynamic[1]["vocabulary"]["size"]
    model = _model(Pretrainer, {"vocabulary": {"size": size + 6}})
    model.compile("sgd", run_eagerly=True)
    assert np.isfinite(model.fit(train, steps_per_epoch=1, verbose=0).history["loss"]).all()
