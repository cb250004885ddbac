"""Scores of answers, worked out by hand."""

import random

import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tasks.question_answering.metrics import (
    best_null_threshold,
    character_f1,
    korquad_metrics,
    squad_metrics,
)


def questions(*golds):
    """One question for each tuple of right answers; ids 0, 1, …"""
    return [SpanExample(str(number), "?", "", tuple((text, 0) for text in texts))
            for number, texts in enumerate(golds)]


def told(*texts):
    return dict(zip(map(str, range(len(texts))), texts, strict=True))


@pytest.mark.parametrize(("golds", "answer", "exact", "f1"), [
    (("the Eiffel Tower",), "Eiffel tower!", 1, 1),  # articles, case, punctuation
    (("A  dog, an owl and the cat",), "dog owl and cat", 1, 1),
    (("theatre",), "the atre", 0, 0),  # an article is a word of its own
    (("in 1999",), "1999", 0, 2 * 1 / (2 + 1)),
    (("red red wine",), "red wine wine", 0, 2 * 2 / (3 + 3)),  # the words of both, counted
    (("1999", "in May 1999"), "May 1999", 0, 2 * 2 / (2 + 3)),  # the best of several
    (("Paris", "the city of Paris"), "Paris", 1, 1),
    (("Paris",), "", 0, 0)])
@pytest.mark.parametrize("version", [1, 2])
def test_one_question_of_squad(golds, answer, exact, f1, version):
    scores = squad_metrics(questions(golds), told(answer), version=version)
    assert scores["exact_match"] == 100 * exact and scores["f1"] == pytest.approx(100 * f1)


def test_squad_is_the_mean_in_percent():
    examples = questions(("Paris",), ("in 1999",), ("a dog",))
    scores = squad_metrics(examples, told("Paris", "1999", "cat"), version=1)
    assert scores == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3 + 0) / 3})


def test_squad_2_has_questions_without_an_answer():
    examples = questions(("Paris",), ("in 1999",), (), ())
    answers = told("Paris", "1999", "", "something")
    expected = {"exact_match": 50, "f1": 100 * (1 + 2 / 3 + 1 + 0) / 4,
                "has_answer_exact_match": 50, "has_answer_f1": 100 * (1 + 2 / 3) / 2,
                "no_answer_accuracy": 50}
    assert squad_metrics(examples, answers) == pytest.approx(expected)
    # With a threshold: only questions whose score is above it lose their answer.
    scores = {"0": 1.0, "1": -2.0, "2": 5.0, "3": 1.5}
    assert squad_metrics(examples, answers, scores, threshold=1.0) == pytest.approx({
        **expected, "exact_match": 75, "f1": 100 * (1 + 2 / 3 + 1 + 1) / 4,
        "no_answer_accuracy": 100, "null_threshold": 1.0})
    # Of one sort only.
    assert "no_answer_accuracy" not in squad_metrics(examples[:2], answers)
    assert "has_answer_f1" not in squad_metrics(examples[2:], answers)


def test_answers_and_scores_of_other_questions_are_passed_over():
    examples, answers, scores = questions(("Paris",), ()), told("Paris", "x"), {"0": 0.0, "1": 1.0}
    more = {"other": "y"}
    assert squad_metrics(examples, answers | more) == squad_metrics(examples, answers)
    assert squad_metrics(examples, answers | more, scores | {"other": 9.0}) == squad_metrics(
        examples, answers, scores)


@pytest.mark.parametrize("seed", range(8))
def test_no_threshold_is_better_than_the_best(seed):
    """Against all that make a difference, tried one by one; scores with ties."""
    draw = random.Random(seed)
    words = ["the", "red", "wine", "of", "1999"]
    examples = questions(*([" ".join(draw.choices(words, k=draw.randint(1, 3)))
                            for _ in range(draw.choice([0, 0, 1, 2]))] for _ in range(12)))
    answers = {each.id: " ".join(draw.choices(words, k=draw.randint(0, 3))) for each in examples}
    scores = {each.id: draw.randint(-3, 3) / 2 for each in examples}

    def f1(threshold):
        return squad_metrics(examples, answers, scores, threshold=threshold)["f1"]

    best = best_null_threshold(examples, answers, scores)
    assert f1(best) == pytest.approx(max(f1(level) for level in [-9.0, *scores.values()]))
    assert best not in scores.values()  # so that rounding cannot decide
    assert squad_metrics(examples, answers, scores)["null_threshold"] == best


