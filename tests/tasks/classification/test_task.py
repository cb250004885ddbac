"""Labels, several labels and numbers: what is predicted, measured and refused."""

import dataclasses
import json
import unicodedata

import numpy as np
import pytest
from sentiment import MARKS, config, examples, options, tokenizer

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.registry import find_task, make_type, model_classes


def make(name="classify", multi_label=False, **values):
    return make_type(find_task(name, multi_label), options(**{"max_seq_length": 32, **values}))


def build(kind, labels):
    name, options = kind.model_options(labels, tokenizer())
    return model_classes()[name](config(), seed=4, **options)


def relabelled(made, label):
    """Examples with the label that `label(number)` gives."""
    return [dataclasses.replace(each, label=label(number)) for number, each in enumerate(made)]


def alone(model, example):
    """Probabilities of one example that is read by the model itself."""
    texts = {"text": [example.text_a]} if example.text_b is None else {
        "text_a": [example.text_a], "text_b": [example.text_b]}
    return model.probabilities(model(texts)).numpy()[0]


def test_a_prediction_does_not_depend_on_its_batch():
    kind, made = make(), examples(12)
    model = build(kind, kind.labels(made))
    assert model.labels == ["bad", "good"]
    for example, line in zip(made, kind.predict(model, made), strict=True):
        expected = alone(model, example)
        np.testing.assert_allclose(list(line["scores"].values()), expected, atol=2e-6)
        assert line["id"] == example.id and list(line["scores"]) == model.labels
        assert line["label"] == model.labels[expected.argmax()]
        assert line["score"] == line["scores"][line["label"]]


def test_pairs_and_windows(eager):
    kind, made = make("pair"), examples(6, pairs=True)
    model = build(kind, kind.labels(made))
    assert model.preprocessor.pair
    for example, line in zip(made, kind.predict(model, made), strict=True):
        np.testing.assert_allclose(list(line["scores"].values()), alone(model, example), atol=2e-6)

    kind = make(long="windows", max_seq_length=8, stride=3)
    made = [dataclasses.replace(each, text_a=" ".join([each.text_a] * 3)) for each in examples(6)]
    model = build(kind, kind.labels(made))
    for example, line in zip(made, kind.predict(model, made), strict=True):
        np.testing.assert_allclose(list(line["scores"].values()), alone(model, example), atol=2e-6)


def test_labels_that_no_train_example_has_are_counted_and_refused():
    kind, dev = make(), relabelled(examples(9), lambda number: ("good", "odd", "new")[number % 3])
    kind.labels(examples(20))
    kind.measure_on(examples(9))
    with pytest.raises(BertTfError, match=r"no train example has: 'odd' \(3\), 'new' \(3\); the "
                                          "first: line 2; try train examples of them"):
        kind.measure_on(dev)
    kind = make(multi_label=True)
    kind.labels(relabelled(examples(20), lambda number: ("good",)))
    with pytest.raises(BertTfError, match=r"'odd' \(9\)"):
        kind.measure_on(relabelled(examples(9), lambda number: ("good", "odd")))


@pytest.mark.parametrize(("rows", "noted"), [
    ([("a|b",), ("a",), ("b|c",), ()], False), ([("a|b",), ("a",), ("b|c",), ("a|c",)], True),
    ([("a|b",), ("a", "b"), ("b|c",), ("a|c",)], False), ([("a;b",)], True), ([("a,b",)], False)])
def test_labels_that_others_than_commas_separate_are_noted(rows, noted, capsys):
    make(multi_label=True).labels(relabelled(examples(len(rows)), rows.__getitem__))
    told = capsys.readouterr().out
    assert ("in their label and none has two labels; expected commas" in told) == noted
    assert told.count("note: ") == noted


