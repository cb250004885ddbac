"""Labelled texts and pairs as what a `Classifier` learns from."""

import numpy as np
import tensorflow as tf

from bert_tf.data.task_input import Features, Ragged, by_length
from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.examples import label_numbers, number_of
from bert_tf.tokenization.morphemes import pretokenize

_CHUNK_CHARACTERS = 1 << 20  # of the texts that are tokenized together, padded
_CHUNK_ROWS = 1024  # of those counted together


def text_features(examples, preprocessor, labels, problem, class_weights=None):
    """Tokenize, pack and number the labels.

    Args:
        examples: list of `TextExample`, all of single texts or all of pairs.
        preprocessor: a `TextPreprocessor`.
        labels: names of the classes in the order of their logits; of a regression, of the number.
        problem: `single_label`, `multi_label` or `regression`, see `Classifier`.
        class_weights: of `single_label`: `"balanced"` weighs a class of `count` of the n examples
            with n / (classes * count), as scikit-learn does; or a dict of a weight a label. They
            become `example_weights`.

    Returns:
        `Features`, a row an example, with `label_ids` unless no example has a label: int32 `[n]`,
        int32 `[n, labels]` or float32 `[n]`, of soft labels float32 `[n, labels]`; -1 or nan where
        there is none.

    Raises:
        BertTfError: a label is unknown; the message names file and line of the example.
        UsageError: single texts and pairs are mixed, or weights do not fit.
    """
    texts = {name: pretokenize(preprocessor.tokenizer, column, progress=True)
             for name, column in _texts(examples).items()}
    rows = read_texts(texts, preprocessor)
    values = [example.label for example in examples]
    if any(value is not None for value in values):
        soft = any(example.probabilities is not None for example in examples)
        rows["label_ids"] = (_soft if soft else _NUMBERED[problem])(examples, labels)
    if class_weights:
        if problem != "single_label":
            raise UsageError(explain(f"class weights with problem={problem!r}", "single_label"))
        rows["example_weights"] = _weights(_single(examples, labels), labels, class_weights)
    return Features(rows, np.arange(len(examples)), preprocessor.window,
                    len(truncated_rows(rows, texts, preprocessor)))


def truncated_rows(rows, texts, preprocessor):
    """Return int64: which texts are longer than what the preprocessor reads of them.

    Args:
        rows, texts, preprocessor: what `read_texts` gives, and its arguments.
    """
    if preprocessor.long == "windows":
        return np.zeros(0, np.int64)
    full = np.flatnonzero(rows["input_word_ids"].lengths >= preprocessor.seq_length)
    truncated = [np.zeros(0, np.int64)]
    for chunk in np.array_split(full, -(-len(full) // _CHUNK_ROWS) or 1):
        lengths = preprocessor.count([tf.constant([column[row] for row in chunk], tf.string)
                                      for column in texts.values()])
        truncated.append(chunk[lengths.numpy() > preprocessor.seq_length])
    return np.concatenate(truncated)


def read_texts(texts, preprocessor, names=("input_word_ids", "input_type_ids")):
    """Return the token ids of texts.

    Args:
        texts: dict of lists of strings, `text`, or `text_a` and `text_b`; what
            `morphemes.pretokenize` gives.
        preprocessor: a `TextPreprocessor`, or what is called as one.
        names: of its outputs.

    Returns:
        dict of Ragged int32, see `Features`, of the positions that any mask among its outputs has.
    """
    characters = sum(np.array([len(text) for text in column], np.int64)
                     for column in texts.values())
    groups = by_length(characters, _CHUNK_CHARACTERS)
    lengths = np.zeros(len(characters), np.int64)
    flat = {name: [] for name in names}
    for group in groups:
        read = preprocessor({name: tf.constant([column[index] for index in group])
                       for name, column in texts.items()})
        real = np.any([read[name].numpy() > 0 for name in read if name.endswith("mask")], 0)
        # A text may have several windows: an axis of its own, or `rows` of a `WordPreprocessor`.
        lengths[group] = np.bincount(read.get("rows", np.arange(len(group))),
                                     real.reshape(len(real), -1).sum(axis=1), len(group))
        for name, parts in flat.items():
            parts.append(read[name].numpy()[real])
    return {name: in_place(groups, lengths, parts) for name, parts in flat.items()}


def in_place(groups, lengths, parts):
    """Return flat `parts` of rows in the order of `groups` as ragged rows in their original
    order."""
    splits = np.concatenate([[0], np.cumsum(lengths)])
    order = np.concatenate([*groups, np.zeros(0, np.int64)])
    starts, sizes = splits[:-1][order], lengths[order]
    # Where each row's first value goes, plus the distance from it.
    after = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    positions = np.repeat(starts - after, sizes) + np.arange(splits[-1])
    values = np.empty(splits[-1], np.int32)
    values[positions] = np.concatenate([*parts, np.zeros(0, np.int32)])
    return Ragged(values, splits)


def _texts(examples):
    pairs = [example.text_b is not None for example in examples]
    if not any(pairs):
        return {"text": [example.text_a for example in examples]}
    if not all(pairs):
        example = examples[pairs.index(not pairs[0])]
        kind = "a pair" if example.text_b is not None else "a single text"
        raise UsageError(explain(f"{example.where}: {kind}, unlike the examples before",
                                 "all pairs or all single texts"))
    return {"text_a": [example.text_a for example in examples],
            "text_b": [example.text_b for example in examples]}


def _single(examples, labels):
    numbers = label_numbers(labels)
    return np.array([-1 if example.label is None else number_of(example.label, numbers, example)
                     for example in examples], np.int32)


def _multi(examples, labels):
    numbers = label_numbers(labels)
    rows = np.zeros((len(examples), len(labels)), np.int32)
    for row, example in zip(rows, examples, strict=True):
        if example.label is None:
            row[:] = -1
        else:
            row[[number_of(name, numbers, example) for name in example.label]] = 1
    return rows


def _soft(examples, labels):
    numbers = label_numbers(labels)
    rows = np.zeros((len(examples), len(labels)), np.float32)
    for row, example in zip(rows, examples, strict=True):
        if example.label is None:
            row[:] = np.nan
        for name, value in example.label_probabilities.items():
            row[number_of(name, numbers, example)] = value
    return rows


def _regression(examples, labels):
    return np.array([np.nan if example.label is None else example.label for example in examples],
                    np.float32)


_NUMBERED = {"single_label": _single, "multi_label": _multi, "regression": _regression}


def _weights(label_ids, labels, class_weights):
    """Return float32 `[n]`, 1 where there is no label."""
    known = label_ids[label_ids >= 0]
    counts = np.bincount(known, minlength=len(labels))
    if class_weights == "balanced":
        weights = len(known) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    else:
        if set(class_weights) != set(labels):
            raise UsageError(explain(f"class weights for {', '.join(sorted(class_weights))}",
                                     f"a weight for each of {', '.join(labels)}"))
        weights = np.array([class_weights[name] for name in labels])
    return np.where(label_ids >= 0, weights[label_ids], 1.0).astype(np.float32)
