"""Metrics of question answering: SQuAD's official evaluators, KorQuAD's as published.

All scores are percentages, as those evaluators and the papers state them.
"""

import collections
import re
import string

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.tasks.base.checks import check_some

# What KorQuAD 1.0 turns into a blank before it drops ASCII punctuation.
_KORQUAD_MARKS = re.compile("['\"《》<>〈〉()‘’]")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_metrics(examples, answers, no_answer_scores=None, *, version=2, threshold=None):
    """Compute exact match and F1 over words of SQuAD 1.1 (Rajpurkar 2016) or 2.0 (2018), in
    percent.

    Args:
        examples: with `id` and `answers`, a sequence of (text, start), empty where the question has
            no answer.
        answers: `{id: text}`, the predicted answer of every example; those of others are passed
            over. With `no_answer_scores` the best answer in the text, else "" for none.
        no_answer_scores: `{id: float}` how much "no answer" is preferred to that answer, of any
            range; version 2 only.
        version: 1 or 2.
        threshold: questions whose score is above it count as not answered; if None, the one that
            gives the best F1 on these examples.

    Returns:
        `{"exact_match", "f1"}`. For version 2 also `has_answer_exact_match`, `has_answer_f1` and
        `no_answer_accuracy`, where there are such questions, and with `no_answer_scores` the
        `null_threshold` used.

    Raises:
        BertTfError: no example, one without a prediction or a score, or version 1 and a question
            without an answer.
    """
    answers = _of_each(examples, answers, "answer")
    articles = _articles(examples)
    if version == 1:
        from official.nlp.tools import squad_evaluate_v1_1

        _check_answered(examples)
        scores = squad_evaluate_v1_1.evaluate(articles, answers)
        return {"exact_match": 100.0 * scores["exact_match"], "f1": 100.0 * scores["final_f1"]}

    from official.nlp.tools import squad_evaluate_v2_0

    used = {}
    if no_answer_scores is not None:
        if threshold is None:
            threshold = best_null_threshold(examples, answers, no_answer_scores)
        used = {"null_threshold": threshold}
        scores = _of_each(examples, no_answer_scores, "no-answer score")
        answers = {id: "" if scores[id] > threshold else text for id, text in answers.items()}
    scores = squad_evaluate_v2_0.evaluate(articles, answers)
    names = {"exact_match": "exact", "f1": "f1", "has_answer_exact_match": "HasAns_exact",
             "has_answer_f1": "HasAns_f1", "no_answer_accuracy": "NoAns_exact"}
    return {name: float(scores[key]) for name, key in names.items() if key in scores} | used


def best_null_threshold(examples, answers, no_answer_scores, measure=None):
    """Return the threshold of `squad_metrics` with the best F1 on these examples.

    Args:
        examples, answers, no_answer_scores: as of `squad_metrics`.
        measure: the F1, `measure(examples, answers)`; None for that of SQuAD 2.0.

    Returns:
        A float: half way between the score of the last question to be answered and the next one, so
        that no rounding decides; 1 past the outermost score where all or none are to be answered.

    Raises:
        BertTfError: no example, or one without a prediction or a score.
    """
    measure = measure or (lambda examples, answers: squad_metrics(examples, answers)["f1"])
    answers = _of_each(examples, answers, "answer")
    scores = _of_each(examples, no_answer_scores, "no-answer score")
    gains = collections.Counter()  # of F1, from answering the questions of a score
    for example in examples:
        answered, none = (measure([example], {example.id: text})
                          for text in (answers[example.id], ""))
        gains[scores[example.id]] += answered - none
    levels = np.array(sorted(gains))
    totals = np.cumsum([0, *(gains[level] for level in levels)])
    bounds = np.array([levels[0] - 2, *levels, levels[-1] + 2], np.float64)
    best = int(np.argmax(totals))
    return float((bounds[best] + bounds[best + 1]) / 2)


def korquad_metrics(examples, answers):
    """Compute exact match and F1 over characters of KorQuAD 1.0 (Lim 2019), in percent.

    Before comparing, quotes, round and angle brackets become blanks, letters small, ASCII
    punctuation goes and blanks are joined; blanks are no characters of the F1.

    Args:
        examples: with `id` and at least one of `answers`, (text, start).
        answers: `{id: text}`, the predicted answer of every example.

    Returns:
        `{"exact_match", "f1"}`, the best over each question's answers.

    Raises:
        BertTfError: no example, one without a prediction or without an answer.
    """
    answers = _of_each(examples, answers, "answer")
    _check_answered(examples)
    exact_match = 0.0
    for example in examples:
        predicted = _korquad_normalized(answers[example.id])
        golds = [_korquad_normalized(text) for text, _ in example.answers]
        exact_match += max(predicted == gold for gold in golds)
    return {"exact_match": 100.0 * exact_match / len(examples),
            "f1": character_f1(examples, answers)}


def character_f1(examples, answers):
    """Compute the F1 over characters of `korquad_metrics`, in percent; of a question without an
    answer it is 100 where none is predicted.

    Args:
        examples: with `id` and `answers`, (text, start).
        answers: `{id: text}`, the predicted answer of every example, "" for none.

    Raises:
        BertTfError: no example, or one without a prediction.
    """
    answers = _of_each(examples, answers, "answer")
    total = 0.0
    for example in examples:
        predicted = _korquad_normalized(answers[example.id])
        total += max((_character_f1(predicted, _korquad_normalized(text))
                      for text, _ in example.answers), default=float(not predicted))
    return 100.0 * total / len(examples)


def _korquad_normalized(text):
    text = _KORQUAD_MARKS.sub(" ", text).lower().translate(_PUNCTUATION)
    return " ".join(text.split())


def _character_f1(predicted, gold):
    predicted, gold = predicted.replace(" ", ""), gold.replace(" ", "")
    common = (collections.Counter(predicted) & collections.Counter(gold)).total()
    return 2 * common / (len(predicted) + len(gold)) if common else 0.0


def _of_each(examples, predicted, what):
    """Return `{id: value}` of these examples only: with others the evaluator of version 2 fails."""
    check_some(examples)
    for example in examples:
        if example.id not in predicted:
            raise BertTfError(explain(f"no {what} predicted for question {example.id}",
                                      "one for each question"))
    return {example.id: predicted[example.id] for example in examples}


def _articles(examples):
    """Return the examples in the form of SQuAD's files, one article each."""
    return [{"paragraphs": [{"qas": [{
        "id": example.id, "answers": [{"text": text} for text, _ in example.answers]}]}]}
        for example in examples]


def _check_answered(examples):
    for example in examples:
        if not example.answers:
            raise BertTfError(explain(f"question {example.id} has no answer",
                                      "at least one in this version", "task squad_v2"))
