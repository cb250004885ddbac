"""Questions: what is answered, measured, tuned and refused."""

import json
import random
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from sentiment import MARKS, WORDS, config, options, tokenizer

from bert_tf.data.task_input import TaskInput
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tasks.question_answering.metrics import squad_metrics
from bert_tf.tasks.registry import find_task, make_type, model_classes


def make(name="squad_v2", **values):
    return make_type(find_task(name), options(**{"max_seq_length": 24, **values}))


def build(kind):
    name, options = kind.model_options([], tokenizer())
    return model_classes()[name](config(), seed=4, **options)


@pytest.fixture(scope="module")
def shared_model():
    """Its answering graphs are made once."""
    return build(make(n_best=3, max_answer_length=4))


@pytest.fixture
def model(shared_model):
    shared_model.null_threshold = 0.0
    return shared_model


def examples(count, unanswerable=True, seed=0):
    """The answer is the one mark among the words; every third question has none."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        before, after = (draw.choices(WORDS, k=draw.randint(0, 12)) for _ in range(2))
        mark, none = draw.choice(sum(MARKS.values(), [])), unanswerable and number % 3 == 2
        context = " ".join([*before, *([] if none else [mark]), *after, "😀"])
        first = len(" ".join([*before, ""])) if before else 0
        made.append(SpanExample(str(number), "the story", context,
                                () if none else ((mark, first),), none,
                                where=f"file.json (id {number})"))
    return made


def test_a_line_is_what_the_model_answers(model, eager):
    kind, made = make(), examples(8)
    assert (model.n_best, model.max_answer_length, model.null_threshold) == (3, 4, 0.0)
    assert model.preprocessor.reading() == {"seq_length": 24, "doc_stride": 8,
                                            "max_query_length": 8}
    lines = kind.predict(model, made)
    for example, line in zip(made, lines, strict=True):
        alone = {name: value[0].numpy() for name, value in model.answer_tensors(
            [example.question], [example.context]).items()}
        assert line["id"] == example.id
        assert [answer["text"] for answer in line["answers"]] == [
            text.decode() for text in alone["answers"] if text]
        for answer, score in zip(line["answers"], alone["scores"], strict=False):
            assert example.context[answer["start"]:answer["end"]] == answer["text"]
            assert abs(answer["score"] - score) < 1e-5
        assert abs(line["no_answer_score"] - alone["no_answer_score"]) < 1e-4
        if alone["has_answer"]:
            assert (line["answer"], line["score"]) == (line["answers"][0]["text"],
                                                       line["answers"][0]["score"])
        else:
            assert line["answer"] == ""
            assert abs(line["score"] - (1 - alone["scores"].sum())) < 1e-5
    served = {"answer": lambda question, context: model.answer_tensors(question, context)}
    assert kind.predict_served(served, model.task_config(), made) == lines


def test_the_threshold_is_tuned_on_dev_and_kept(model, eager):
    kind, made = make(), examples(30)
    untuned = kind.metrics(made, kind.predict(model, made))
    lines = kind.predict_dev(model, made)
    best = {line["id"]: line["answers"][0]["text"] for line in lines}
    scores = {line["id"]: line["no_answer_score"] for line in lines}
    expected = squad_metrics(made, best, scores)
    assert model.null_threshold == expected.pop("null_threshold")
    assert kind.metrics(made, lines) == expected and expected["f1"] >= untuned["f1"]
    assert kind.predict(model, made) == lines  # with what was stored
    assert model.task_config()["null_threshold"] == model.null_threshold

    given = make(null_threshold=-1000.0)
    assert not any(line["answer"] for line in given.predict_dev(model, made))
    assert model.null_threshold == -1000.0
    assert given.metrics(made, given.predict(model, made))["no_answer_accuracy"] == 100


def test_where_every_question_has_an_answer(model, eager):
    made = examples(12, unanswerable=False)
    assert "null_threshold" not in make("korquad").model_options([], tokenizer())[1]
    model.null_threshold = None
    for name in ("squad_v1", "korquad"):
        kind = make(name)
        lines = kind.predict_dev(model, made)
        assert model.null_threshold is None and all(line["answer"] for line in lines)
        assert set(kind.metrics(made, lines)) == {"exact_match", "f1"}
        right = [{**line, "answer": example.answers[0][0]}
                 for example, line in zip(made, lines, strict=True)]
        assert kind.metrics(made, right) == {"exact_match": 100, "f1": 100}


def test_answers_in_hangul_are_measured_by_characters():
    made = [SpanExample("0", "어디", "서울에서 왔다", (("서울", 0),), False),
            SpanExample("1", "누가", "서울에서 왔다", (), True)]
    lines = [{"id": "0", "answers": [{"text": "서울에서", "score": 0.9}], "no_answer_score": 1.0},
             {"id": "1", "answers": [{"text": "왔다", "score": 0.9}], "no_answer_score": 2.0}]
    kind, model = make(), types.SimpleNamespace(null_threshold=0.0)
    kind.measure_on(made)
    assert kind.monitor == ("character_f1", max)
    lines = kind.tuned(model, made, lines)
    assert model.null_threshold == 1.5 and [line["answer"] for line in lines] == ["서울에서", ""]
    metrics = kind.metrics(made, lines)
    assert metrics["character_f1"] == pytest.approx(100 * (2 / 3 + 1) / 2) and metrics["f1"] == 50
    assert not kind.notes(made, lines, metrics)
    assert make().monitor == ("f1", max) == make("korquad").monitor


def test_options_of_an_evaluation_count(model, eager):
    preprocessor, n_best = model.preprocessor, model.n_best
    lines = make(doc_stride=3, max_query_length=1, n_best=2).predict(model, examples(6))
    assert model.preprocessor.reading() == {"seq_length": 24, "doc_stride": 3,
                                            "max_query_length": 1}
    assert all(len(line["answers"]) == 2 for line in lines)
    model.preprocessor, model.n_best = preprocessor, n_best


def test_the_report_has_the_wrong_answers_the_surest_first(tmp_path):
    kind, made = make(), examples(9)
    lines = [{"id": example.id, "answer": "fine" if number % 2 else "", "score": number / 10}
             for number, example in enumerate(made)]
    kind.report(made, lines, str(tmp_path))
    wrong = [json.loads(line) for line in
             (tmp_path / "wrong_answers.jsonl").read_text().splitlines()]
    expected = [number for number, example in enumerate(made)
                if lines[number]["answer"] != (example.answers[0][0] if example.answers else "")]
    assert [int(line["id"]) for line in wrong] == expected[::-1] and expected
    assert wrong[0]["right"] == [text for text, _ in made[expected[-1]].answers]


@pytest.mark.parametrize(("answers", "note"), [
    (["", "", "", ""], "every question is predicted to have no answer, as by an untrained"),
    (["the", "the", "the", "the"], "every question is answered 'the', as by an untrained model"),
    (["the", "", "scene", ""], "no predicted answer has a word of the labelled one"),
    (["x", "fine end", "x", "x"], "f1 12.5000 is no better than that of answering no "
                                        "question (50.0000)"),
    (["fine", "dull", "", ""], None)])
def test_what_is_no_better_than_no_model_is_noted(answers, note):
    kind = make()
    made = [SpanExample(str(number), "what", text, ((text, 0),) if text else (), not text)
            for number, text in enumerate(["fine", "dull end", "", ""])]
    lines = [{"id": str(number), "answer": answer} for number, answer in enumerate(answers)]
    notes = kind.notes(made, lines, kind.metrics(made, lines))
    assert len(notes) == (note is not None) and (note or "") in "".join(notes)
    assert made[0].given() == {"question": "what", "context": "fine", "gold": ["fine"]}


@pytest.mark.long
def test_fit_learns_to_answer():
    """In the plain Keras way, on batches by length; and the features of windows."""
    kind, made = make(), examples(200)
    model = build(kind)
    features = kind.features(made, model, training=True)
    assert len(features) > len(made)  # some contexts have two windows
    data = TaskInput(features, 16, seed=1)

    def without_number(batch):
        return {name: value for name, value in batch.items() if name != "first_example"}

    model.compile(keras.optimizers.Adam(0.01))
    model.fit(data.dataset().map(without_number), epochs=3, steps_per_epoch=data.steps_per_epoch,
              verbose=0)
    dev = examples(40, seed=7)
    metrics = kind.metrics(dev, kind.predict_dev(model, dev))
    assert metrics["exact_match"] > 95 and metrics["no_answer_accuracy"] > 90
    assert np.isfinite(model.null_threshold)
    answer = model.answer_tensors(["the story"], ["the music great film"])
    assert answer["answers"][0, 0] == b"great" and answer["has_answer"][0]
    assert isinstance(answer["starts"], tf.Tensor) and answer["starts"][0, 0] == 10


@pytest.mark.parametrize(("values", "message"), [
    ({"name": "squad_v1", "null_threshold": 0.5}, "--null_threshold with --task squad_v1, where"),
    ({"class_weights": True}, "--class_weights with --task squad_v2: it is for labels"),
    ({"features": [-1]}, "--features with --task squad_v2: it is for labels")])
def test_flags_that_do_not_fit_are_refused(values, message):
    with pytest.raises(UsageError, match=message):
        make(**values)


def test_training_without_answers_is_refused():
    none = [example for example in examples(9) if not example.answers]
    with pytest.raises(BertTfError, match="none of 3 questions has an answer"):
        make().labels(none)
    with pytest.raises(BertTfError, match=r"file.json \(id 2\): no answer; expected one"):
        make("squad_v1").labels(examples(9))
    assert make().labels(examples(9)) == []