def test_several_labels(eager):
    kind = make(multi_label=True)
    made = relabelled(examples(12), lambda number: [(), ("warm",), ("late", "warm")][number % 3])
    labels = kind.labels(made)
    assert labels == ["late", "warm"] and kind.monitor == ("f1", max)
    model = build(kind, labels)
    predictions = kind.predict(model, made)
    for example, line in zip(made, predictions, strict=True):
        scores = alone(model, example)
        assert line["labels"] == [name for name, score in zip(labels, scores, strict=True)
                                  if score >= 0.5]
    right = sum(set(line["labels"]) == set(example.label)
                for example, line in zip(made, predictions, strict=True))
    assert kind.metrics(made, predictions)["accuracy"] == pytest.approx(right / 12)


def test_numbers(eager):
    kind = make("regress", text_b_column="text_b")
    made = relabelled(examples(9, pairs=True), lambda number: number / 2)
    model = build(kind, kind.labels(made))
    assert (model.problem, model.labels) == ("regression", ["value"])
    predictions = kind.predict(model, made)
    assert [line["score"] for line in predictions] == pytest.approx(
        [float(alone(model, example)[0]) for example in made], abs=2e-6)
    told = np.array([line["score"] for line in predictions])
    expected = np.corrcoef(told, [example.label for example in made])[0, 1]
    assert kind.metrics(made, predictions)["pearson"] == pytest.approx(expected)


def test_small_numbers_are_not_rounded():
    kind, made = make("regress"), relabelled(examples(3), lambda number: number * 1e-8)
    lines = [kind.line(each, np.array([each.label]), ["value"]) for each in made]
    assert kind.metrics(made, lines)["spearman"] == pytest.approx(1)


def test_features_have_labels_and_balanced_weights():
    kind = make(class_weights=True)
    made = relabelled(examples(8), lambda number: "bad" if number < 2 else "good")
    model = build(kind, kind.labels(made))
    features = kind.features(made, model, training=True)
    assert features.rows["label_ids"].tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    # scikit-learn's "balanced": n / (classes * count)
    np.testing.assert_allclose(features.rows["example_weights"], [2, 2, *[2 / 3] * 6])
    assert "example_weights" not in kind.features(made, model, training=False).rows


def test_the_report_counts_what_was_told(tmp_path):
    kind, made = make(), relabelled(examples(4), lambda number: "good" if number else "bad")
    lines = [{"id": each.id, "label": "good", "scores": {"bad": 0.0, "good": 1.0}} for each in made]
    kind.report(made, lines, str(tmp_path))
    assert json.loads((tmp_path / "confusion.json").read_text())["counts"] == [[0, 1], [0, 3]]
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
    assert kind.metrics(made, lines)["accuracy"] == 0.75


def told(*labels):
    return [{"label": label, "scores": {"bad": 0.0, "good": 1.0}} for label in labels]


def several(*labels):
    return [{"labels": names, "scores": {"late": 0.0, "warm": 1.0}} for names in labels]


def numbers(*values):
    return [{"score": value} for value in values]


@pytest.mark.parametrize(("options", "gold", "lines", "note"), [
    ({}, ["bad", "good", "good"], told("good", "good", "good"),
     "the label 'good' is predicted for every example, as by an untrained model"),
    ({}, ["bad", "good", "good"], told("good", "bad", "good"), "predictions are no better than "
                                                               "chance (mcc -0.5000), as by an"),
    ({}, ["bad", "good", "good"], told("bad", "bad", "good"), None),
    ({}, ["good", "good"], told("good", "good"), None),  # nothing can be known
    ({"multi_label": True}, [("late",), ()], several([], []), "no label is predicted for every"),
    ({"multi_label": True}, [("late",), ()], several(["late"], ["late"]),
     "the label 'late' is predicted for every example"),
    ({"multi_label": True}, [("late",), ()], several(["late", "warm"], ["late", "warm"]),
     "the labels 'late', 'warm' are predicted for every example"),
    ({"multi_label": True}, [("late",), ()], several(["late"], []), None),
    ({"name": "regress"}, [1.0, 3.0], numbers(9.0, 9.0), "mse 50 is no better than 1, that of "
                                                         "predicting the mean label for"),
    ({"name": "regress"}, [1.0, 3.0], numbers(1.5, 2.0), None),
])
def test_what_is_no_better_than_no_model_is_noted(options, gold, lines, note):
    kind = make(**options)
    made = relabelled(examples(len(gold)), gold.__getitem__)
    notes = kind.notes(made, lines, kind.metrics(made, lines))
    assert len(notes) == (note is not None) and (note or "") in "".join(notes)