@pytest.mark.parametrize(("golds", "scores", "threshold"), [
    ((("x",), (), ("x",), ()), (0.0, 3.0, 1.0, 4.0), 2.0),  # between 1, to be answered, and 3
    ((("x",), (), ("x",), ()), (5.0, 1.0, 6.0, 9.0), 7.5),  # loses 1 of 1, gains 2 of 5 and 6
    ((("x",), (), ("x",), ()), (5.0, 1.0, 6.0, 2.0), 0.0),  # equal: rather no answer
    ((("x",), ("x",)), (-2.0, 3.0), 4.0),  # all, 1 beyond the last
    (((), ()), (-2.0, 3.0), -3.0)])  # none, 1 before the first
def test_the_threshold_lies_half_way(golds, scores, threshold):
    answers = told(*"x" * len(golds))
    assert best_null_threshold(questions(*golds), answers, told(*scores)) == threshold


@pytest.mark.parametrize(("golds", "answer", "exact", "f1"), [
    (("해리 포터",), "《해리 포터》", 1, 1), (("해리 포터",), "‘해리  포터’(", 1, 1),
    (("해리 포터",), "〈해리〉포터", 1, 1),  # a bracket is a blank
    (("해리 포터",), "해리포터", 0, 1),  # no blanks among the characters
    (("서울",), "서울에서", 0, 2 * 2 / (2 + 4)),  # a particle
    (("1989년 2월 15일",), "2월 15일", 0, 2 * 5 / (10 + 5)),
    (("3,000명", "삼천 명"), "3000명.", 1, 1),  # ASCII punctuation; the best of several
    (("USA",), "usa", 1, 1), (("the 밴드",), "밴드", 0, 2 * 2 / (5 + 2)),  # articles count
    (("가가나",), "가나나", 0, 2 * 2 / (3 + 3)), (("서울",), "부산", 0, 0), (("서울",), "", 0, 0)])
def test_one_question_of_korquad(golds, answer, exact, f1):
    assert korquad_metrics(questions(golds), told(answer)) == pytest.approx(
        {"exact_match": 100 * exact, "f1": 100 * f1})


def test_korquad_is_the_mean_in_percent():
    scores = korquad_metrics(questions(("서울",), ("부산",)), told("서울에서", "부산"))
    assert scores == pytest.approx({"exact_match": 50, "f1": 100 * (2 / 3 + 1) / 2})


def test_characters_of_questions_without_an_answer():
    examples = questions(("서울",), (), ())
    assert character_f1(examples, told("서울에서", "", "부산")) == pytest.approx(
        100 * (2 / 3 + 1) / 3)
    # Of words 서울에서 is worth no more than nothing: the threshold would be below it.
    best = told("서울에서", "부산", "부산"), told(1.0, 2.0, 3.0)
    assert best_null_threshold(examples, *best, character_f1) == 1.5
    assert best_null_threshold(examples, *best) == 0.0


@pytest.mark.parametrize("measure", [
    squad_metrics, korquad_metrics, character_f1, lambda *args: squad_metrics(*args, version=1),
    lambda *args: best_null_threshold(*args, {"0": 0.0, "1": 1.0})])
def test_bad_input_is_refused(measure):
    with pytest.raises(BertTfError, match="no example"):
        measure([], {})
    with pytest.raises(BertTfError, match="no answer predicted for question 1; expected one for"):
        measure(questions(("a",), ("b",)), {"0": "a"})


def test_what_a_version_does_not_have_is_refused():
    examples, answers = questions(("Paris",), ()), told("Paris", "")
    for measure in (korquad_metrics, lambda *args: squad_metrics(*args, version=1)):
        with pytest.raises(BertTfError, match="question 1 has no answer; .*; try task squad_v2"):
            measure(examples, answers)
    with pytest.raises(BertTfError, match="no no-answer score predicted for question 1"):
        squad_metrics(examples, answers, {"0": 0.0})
