"""Answers to questions about a text: the signature `answer`."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.question_answering import answers
from bert_tf.tasks.question_answering.preprocessor import QuestionReader

# What is told of the best answer, and of all.
BEST = {"answer": "answers", "score": "scores", "start": "starts", "end": "ends"}


def answer(served, question, context):
    """The answer to each question, and the next best ones, each a part of its own `context`.

    `answer [B]`, its probability `score [B]`, and `start` and `end [B]`, the characters of the
    context, as Python counts them, from which and up to which it goes: `""` and 0 where the model
    takes the question for one without an answer in the context, as `has_answer [B]` says.
    `answers [B, n]`, n the model's `n_best`, whatever `has_answer` says, best first, with their
    `scores`, `starts` and `ends [B, n]`. `no_answer_score [B]` says how much "no answer" is
    preferred to the best one.
    """
    model = served.model
    reader = model.reader or QuestionReader(served.tokenizer, served.seq_length)
    ranked = answers.answer(model, reader, question, context, model.null_threshold)
    best = {one: ranked[several][:, 0] for one, several in BEST.items()}
    return {**{name: tf.where(ranked["has_answer"], value, tf.zeros_like(value))
               for name, value in best.items()}, **ranked}


def clear_decisions(served, answer, tolerance):
    """Bool `[B]`: `no_answer_score` is further from the threshold than rounding may move it."""
    score, threshold = answer["no_answer_score"], served.model.null_threshold
    if threshold is None:
        return np.ones(len(score), bool)
    return np.abs(score - threshold) > 2 * tolerance * np.maximum(1, np.abs(score))
