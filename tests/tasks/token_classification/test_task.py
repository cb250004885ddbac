"""The kind of tasks about tags: from tagged words to features, and from logits to entities."""

import dataclasses
import json
import unicodedata

import keras
import numpy as np
import pytest
from sentiment import MARKS, WORDS, config, options, tokenizer

from bert_tf.data.task_input import TaskInput
from bert_tf.errors import BertTfError, UsageError
from bert_tf.saved_model.served_model import ServedModel
from bert_tf.tasks.registry import find_task, make_type, read_task
from bert_tf.tasks.token_classification.examples import TagExample
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.signature import tag

TAGS = {"fine": "B-good", "great": "I-good", "dull": "B-bad", "poor": "I-bad"}
LABELS = ["B-bad", "I-bad", "B-good", "I-good", "O"]


def examples(count, seed=0):
    """Words whose tags they tell themselves; `\u0007` vanishes."""
    random = np.random.default_rng(seed)
    words = [*WORDS[:3], "\u0007", *sum(MARKS.values(), [])]
    rows = [list(random.choice(words, random.integers(1, 16))) for _ in range(count)]
    return [TagExample(str(number), tuple(row), tuple(TAGS.get(word, "O") for word in row),
                       (True,) * (len(row) - 1) + (False,), None, f"line {number + 1}")
            for number, row in enumerate(rows)]


def make(name="conll", **values):
    return make_type(find_task(name), options(**{
        "max_seq_length": 12, "lstm_size": 8, **values}))


@pytest.fixture(scope="module")
def trained():
    """A kind and a model that has learned to tell what the words tell."""
    kind = make()
    name, further = kind.model_options(LABELS, tokenizer())
    assert name == "tagger"
    model = TokenClassifier(config(hidden_dropout_prob=0.0), seed=1, **further)
    data = TaskInput(kind.features(examples(200), model, True), 16, 0)
    model.compile(keras.optimizers.Adam(0.01))
    batches = data.dataset().map(
        lambda batch: {key: value for key, value in batch.items() if key != "first_example"})
    model.fit(batches, steps_per_epoch=data.steps_per_epoch, epochs=4, verbose=0)
    return kind, model


def test_labels():
    assert make().labels(examples(50)) == LABELS
    assert make("klue_ner").labels([]) == list(find_task("klue_ner").labels)
    plain = TagExample("0", ("the",), ("O",), (False,))
    with pytest.raises(BertTfError, match="1 examples without any entity"):
        make().labels([plain])
    once = TagExample("0", ("fine",), ("B-x",), (False,))
    assert make().labels([once]) == ["B-x", "I-x", "O"]


def test_units_and_features_are_as_asked():
    characters = [TagExample("0", ("a",), ("B-x",), (False,)),  # one word or one character
                  TagExample("1", ("a", "b"), ("B-x", "I-x"), (False, False), unit="character")]
    for train, unit, expected in ((examples(2), None, "word"), (characters, None, "character"),
                                  (characters, "word", "word"),
                                  (examples(2), "character", "character")):
        kind = make("tag", unit=unit)
        _, further = kind.model_options(kind.labels(train), tokenizer())
        assert further["preprocessor"].reading() == {"seq_length": 12, "unit": expected,
                                                     "stride": 6}
        assert "features" not in further
        lines = [{"tags": list(example.tags)} for example in train]
        # Of the labels as the file has them, whatever the model reads.
        assert ("character_f1" in kind.metrics(train, lines)) == (train is characters)
    _, further = make(features=[0, -1]).model_options(LABELS, tokenizer())
    assert further["features"] == {"layers": [0, -1], "combine": "concat", "lstm_size": 8}


def test_klue_ner_is_also_measured_as_klue_does():
    example = TagExample("0", ("김", "은"), ("B-PS", "O"), (False, False), unit="character")
    lines = [{"tags": ["I-PS", "O"]}]
    metrics = make("klue_ner").metrics([example], lines)
    assert (metrics["macro_f1"], metrics["klue_f1"]) == (1, 0)
    assert "klue_f1" not in make("conll").metrics([example], lines)


def test_class_weights_are_refused():
    with pytest.raises(UsageError, match="--class_weights with --task conll"):
        make(class_weights=True)


