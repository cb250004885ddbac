"""From the logits of a span model to answers, inside the graph: what is measured is what is served.

The rules are those of google-research/bert `run_squad.py`, `write_predictions`, but that all spans
of a window are ranked and not only those between its twenty best starts and ends.
"""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.models.families import INPUTS
from bert_tf.tasks.base.long_texts import in_parts
from bert_tf.tokenization.base import valid_text
from bert_tf.tokenization.morphemes import in_original, pretokenize
from bert_tf.tokenization.offsets import character_offsets
from bert_tf.tokenization.texts import text_list

_NEVER = -np.inf  # logit of where no answer may start or end
NO_SPAN = -10000.0  # score of the best span of a context that has none


def answer(model, preprocessor, question, context, null_threshold=None):
    """Answer questions, each from its context.

    Args:
        model: a `QuestionAnswering`; its `n_best` and `max_answer_length` count.
        preprocessor: a `QuestionPreprocessor`.
        question, context: string `[b]`, UTF-8; what is not becomes U+FFFD.
        null_threshold: see `answers_from`.

    Returns: what `answers_from` gives.
    """
    windows = preprocessor((question, context))
    start_logits, end_logits = window_logits(model, windows)
    spans = best_spans(windows, start_logits, end_logits, tf.size(question), model.n_best,
                       model.max_answer_length)
    return answers_from(spans, valid_text(context), null_threshold)


def answers_to(ask, question, context, tokenizer):
    """Find answers in the context as given, whatever of it the model was shown.

    Args:
        ask: called with question and context, string tensors `[b]`; gives what `answers_from` does.
        question, context: as many of each, of what `text_list` takes.
        tokenizer: its `pretokenize` decides whether the model sees morphemes.

    Returns: what `answers_from` gives.

    Raises: as `pretokenize`, or
        UsageError: there are not as many of each.
    """
    texts = [text_list(texts, name) for texts, name in ((question, "question"),
                                                        (context, "context"))]
    if len(texts[0]) != len(texts[1]):
        raise UsageError(explain(f"{len(texts[0])} questions and {len(texts[1])} contexts",
                                 "as many of each"))
    seen = [pretokenize(tokenizer, each) for each in texts]
    found = dict(ask(*(tf.constant(each, tf.string) for each in seen)))
    if seen[1] is texts[1]:
        return found
    rows = [in_original(*row) for row in zip(texts[1], seen[1], found["starts"].numpy(),
                                             found["ends"].numpy(), strict=True)]
    shape = found["starts"].shape
    for name, values in zip(("starts", "ends", "answers"),
                            zip(*rows, strict=True) if rows else ([], [], []), strict=True):
        found[name] = tf.reshape(tf.constant(list(values), found[name].dtype), shape)
    return found


def window_logits(model, windows):
    """Compute the start and end logits, float32 `[w, seq_length]` each, some windows at a time."""
    def logits_of(part):
        logits = model(part, training=False)
        return [logits["start_logits"], logits["end_logits"]]

    return in_parts(logits_of, {name: windows[name] for name in INPUTS},
                    *[tf.TensorSpec([None, None])] * 2)


