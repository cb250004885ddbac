"""Questions with answers as what a `QuestionAnswering` learns from."""

import numpy as np
import tensorflow as tf

from bert_tf.data.task_input import Features, Ragged
from bert_tf.errors import BertTfError, explain
from bert_tf.tasks.question_answering.analysed import analysed_spans

_BATCH = 64  # questions that are tokenized together


def span_features(examples, preprocessor, training):
    """Tokenize, split into windows and find the answers in them.

    Args:
        examples: list of `SpanExample`.
        preprocessor: a `QuestionPreprocessor`.
        training: whether rows have labels. Those of an example are about its first answer.

    Returns:
        `Features`, a row a window; for training with int32 `[w]` `start_positions` and
        `end_positions`: the tokens where the answer starts and ends, both 0 (`[CLS]`) in a window
        that does not hold all of it or where there is none (google-research/bert `run_squad.py`).
        A boundary inside a token is at that token.

    Raises:
        BertTfError: an answer of which the tokenizer leaves nothing, such as a control character.
    """
    if getattr(preprocessor.tokenizer, "pretokenize", None):
        examples = analysed_spans(examples)
    flat = {"input_word_ids": [], "input_type_ids": []}
    lengths, rows, labels = [], [], []
    truncated = 0
    for first in range(0, len(examples), _BATCH):
        batch = examples[first:first + _BATCH]
        questions = tf.constant([example.question for example in batch])
        windows = preprocessor((questions, tf.constant([example.context for example in batch])))
        sizes = preprocessor.tokenizer.tokenize(questions).row_lengths()
        truncated += int(np.sum(sizes.numpy() > preprocessor.max_query_length))
        windows = {name: value.numpy() for name, value in windows.items()}
        real = windows["input_mask"] > 0
        for name, parts in flat.items():
            parts.append(windows[name][real])
        lengths.append(real.sum(axis=1))
        rows.append(first + windows["rows"])
        if training:
            labels.append(_labels(batch, windows))
    splits = np.concatenate([[0], np.cumsum(_joined(lengths, np.int64))])
    values = {name: Ragged(_joined(parts, np.int32), splits) for name, parts in flat.items()}
    if training:
        found = np.concatenate([*labels, np.zeros([0, 2], np.int32)])
        values["start_positions"], values["end_positions"] = found.T
    return Features(values, _joined(rows, np.int64), truncated=truncated)


def _labels(examples, windows):
    """Return the first and last token of the answer in each window, int32 `[w, 2]`."""
    bounds = np.array([_bytes(example) for example in examples]).reshape(-1, 2)
    begin, end = bounds[windows["rows"]].T[:, :, np.newaxis]
    # Tokens that have some of the answer; outside of the context `ends` is 0.
    covered = (windows["ends"] > begin) & (windows["starts"] < end)

    def number(which):
        """Count an answer's characters that have such a token, [w]; in all windows, [b]."""
        here = covered & windows[which]
        once = (here & windows["max_context"]).sum(axis=1)
        return here.sum(axis=1), np.bincount(windows["rows"], once, len(examples))

    (opened, all_opened), (closed, all_closed) = number("opens"), number("closes")
    for example, (start, _), found in zip(examples, bounds, all_opened, strict=True):
        if start >= 0 and not found:
            raise BertTfError(explain(
                f"{example.where}: of the answer {example.answers[0][0]!r} the tokenizer leaves "
                "nothing", "an answer with letters, digits or other visible characters"))
    whole = ((opened == all_opened[windows["rows"]]) & (closed == all_closed[windows["rows"]])
             & (opened > 0))
    last = covered.shape[1] - 1 - covered[:, ::-1].argmax(axis=1)
    found = np.stack([covered.argmax(axis=1), last], axis=1)
    return np.where(whole[:, np.newaxis], found, 0).astype(np.int32)


def _bytes(example):
    """Return the first answer's bytes in the context, `(begin, end)`; -1 both where there is
    none."""
    if example.is_impossible or not example.answers:
        return -1, -1
    text, first = example.answers[0]
    begin = len(example.context[:first].encode())
    return begin, begin + len(text.encode())


def _joined(parts, dtype):
    return np.concatenate([*parts, np.zeros(0, dtype)]).astype(dtype)