def test_what_is_predicted_and_measured(trained, tmp_path):
    kind, model = trained
    dev = examples(60, seed=1)
    lines = kind.predict(model, dev)
    metrics = kind.metrics(dev, lines)
    assert metrics["f1"] > 0.9 and metrics["accuracy"] > 0.95
    for example, line in zip(dev, lines, strict=True):
        assert line["id"] == example.id and len(line["tags"]) == len(example.words)
        assert all(tag == "O" for word, tag in zip(example.words, line["tags"], strict=True)
                   if word == "\u0007")
        for entity in line["entities"]:
            assert example.text[entity["start"]:entity["end"]] == entity["text"]
            assert entity["start"] in example.starts and 0 < entity["score"] <= 1
        begun = sum(tag.startswith("B-") for tag in line["tags"])
        assert len(line["entities"]) >= begun
    json.dumps(lines)
    kind.report(dev, lines, str(tmp_path))
    assert set(json.loads((tmp_path / "entities.json").read_text())) == {"bad", "good"}
    assert kind.notes(dev, lines, metrics) == []


def test_predicted_entities_are_read_as_labels(trained, write_file):
    kind, model = trained
    dev = examples(20, seed=3)
    lines = kind.predict(model, dev)
    path = write_file("predictions.jsonl", "\n".join(
        json.dumps(example.given() | line) for example, line in zip(dev, lines, strict=True)))
    again = read_task("tag", path, {"label": "entities"})
    assert sum(len(line["entities"]) for line in lines) > 20
    for example, line in zip(again, lines, strict=True):
        assert kind.prediction(example, line) == {"tags": list(example.tags)}
        assert sum(tag[0] == "B" for tag in example.tags) == len(line["entities"])
    # A model of words finds the same in them.
    assert kind.metrics(again, kind.predict(model, again))["f1"] == 1


@pytest.mark.parametrize("text, end, told", [
    ("Ann Lee, 김씨", 7, True), ("김씨는 갔다.", 2, False), ("x-Ann", 1, True)])
def test_entities_of_whole_words_are_told(text, end, told, write_file, capsys):
    path = write_file("train.jsonl", json.dumps(
        {"text": text, "tags": [{"start": 0, "end": end, "label": "P"}]}))
    kind = make()
    assert kind.labels(read_task("tag", path)) == ["B-P", "I-P", "O"] and kind.unit == "character"
    assert ("with --unit word" in capsys.readouterr().out) == told


def test_types_that_the_model_does_not_know_are_told():
    kind, lines = make(), [{"tags": ["B-x"] + ["O"] * 3, "entities": [{}]}]
    for labels, tags, expected in (
            (["B-x", "I-x", "O"], "B-x I-x B-y B-x", ["types 'y' (1)"]),
            (["B-z", "I-z", "O"], "B-y I-y B-x B-y", ["types 'x' (1), 'y' (2)"]),
            (["B-x", "B-y", "O"], "B-y I-y B-x B-y", [])):
        dev = [sentence(0, tags)]
        kind.check_examples(dev, {"labels": labels}, served=False)
        notes = kind.notes(dev, lines, {"f1": 0.5, "accuracy": 1.0})
        assert len(notes) == len(expected) and all(
            f"the model does not know the {text}" in note
            for text, note in zip(expected, notes, strict=True))
        if "'x' (1)" in "".join(expected):  # no advice that is about others
            assert kind.notes(dev, lines, {"f1": 0.0, "accuracy": 0.0}) == notes


def sentence(number, tags):
    words = ("the", "fine", "dull", "end")
    return TagExample(str(number), words, tuple(tags.split()), (True, False, True, False), None,
                      f"line {number}")


@pytest.mark.parametrize("unit", ["word", "character"])
def test_what_predict_tells_of_a_text_with_any_blanks_is_measured_by_its_words(unit, write_file):
    text = " Ann  Lee in\tRome"
    tags = "B-P I-P O B-L" if unit == "word" else (
        "O B-P I-P I-P I-P I-P I-P I-P I-P O O O O B-L I-L I-L I-L")
    (example,) = read_task("tag", write_file("a.jsonl", json.dumps({"text": text, "tags": tags})))
    told = {"entities": [{"start": text.index(begin), "end": text.index(end) + len(end),
                          "label": label} for begin, end, label in (
                              ("Ann", "Lee", "P"), ("Rome", "Rome", "L"))]}
    assert make("tag").prediction(example, told) == {"tags": list(example.tags)}


def predicted(tags, *entities):
    return {"tags": tags.split(), "entities": [
        {"text": text, "label": label, "start": start, "end": end, "score": 0.5}
        for text, label, start, end in entities]}


