"""The signature `answer` against the Keras model and Python's own slices."""

import functools
import json
import os

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import (
    SEQ_LENGTH,
    Traced,
    config_of,
    own_signatures,
    sentence_piece,
    word_piece,
)

from bert_tf.errors import BertTfError
from bert_tf.saved_model import verify as verifying
from bert_tf.saved_model.save import export_saved_model
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import signatures, unanswered
from bert_tf.storage import files
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tasks.question_answering.signature import clear_decisions

QUESTIONS = ["the dog ?", "", "안녕", "fox fox " * 20, "a"]
CONTEXTS = ["The quick brown fox jumps over the lazy dog. " * 6, "a café", "안녕하세요 ㅋㅋ 😀!",
            "", "cafe\u0301, fox"]


def test_answers_are_those_of_the_keras_model(exported):
    export = exported("span")
    answer = export.call("answer", question=QUESTIONS, context=CONTEXTS)
    for name, expected in export.model.answer_tensors(QUESTIONS, CONTEXTS).items():
        if expected.dtype.is_floating:
            np.testing.assert_allclose(answer[name], expected, atol=1e-4)
        else:
            np.testing.assert_array_equal(answer[name], expected)
    assert answer["answers"].shape == (5, 4)
    found = 0
    for row, context in enumerate(CONTEXTS):
        for text, start, end in zip(answer["answers"][row], answer["starts"][row],
                                    answer["ends"][row], strict=True):
            assert context[start:end] == text.decode()
            found += bool(text)
    for one, several in (("answer", "answers"), ("score", "scores"), ("start", "starts"),
                         ("end", "ends")):
        nothing = np.zeros_like(answer[several][:, 0]) if one != "answer" else b""
        np.testing.assert_array_equal(
            answer[one], np.where(answer["has_answer"], answer[several][:, 0], nothing))
    assert found >= 12 and not answer["answers"][3].any() and not answer["has_answer"][3]


def test_the_options_of_the_model_are_served(exported):
    export = exported("span")
    extra = os.path.join(export.version, "assets.extra")
    task = files.read_json(os.path.join(extra, "task.json"))
    assert task["reading"] == {"seq_length": SEQ_LENGTH, "doc_stride": 4,
                               "max_query_length": 6}
    assert (task["n_best"], task["max_answer_length"], task["null_threshold"]) == (4, 5, -0.5)
    answer = export.call("answer", question=QUESTIONS, context=CONTEXTS)
    some = answer["answers"][:, 0] != b""
    np.testing.assert_array_equal(answer["has_answer"], some & (answer["no_answer_score"] <= -0.5))


@pytest.mark.long
def test_a_shorter_window_may_be_chosen(exported):
    export = exported("span")
    answer = Traced(export.folder, seq_length=8)("answer", question=QUESTIONS, context=CONTEXTS)
    model = from_pretrained(export.folder)
    model.preprocessor = QuestionPreprocessor(model.preprocessor.tokenizer, 8, 4, 4)
    for name, expected in model.answer_tensors(QUESTIONS, CONTEXTS).items():
        compare = (np.testing.assert_array_equal if not expected.dtype.is_floating
                   else functools.partial(np.testing.assert_allclose, atol=1e-4))
        compare(answer[name], expected)


def test_sentence_piece_answers_too(tmp_path):
    tokenizer = sentence_piece()
    QuestionAnswering(config_of(tokenizer), seed=1).save_pretrained(str(tmp_path / "model"),
                                                                    tokenizer)
    served = load_served(str(tmp_path / "model"))
    assert "answer" in signatures(served) and unanswered(served) == []
    context = "a the quick brown fox"
    answer = signatures(served)["answer"].function(served, tf.constant(["fox"]),
                                                   tf.constant([context]))
    for text, start, end in zip(*(answer[name].numpy()[0] for name in (
            "answers", "starts", "ends")), strict=True):
        assert context[start:end] == text.decode()


def test_a_model_without_a_reader_reads_windows_of_its_length(tmp_path):
    tokenizer = word_piece()
    QuestionAnswering(config_of(tokenizer), seed=1).save_pretrained(str(tmp_path / "model"),
                                                                    tokenizer)
    served = load_served(str(tmp_path / "model"))
    answer = signatures(served)["answer"].function(
        served, tf.constant(["fox"]), tf.constant(["a the quick " * 20]))
    assert answer["answers"].shape == (1, 20) and bool(answer["has_answer"][0])


@pytest.mark.parametrize(("output", "damage"), [
    ("answers", lambda value: np.full_like(value, b"fox")), ("scores", lambda value: value + 0.1),
    *(pytest.param(*values, marks=pytest.mark.long) for values in (
        ("answer", lambda value: value + b" "), ("has_answer", np.logical_not),
        ("starts", lambda value: value + 1)))])
def test_another_answer_is_not_published(exported, monkeypatch, output, damage):
    export = exported("span")
    served = load_served(export.folder)

    class Reloaded:
        signatures = dict(export.call.signatures)

    right = Reloaded.signatures["answer"]

    def wrong(**inputs):
        answer = right(**inputs)
        return {**answer, output: damage(answer[output].numpy())}

    wrong.graph = right.graph
    Reloaded.signatures["answer"] = wrong
    monkeypatch.setattr(tf.saved_model, "load", lambda _: Reloaded)
    with own_signatures("span"), pytest.raises(
            BertTfError, match=f"different `{output}` for the signature `answer`"):
        verifying.verify(served, export.version, 1e-4)


def test_near_the_threshold_rounding_decides(exported):
    served = load_served(exported("span").folder)
    scores = np.array([-0.5, -0.50001, -0.4, 100.0, -0.6], "float32")
    clear = clear_decisions(served, {"no_answer_score": scores}, 1e-4)
    assert clear.tolist() == [False, False, True, True, True]


@pytest.mark.long
def test_half_precision_is_exported(exported, tmp_path):
    half = tf.saved_model.load(export_saved_model(
        exported("span").folder, str(tmp_path / "half"), dtype="bfloat16"))
    told = half.signatures["describe"](text=tf.constant([""]))["description"][0]
    assert json.loads(told.numpy())["dtype"] == "bfloat16"