def best_spans(windows, start_logits, end_logits, num_rows, n_best, max_answer_length):
    """Find the spans of highest score, start logit plus end logit, over all windows of each
    question.

    A span lies in the context, ends where it starts or after and holds `max_answer_length` tokens
    at most. It is taken from the window that shows most around its first token (`max_context`),
    so that no span is there twice. Of equal scores the span that comes first in the text is first.

    Args:
        windows: what `QuestionPreprocessor` gives.
        start_logits, end_logits: float32 `[w, seq_length]`.
        num_rows: questions `b`, an integer or a scalar tensor.
        n_best, max_answer_length: integers.

    Returns:
        dict of `scores` float32 `[b, n_best]`, best first, -inf where there are no more spans,
        `starts` and `ends` int64 `[b, n_best]`, byte offsets into the context, and `null_scores`
        float32 `[b]`, the least score of `[CLS]` over the windows.
    """
    may_start = windows["opens"] & windows["max_context"]
    first = tf.where(may_start, start_logits, _NEVER)
    last = tf.where(windows["closes"], end_logits, _NEVER)
    length = tf.shape(first)[1]
    last = tf.pad(last, [[0, 0], [0, max_answer_length - 1]], constant_values=_NEVER)
    after = tf.range(length)[:, tf.newaxis] + tf.range(max_answer_length)

    def best_of(part):
        # [n, seq_length, max_answer_length]: of each first token the last ones from itself on.
        scores = part["first"][:, :, tf.newaxis] + tf.gather(part["last"], after, axis=1)
        return _top(tf.reshape(scores, [tf.shape(scores)[0], length * max_answer_length]), n_best)

    scores, spans = in_parts(best_of, {"first": first, "last": last},
                             tf.TensorSpec([None, n_best]), tf.TensorSpec([None, n_best], tf.int32))
    first = spans // max_answer_length
    last = tf.minimum(first + spans % max_answer_length, length - 1)

    def of_rows(values, fill):
        """Reshape `[w, n_best]` to `[b, windows * n_best]`."""
        ragged = tf.RaggedTensor.from_value_rowids(values, windows["rows"],
                                                   tf.cast(num_rows, tf.int64), validate=False)
        dense = ragged.to_tensor(fill)
        return tf.reshape(dense, [num_rows, tf.shape(dense)[1] * n_best])

    starts = of_rows(tf.gather(windows["starts"], first, batch_dims=1), 0)
    ends = of_rows(tf.gather(windows["ends"], last, batch_dims=1), 0)
    scores, places = _top(of_rows(scores, _NEVER), n_best)
    null_scores = tf.math.unsorted_segment_min(
        tf.reduce_sum(start_logits[:, :1] + end_logits[:, :1], axis=1), windows["rows"], num_rows)
    real = scores > _NEVER
    return {"scores": scores, "null_scores": null_scores,
            **{name: tf.where(real, tf.gather(values, places, batch_dims=1), 0)
               for name, values in (("starts", starts), ("ends", ends))}}


def answers_from(spans, context, null_threshold=None):
    """Return spans as text, with probabilities.

    Args:
        spans: what `best_spans` gives.
        context: string `[b]`, valid UTF-8, of which the answers are parts.
        null_threshold: how much more `[CLS]` may score than the best span before a question has no
            answer, a float or a scalar tensor; None where every question has one.

    Returns:
        dict of
        `answers` string `[b, n_best]`, best first, `""` where there are no more;
        `scores` float32 `[b, n_best]`, their probabilities: the softmax over all of them and, with
        a threshold, that there is none, which is what is missing to 1;
        `starts` and `ends` int32 `[b, n_best]`, characters of the context as Python counts them;
        `no_answer_score` float32 `[b]`, the score of `[CLS]` less that of the best span;
        `has_answer` bool `[b]`.
    """
    starts, ends = spans["starts"], spans["ends"]
    real = spans["scores"] > _NEVER
    scores = spans["scores"]
    if null_threshold is not None:
        scores = tf.concat([scores, spans["null_scores"][:, tf.newaxis]], axis=1)
    probabilities = tf.nn.softmax(tf.maximum(scores, NO_SPAN))[:, :tf.shape(starts)[1]]
    no_answer_score = spans["null_scores"] - tf.maximum(spans["scores"][:, 0], NO_SPAN)
    has_answer = real[:, 0]
    if null_threshold is not None:
        has_answer &= no_answer_score <= null_threshold
    # The op takes one offset a string.
    texts = tf.repeat(context, tf.shape(starts)[1])
    answers = tf.reshape(tf.strings.substr(texts, tf.reshape(starts, [-1]),
                                           tf.reshape(ends - starts, [-1])), tf.shape(starts))
    return {"answers": answers, "scores": tf.where(real, probabilities, 0.0),
            "starts": _characters(context, starts), "ends": _characters(context, ends),
            "no_answer_score": no_answer_score, "has_answer": has_answer}


def _top(values, count):
    """Return `tf.math.top_k` of rows, which may be shorter than `count`: -inf where there is
    nothing."""
    length = tf.shape(values)[1]
    padded = tf.pad(values, [[0, 0], [0, tf.maximum(count - length, 0)]], constant_values=_NEVER)
    best, places = tf.math.top_k(padded, count)
    return best, tf.minimum(places, length - 1)


def _characters(text, offsets):
    """Convert byte offsets `[b, n]` to int32 offsets in characters."""
    ragged = tf.RaggedTensor.from_tensor(offsets, row_splits_dtype=tf.int64)
    found = character_offsets(text, ragged)
    return tf.cast(tf.reshape(found.values, tf.shape(offsets)), tf.int32)
