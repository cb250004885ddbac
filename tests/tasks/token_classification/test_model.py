"""A tagger that takes text: fit, tags and entities, files; with features of a frozen encoder."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from seqeval.metrics.sequence_labeling import get_entities
from text_models import CONFIG, VOCABULARY, pack_words

from bert_tf.errors import UsageError
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer

LABELS = ["O", "B-V", "I-V", "B-C"]
FEATURES = {"layers": [0, -1], "combine": "weighted_sum", "lstm_size": 8}


def tagger(seq_length=16, unit="word", **options):
    preprocessor = WordPreprocessor(Tokenizer(VOCABULARY), seq_length, unit)
    return TokenClassifier(CONFIG, LABELS, seed=2, **{"preprocessor": preprocessor, **options})


def tags_of(words):
    tags = []
    for word in words:
        before = tags[-1] if tags else "O"
        inside = word in "ae" and before[-1] == "V"
        tags.append("I-V" if inside else "B-V" if word in "ae" else "B-C" if word == "c" else "O")
    return tags


def make_data(size=64, seed=0):
    """Texts, their words, and label ids `[size, most words]`."""
    random = np.random.default_rng(seed)
    rows = [list(random.choice(list("abcdefgh"), random.integers(1, 9))) for _ in range(size)]
    ids = np.full((size, max(map(len, rows))), -1, np.int32)
    for row, words in zip(ids, rows, strict=True):
        row[:len(words)] = [LABELS.index(tag) for tag in tags_of(words)]
    return [" ".join(row) for row in rows], rows, ids


def dataset(texts, ids, size=16):
    parts = [(texts[i:i + size], ids[i:i + size]) for i in range(0, len(texts), size)]
    parts = [(part, ids[:, :max(len(text.split()) for text in part)]) for part, ids in parts]
    return tf.data.Dataset.from_generator(
        lambda: iter(parts), output_signature=(tf.TensorSpec([None], tf.string),
                                               tf.TensorSpec([None, None], tf.int32)))


def test_logits_of_words_are_those_of_their_tokens():
    texts, rows, _ = make_data(5)
    model = tagger()
    by_ids = model(pack_words(rows)).numpy()
    by_text = model(tf.constant(texts)).numpy()
    assert by_text.shape == (5, max(map(len, rows)), len(LABELS))
    for row, words in enumerate(rows):
        np.testing.assert_allclose(by_text[row, :len(words)], by_ids[row, 1:len(words) + 1],
                                   atol=1e-5)
        assert not by_text[row, len(words):].any()


@pytest.mark.long
def test_fit_on_text_and_tag():
    texts, rows, ids = make_data(256)
    model = tagger()
    model.compile(keras.optimizers.Adam(0.02))
    history = model.fit(dataset(texts, ids), epochs=6, verbose=0).history
    assert history["tagger_accuracy"][-1] > 0.98
    texts, rows, _ = make_data(20, seed=1)
    told = model.tag(texts + [""])
    assert told[-1] == {"units": [], "entities": []}
    right = 0
    for text, words, one in zip(texts, rows, told, strict=False):
        right += [unit["label"] for unit in one["units"]] == tags_of(words)
        assert [unit["text"] for unit in one["units"]] == words
        for each in one["units"] + one["entities"]:
            assert text[each["start"]:each["end"]] == each["text"]
            assert 0 < each["score"] <= 1
        units = one["units"]
        assert [(each["label"], each["start"], each["end"]) for each in one["entities"]] == [
            (kind, units[first]["start"], units[last]["end"])
            for kind, first, last in get_entities([unit["label"] for unit in units])]
    assert right >= 18


def test_a_long_text_has_a_tag_for_every_word():
    (one,) = tagger(7).tag(["a b. good " * 30])
    assert len(one["units"]) == 120


def test_batches_change_nothing(eager):
    texts, _, _ = make_data(7)
    model = tagger(6)
    for one, other in zip(model.tag(texts), model.tag(texts, batch_size=2), strict=True):
        for each, same in zip(one["units"], other["units"], strict=True):
            assert each == {**same, "score": pytest.approx(same["score"], abs=1e-5)}


@pytest.mark.parametrize(("unit", "features"), [
    pytest.param("word", None, marks=pytest.mark.long), ("character", FEATURES)])
def test_files_bring_the_reader_back(unit, features, tmp_path, eager):
    model = tagger(9, unit, features=features)
    texts = ["a bad. c", "가 a"]
    expected = model.tag(texts)
    path = str(tmp_path / "model.keras")
    model.save(path)
    assert keras.saving.load_model(path).tag(texts) == expected
    model.save_pretrained(str(tmp_path / "model"))
    assert from_pretrained(str(tmp_path / "model")).tag(texts) == expected
    told = json.loads((tmp_path / "model" / "task.json").read_text())
    assert told["reading"] == {"seq_length": 9, "unit": unit, "stride": 4}
    assert told.get("features") == (features and {**features, "layers": [0, 1]})


def test_without_a_reader():
    with pytest.raises(UsageError,
                       match=r"was given text and has no preprocessor; .*WordPreprocessor"):
        tagger(preprocessor=None).tag(["a"])


def test_labels_of_another_number_than_words(eager):
    texts, _, ids = make_data(4)
    model = tagger()
    model.compile("sgd")
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label for each token"):
        model.fit(tf.constant(texts), ids[:, :-1], verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label for each token"):
        model.fit(tf.constant(texts), np.pad(ids, [(0, 0), (0, 1)]), verbose=0)
    with pytest.raises(UsageError, match="a label for each token"):
        model.fit(tf.constant(texts), ids[:, 0], verbose=0)


def test_labels_as_wide_as_the_longest_text_of_all(eager):
    """Which the texts of a batch may all be shorter than."""
    texts, _, ids = make_data(4)
    model = tagger()
    model.compile(keras.optimizers.SGD(0.0))
    expected = model.evaluate(tf.constant(texts), ids, verbose=0)
    wide = np.pad(ids, [(0, 0), (0, 2)], constant_values=-1)
    for weights in ((), (np.ones(4),), (np.ones(wide.shape),)):
        np.testing.assert_allclose(model.evaluate(tf.constant(texts), wide, None, 0, *weights),
                                   expected, rtol=1e-6)
    named = model.evaluate(tf.constant(texts), {"label_ids": wide}, None, 0,
                           {"label_ids": np.ones(wide.shape)})
    np.testing.assert_allclose(named, expected, rtol=1e-6)


def test_losses_and_metrics_of_keras_are_those_of_the_model(eager):
    """Of text in batches that are all narrower than the labels, and of ids."""
    texts, rows, ids = make_data(4)
    wide = np.pad(ids, [(0, 0), (0, 2)], constant_values=-1)
    packed = pack_words(rows)
    of_ids = np.pad(ids, [(0, 0), (1, 1)], constant_values=-1)
    for given in ((tf.constant(texts), wide), (packed, of_ids), (
            packed, of_ids, np.full(4, 1.0))):
        told = []
        for loss in (None, "keras"):
            model = tagger()
            model.compile(keras.optimizers.SGD(0.1), loss and keras.losses.
                          SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
                          metrics=["accuracy"], weighted_metrics=["acc"])
            told.append([model.train_on_batch(*given, return_dict=True) for _ in "12"][-1])
        own, of_keras = told
        assert own["loss"] == pytest.approx(of_keras["loss"], rel=1e-5)
        accuracies = [own.pop("tagger_accuracy"), own["accuracy"], own["acc"],
                      of_keras["accuracy"], of_keras["acc"]]
        np.testing.assert_allclose(accuracies, accuracies[0], rtol=1e-6)
    assert np.isfinite(model.train_on_batch(packed, np.full_like(of_ids, -1))).all()


@pytest.mark.long
def test_a_changed_head_or_other_features_begin_anew(tmp_path):
    folder = str(tmp_path / "model")
    tagger(features=FEATURES).save_pretrained(folder)
    same = from_pretrained(folder, features=FEATURES)
    assert same.fresh_variables == ()
    for options in ({"features": {**FEATURES, "lstm_size": 4}}, {"features": None},
                    {"labels": ["x", "y"]}):
        model = from_pretrained(folder, **options)
        heads = [variable.path for variable in model.weights if variable.path.startswith("cls/")]
        assert set(model.fresh_variables) == set(heads)
        assert (model.feature_lstm is None) == (options.get("features", 0) is None)
    other = from_pretrained(folder, "classifier", labels=["x", "y"], features=FEATURES)
    assert "cls/features/mix/scale" in other.fresh_variables