def test_the_report_has_the_wrong_sentences(tmp_path):
    kind = make()
    dev = [sentence(1, "O B-x I-x O"), sentence(2, "O B-x O O"), sentence(3, "O O O O")]
    assert dev[0].given() == {"text": "the finedull end", "gold": ["O", "B-x", "I-x", "O"],
                                  "words": ["the", "fine", "dull", "end"]}
    lines = [predicted("O B-x I-x O", ("finedull", "x", 4, 12)), predicted("O O O O"),
             predicted("O O O B-y", ("end", "y", 13, 16))]
    kind.report(dev, lines, str(tmp_path))
    wrong = [json.loads(line) for line in
             (tmp_path / "wrong_sentences.jsonl").read_text().splitlines()]
    assert [line["where"] for line in wrong] == ["line 2", "line 3"]
    assert wrong[0]["right"] == [{"text": "fine", "label": "x", "start": 4, "end": 8}]
    assert (wrong[0]["entities"], wrong[1]["right"]) == ([], [])
    assert wrong[1]["entities"] == lines[2]["entities"]


@pytest.mark.parametrize("unit", ["word", "character"])
def test_metrics_need_no_words(unit):
    dev = [dataclasses.replace(sentence(1, "O B-x I-x O"), unit=unit, original="the finedull end")]
    bare, lines = [each.without_text() for each in dev], [predicted("O B-x O O")]
    assert (bare[0].words, bare[0].original) == ((), None)
    assert make().metrics(bare, lines) == make().metrics(dev, lines)


@pytest.mark.parametrize(("gold", "line", "note"), [
    ("O B-x I-x O", predicted("O O O O"), "no entity is predicted, as by an untrained model"),
    ("O B-x I-x O", predicted("O B-x O O", ("fine", "x", 4, 8)),
     "none of the 1 predicted entities is"),
    ("O O O B-x", predicted("B-x B-x B-x B-x", *[("a", "x", 0, 1)] * 4),
     "tag accuracy 0.2500 is no better than without any entity (0.7500)"),
    ("O B-x I-x O", predicted("O B-x I-x O", ("finedull", "x", 4, 12)), None),
    ("O O O O", predicted("O O O O"), None),
])
def test_what_is_no_better_than_no_model_is_noted(gold, line, note):
    kind, dev = make(), [sentence(1, gold)]
    notes = kind.notes(dev, [line], kind.metrics(dev, [line]))
    assert len(notes) == (note is not None) and (note or "") in "".join(notes)


def test_batches_and_windows_change_nothing(trained):
    """Each example alone, beside others, and in the words' own order of length."""
    kind, model = trained
    dev = examples(10, seed=2)
    together = kind.predict(model, dev)
    for example, expected in zip(dev, together, strict=True):
        (line,) = kind.predict(model, [example])
        assert line["tags"] == expected["tags"]


def test_a_served_model_tells_the_same_of_words_that_text_shows(trained):
    kind, model = trained
    served = ServedModel(model, tokenizer(), 12)
    dev = [example for example in examples(40, seed=3) if "\u0007" not in example.words]
    lines = kind.predict_served({"tag": lambda text: tag(served, text)}, {"labels": LABELS}, dev)
    for line, expected in zip(lines, kind.predict(model, dev), strict=True):
        assert line["entities"] == [{**entity, "score": pytest.approx(entity["score"], abs=1e-5)}
                                    for entity in expected["entities"]]
    assert kind.metrics(dev, lines)["f1"] == kind.metrics(dev, kind.predict(model, dev))["f1"]


def test_a_model_whose_tags_are_in_jamo_keeps_them(tmp_path):
    """Tags that are read are composed."""
    own = [unicodedata.normalize("NFD", tag) for tag in ("B-인물", "I-인물", "O")]
    made = [TagExample("0", ("the", "fine", "end"), ("B-인물", "I-인물", "O"),
                       (True, True, False))]
    kind = make("tag")
    name, further = kind.model_options(own, tokenizer())
    model = TokenClassifier(config(), seed=1, **further)
    ids = kind.features(made, model, training=True).rows["label_ids"]
    assert [number for number in ids.values if number >= 0] == [0, 1, 2]
    lines = [{"id": "0", "tags": own, "entities": [
        {"text": "the fine", "label": own[0][2:], "start": 0, "end": 8, "score": 0.9}]}]
    metrics = kind.metrics(made, lines)
    assert metrics["f1"] == metrics["accuracy"] == 1
    kind.report(made, lines, str(tmp_path))
    assert list(json.loads((tmp_path / "entities.json").read_text())) == ["인물"]
    assert not (tmp_path / "wrong_sentences.jsonl").read_text()
