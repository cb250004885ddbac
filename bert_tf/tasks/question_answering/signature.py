"""Answers to questions about a text: the signature `answer`."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base.signature import Signature, clear_ranks, result, texts
from bert_tf.tasks.question_answering import answers
from bert_tf.tasks.question_answering.model import QuestionAnswering
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor

# Outputs about the best answer, and those about all of which they are the first.
BEST = {"answer": "answers", "score": "scores", "start": "starts", "end": "ends"}


def signatures(served):
    """Return `{name: Signature}` of a served `QuestionAnswering` that takes text."""
    if not isinstance(served.model, QuestionAnswering) or served.tokenizer is None:
        return {}
    return {"answer": Signature(answer, texts("question", "context"), "span", {
        "answer": result("span", of="context", name="answer", text="answer", score="score",
                         start="start", end="end", given="has_answer"),
        "no_answer_score": result("number", value="no_answer_score"),
        "answers": result("spans", of="context", name="answer", text="answers", score="scores",
                          start="starts", end="ends")}, main=True, compared=_compared)}


def answer(served, question, context):
    """Return the answer to each question, and the next best ones, each a part of its `context`.

    `answer [B]`, its probability `score [B]`, and `start` and `end [B]`, the characters of the
    context, as Python counts them, from which and up to which it goes: `""` and 0 where the model
    takes the question for one without an answer in the context, which `has_answer [B]` reports.
    `answers [B, n]`, n the model's `n_best`, whatever `has_answer` is, best first, with their
    `scores`, `starts` and `ends [B, n]`. `no_answer_score [B]` is how much "no answer" is
    preferred to the best one.
    """
    model = served.model
    preprocessor = model.preprocessor or QuestionPreprocessor(served.tokenizer, served.seq_length)
    ranked = answers.answer(model, preprocessor, question, context, model.null_threshold)
    best = {one: ranked[several][:, 0] for one, several in BEST.items()}
    return {**{name: tf.where(ranked["has_answer"], value, tf.zeros_like(value))
               for name, value in best.items()}, **ranked}


def _compared(served, inputs, actual, expected, tolerance):
    """See `Signature.compared`."""
    ranks = clear_ranks(expected["scores"], tolerance)
    decided = clear_decisions(served, expected, tolerance)
    return actual, expected, {
        **dict.fromkeys(("answers", "starts", "ends"), ranks), "has_answer": decided,
        **dict.fromkeys(BEST, decided & ranks[:, 0]), "score": decided}


def clear_decisions(served, answer, tolerance):
    """Return bool `[B]`: `no_answer_score` is further from the threshold than rounding moves it."""
    score, threshold = answer["no_answer_score"], served.model.null_threshold
    if threshold is None:
        return np.ones(len(score), bool)
    return np.abs(score - threshold) > 2 * tolerance * np.maximum(1, np.abs(score))
