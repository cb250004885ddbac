"""F1 of entities, counted by hand."""

import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.token_classification.metrics import (
    entity_report,
    klue_f1,
    tag_macro_f1,
    tagging_metrics,
)


def rows(*sentences):
    return [sentence.split() for sentence in sentences]


def test_by_hand():
    gold = rows("B-PER I-PER O B-LOC", "B-LOC O O", "O B-PER I-PER I-PER")
    # Found PER 0-1, and LOC 3 as another type; LOC 0 whole; PER 1-3 without its end, and one more.
    told = rows("B-PER I-PER O B-PER", "B-LOC O O", "O B-PER I-PER B-PER")
    # PER: 1 of 4 told, 1 of 2 found; LOC: 1 of 1 told, 1 of 2 found.
    assert tagging_metrics(gold, told) == pytest.approx({
        "precision": 2 / 5, "recall": 2 / 4, "f1": 2 * 2 / (5 + 4),
        "macro_f1": (2 * 1 / (4 + 2) + 2 * 1 / (1 + 2)) / 2, "accuracy": 9 / 11})
    assert entity_report(gold, told) == {
        "LOC": {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "entities": 2},
        "PER": {"precision": 0.25, "recall": 0.5, "f1": pytest.approx(1 / 3), "entities": 2}}


@pytest.mark.parametrize(("told", "sound"), [
    ("O I-X I-X O", "O B-X I-X O"),  # begins without B
    ("I-X I-X O O", "B-X I-X O O"),  # at the beginning
    ("B-X I-Y I-Y O", "B-X B-Y I-Y O"),  # goes on with another type
    ("B-X O I-X O", "B-X O B-X O"),  # after a gap
    ("I-X I-Y I-X O", "B-X B-Y B-X O")])
def test_a_broken_sequence_counts_as_it_is_repaired(told, sound):
    found = tagging_metrics(rows(sound), rows(told))
    assert (found["precision"], found["recall"], found["f1"]) == (1, 1, 1)
    assert found["accuracy"] < 1  # of single tags


def test_whole_entities_only():
    gold = rows("B-X I-X O B-X")
    for told in ("B-X O O O", "B-X I-X I-X O", "O B-X O O", "B-Y I-Y O O", "B-X B-X O O"):
        assert tagging_metrics(gold, rows(told))["f1"] == 0
    # Neighbours of one type are two.
    assert tagging_metrics(rows("B-X B-X"), rows("B-X I-X"))["f1"] == 0
    # An entity ends with its sentence.
    assert tagging_metrics(rows("O B-X", "I-X O"), rows("O B-X", "B-X O"))["f1"] == 1


def test_types_with_a_dash_and_tags_of_ends():
    gold = rows("B-creative-work I-creative-work O")
    assert list(entity_report(gold, gold)) == ["creative-work"]
    assert tagging_metrics(gold, rows("B-creative-work E-creative-work O"))["f1"] == 1
    assert tagging_metrics(rows("B-긍정 O"), rows("S-긍정 O"))["f1"] == 1


@pytest.mark.filterwarnings("error")
def test_without_any_entity():
    nothing = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "macro_f1": 0.0}
    assert tagging_metrics(rows("O O"), rows("O O")) == {**nothing, "accuracy": 1.0}
    assert tagging_metrics(rows("O O"), rows("O B-X")) == {**nothing, "accuracy": 0.5}
    assert tagging_metrics(rows("B-X O"), rows("O O")) == {**nothing, "accuracy": 0.5}
    assert tagging_metrics([[]], [[]]) == {**nothing, "accuracy": 0.0}
    assert entity_report(rows("O"), rows("O")) == {}


@pytest.mark.parametrize("measure", [tagging_metrics, entity_report])
@pytest.mark.parametrize(("gold", "told", "message"), [
    ([], [], "no example"), (rows("O"), [], "0 predictions for 1 examples"),
    (rows("O", "O B-X"), rows("O", "O"), "1 predicted tags in sequence 1; expected 2"),
    (rows("O", "O"), rows("O", "PER"), "tag 'PER' in sequence 1; expected O, B-type or I-type"),
    (rows("B-"), rows("O"), "tag 'B-' in sequence 0")])
def test_bad_input_is_refused(measure, gold, told, message):
    with pytest.raises(BertTfError, match=message):
        measure(gold, told)


def test_tags_by_hand():
    gold = [["B-A", "I-A", "O"], ["O", "O"]]
    # B-A: 1 of 2 told is right, 1 of 1 found; I-A: never told; O: 2 of 3 told, 2 of 3 found.
    predicted = [["B-A", "O", "O"], ["B-A", "O"]]
    assert tag_macro_f1(gold, predicted) == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)
    assert tag_macro_f1(gold, gold) == 1.0


def test_klue_knows_no_entity_without_its_beginning():
    gold = rows("O B-PS I-PS O B-LC")
    assert klue_f1(gold, gold) == 1
    assert klue_f1(gold, rows("O I-PS I-PS O B-LC")) == (0 + 1) / 2  # tagging_metrics: 1
    # B-PS alone is no match, and I-LC nothing: LC has only its right entity.
    assert klue_f1(gold, rows("O B-PS I-LC O B-LC")) == (0 + 1) / 2  # tagging_metrics: 1 / 3
    assert klue_f1(gold, rows("O B-PS E-PS O S-LC")) == 1  # of a model by others


@pytest.mark.filterwarnings("error")
def test_klue_without_any_entity():
    assert klue_f1(rows("O O"), rows("O O")) == klue_f1(rows("O O"), rows("O I-PS")) == 0
    assert klue_f1(rows("O B-PS"), rows("O O")) == 0
