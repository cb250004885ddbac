"""Metrics of labels, worked out by hand."""

import collections
import math

import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.classification.metrics import (
    classification_metrics,
    label_report,
    multi_label_metrics,
)

# Of the positive label "1": 3 rightly told, 1 wrongly, 2 missed; 4 rightly left out.
GOLD = list("1110" "110000")
TOLD = list("1111" "000000")


def test_two_labels():
    tp, fp, fn, tn = 3, 1, 2, 4
    positive, negative = 2 * tp / (2 * tp + fp + fn), 2 * tn / (2 * tn + fn + fp)  # F1
    assert classification_metrics(GOLD, TOLD, ["0", "1"]) == pytest.approx({
        "accuracy": 7 / 10,
        "mcc": (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)),
        "f1": positive, "macro_f1": (positive + negative) / 2})
    # The last label is the positive one.
    assert classification_metrics(GOLD, TOLD, ["1", "0"])["f1"] == pytest.approx(negative)


def test_counts_are_as_many_examples():
    pairs = collections.Counter(zip(GOLD, TOLD, strict=True))
    gold, told = map(list, zip(*pairs, strict=True))
    assert classification_metrics(gold, told, ["0", "1"], list(pairs.values())) == (
        classification_metrics(GOLD, TOLD, ["0", "1"]))


def test_three_labels():
    gold, told = list("aabbcc"), list("abbbca")
    # Gorodkin's R: 4 of 6 right; told 2, 3, 1 times, gold 2, 2, 2 times.
    both = 2 * 2 + 2 * 3 + 2 * 1
    mcc = (4 * 6 - both) / math.sqrt((36 - (4 + 9 + 1)) * (36 - (4 + 4 + 4)))
    f1 = [2 * 1 / (2 + 2), 2 * 2 / (2 + 3), 2 * 1 / (2 + 1)]  # 2 right / (gold + told)
    assert classification_metrics(gold, told, list("abc")) == pytest.approx({
        "accuracy": 4 / 6, "mcc": mcc, "f1": sum(f1) / 3, "macro_f1": sum(f1) / 3})
    assert classification_metrics(gold, told, list("abcd")) == (  # d, that occurs nowhere,
        classification_metrics(gold, told, list("abc")))  # is not counted


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("gold", "told", "accuracy", "f1", "macro"), [
    ("0110", "0000", 0.5, 0.0, (2 * 2 / 6 + 0) / 2),  # always the same told
    ("1111", "0110", 0.5, 2 * 2 / 6, (2 * 2 / 6 + 0) / 2),  # one label in the data
    ("1111", "1111", 1.0, 1.0, 1.0), ("0000", "0000", 1.0, 0.0, 1.0), ("1", "0", 0.0, 0.0, 0.0)])
def test_constant_labels_have_no_correlation(gold, told, accuracy, f1, macro):
    assert classification_metrics(list(gold), list(told), ["0", "1"]) == pytest.approx(
        {"accuracy": accuracy, "mcc": 0.0, "f1": f1, "macro_f1": macro})


def test_several_labels():
    gold = [("a", "b"), ("a",), (), ("b",)]
    told = [("a",), ("b",), (), ("b", "c")]
    # a: 1 right, 1 missed; b: 1 right, 1 wrong, 1 missed; c: 1 wrong; d occurs nowhere.
    assert multi_label_metrics(gold, told, list("abcd")) == pytest.approx({
        "accuracy": 1 / 4, "precision": 2 / 4, "recall": 2 / 4, "f1": 2 * 2 / (4 + 4),
        "macro_f1": (2 / 3 + 2 / 4 + 0) / 3})
    assert label_report(gold, told, list("abcd")) == {
        "a": {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "examples": 2},
        "b": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "examples": 2},
        "c": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "examples": 0},
        "d": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "examples": 0}}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", [["a"], ["a", "b"]])
def test_a_single_label_that_may_be_left_out(labels):
    """What is rightly left out does not count, also if there is one column only."""
    gold, told = [("a",), (), (), ("a",)], [("a",), ("a",), (), ()]
    assert multi_label_metrics(gold, told, labels) == {
        "accuracy": 0.5, "precision": 0.5, "recall": 0.5, "f1": 0.5, "macro_f1": 0.5}
    assert label_report(gold, told, labels)["a"] == {
        "precision": 0.5, "recall": 0.5, "f1": 0.5, "examples": 2}
    assert multi_label_metrics([(), ()], [(), ()], labels) == {
        "accuracy": 1.0, "precision": 0.0, "recall": 0.0, "f1": 0.0, "macro_f1": 0.0}


def test_report_of_one_label_an_example():
    assert label_report(GOLD, TOLD, ["1", "0", "2"]) == {
        "1": {"precision": 3 / 4, "recall": 3 / 5, "f1": pytest.approx(6 / 9), "examples": 5},
        "0": {"precision": pytest.approx(4 / 6), "recall": 4 / 5, "f1": pytest.approx(8 / 11),
              "examples": 5},
        "2": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "examples": 0}}


@pytest.mark.parametrize(("gold", "told", "message"), [
    ([], [], "no example"), (["a"], ["a", "b"], "2 predictions for 1 examples"),
    (["a"], ["c"], "label 'c' is unknown; expected one of a, b"),
    (["c"], ["a"], "label 'c' is unknown")])
def test_bad_input_is_refused(gold, told, message):
    tuples = [[(name,) for name in names] for names in (gold, told)]
    for measure, (right, predicted) in ((classification_metrics, (gold, told)),
                                        (label_report, (gold, told)),
                                        (multi_label_metrics, tuples), (label_report, tuples)):
        with pytest.raises(BertTfError, match=message):
            measure(right, predicted, ["a", "b"])
