"""Answers to questions about a text: the signature `answer`."""

import numpy as np

from bert_tf.tasks import answers
from bert_tf.tasks.question_reader import QuestionReader


def answer(served, question, context):
    """The best answers, n the model's `n_best`, each a part of its own `context`, best first.

    `answers [B, n]` and their probabilities `scores [B, n]`; `starts` and `ends [B, n]`, the
    characters of the context, as Python counts them, from which and up to which an answer goes.
    `no_answer_score [B]` says how much "no answer" is preferred to the best one, and `has_answer
    [B]` whether the model takes the question for answered in the context.
    """
    model = served.model
    reader = model.reader or QuestionReader(served.tokenizer, served.seq_length)
    return answers.answer(model, reader, question, context, model.null_threshold)


def clear_decisions(served, answer, tolerance):
    """Bool `[B]`: `no_answer_score` is further from the threshold than rounding may move it."""
    score, threshold = answer["no_answer_score"], served.model.null_threshold
    if threshold is None:
        return np.ones(len(score), bool)
    return np.abs(score - threshold) > 2 * tolerance * np.maximum(1, np.abs(score))