def test_a_line_of_predictions_has_the_text_and_what_is_right():
    one, pair = examples(1)[0], examples(1, pairs=True)[0]
    assert one.given() == {"text": one.text_a, "gold": one.label}
    assert pair.given() == {"text": pair.text_a, "text_b": pair.text_b, "gold": pair.label}
    assert make().positive_label(["bad", "good"]) == "good"
    assert make().positive_label(["a", "b", "c"]) is None
    assert make("regress").positive_label(["value"]) is None


def test_what_cannot_be_learned_is_refused():
    made = examples(4)
    with pytest.raises(BertTfError, match="line 2: no label; expected one in every train example"):
        make().labels(relabelled(made, lambda number: None if number == 1 else "good"))
    with pytest.raises(BertTfError, match="the only label of 4 examples is 'good'"):
        make().labels(relabelled(made, lambda number: "good"))
    with pytest.raises(BertTfError, match="no label in 4 examples; expected one or more"):
        make(multi_label=True).labels(relabelled(made, lambda number: ()))
    with pytest.raises(UsageError, match="--class_weights with --task regress"):
        make("regress", class_weights=True)
    with pytest.raises(UsageError, match="--long windows with pairs of texts; try --long head"):
        make("mrpc", long="windows")
    kind = make()
    model = build(kind, sorted(MARKS))
    with pytest.raises(BertTfError, match="line 3: label='goood' is unknown.*'good'"):
        kind.features_to_predict(
            model, relabelled(made, lambda number: "goood" if number == 2 else "good"))


def test_the_texts_of_a_vocabulary_come_once():
    made = examples(3, pairs=True)
    assert make("pair").texts([*made, made[0]]) == [
        text for each in made for text in (each.text_a, each.text_b)]


@pytest.mark.parametrize("several", [False, True])
def test_a_model_whose_labels_are_in_jamo_keeps_them(several, tmp_path):
    """As published ones may be, and those of tables that macOS wrote; tables read are composed."""
    good, bad = "긍정", "부정"
    own = [unicodedata.normalize("NFD", name) for name in (good, bad)]
    kind = make(multi_label=several)
    made = relabelled(examples(4), lambda number: (good,) if several else good)
    kind.check_examples(made, {"labels": own}, served=False)
    model = build(kind, own)
    assert kind.features(made, model, training=True).rows["label_ids"].tolist() == (
        [[1, 0]] * 4 if several else [0] * 4)
    lines = [kind.line(each, np.array([0.9, 0.1]), own) for each in made]
    assert all(line["labels"] == own[:1] if several else line["label"] == own[0] for line in lines)
    row = {"label": own[0], "chosen": own[:1], "probabilities": dict.fromkeys(own, 0.5)}
    for predictions in (lines, [kind.prediction(each, row) for each in made]):
        assert kind.metrics(made, predictions)["accuracy"] == 1
    kind.report(made, lines, str(tmp_path))
    assert json.loads((tmp_path / "confusion.json").read_text())["rows"] == [good, bad]
    with pytest.raises(BertTfError, match="labels that the model does not know: '중립'"):
        kind.check_examples(relabelled(made, lambda number: ("중립",) if several else "중립"),
                            {"labels": own}, served=False)


def test_one_label_in_two_forms_is_one_in_metrics():
    """Earlier versions took 긍정 composed and in jamo for two."""
    forms = [unicodedata.normalize(form, "긍정") for form in ("NFC", "NFD")]
    made = relabelled(examples(2), lambda number: ("긍정", "부정")[number])
    lines = [{"label": name, "scores": dict.fromkeys([*forms, "부정"], 0.3)}
             for name in (forms[1], "부정")]
    assert make().metrics(made, lines) == {"accuracy": 1, "mcc": 1, "f1": 1, "macro_f1": 1}
