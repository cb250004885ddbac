"""Tagged words as what a `TokenClassifier` learns from and is asked."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.data.tables import composed
from bert_tf.data.task_input import Features, Ragged
from bert_tf.tasks.base.examples import label_numbers, number_of
from bert_tf.tasks.token_classification.examples import OUTSIDE
from bert_tf.tokenization.morphemes import analysed_places, original_offsets, pretokenize

_CHUNK_CHARACTERS = 1 << 20  # of the texts that are read together
_IGNORED = -1


@dataclasses.dataclass(frozen=True)
class TagFeatures(Features):
    """A row for each window.

    Attributes:
        units: int64 `[u, 3]`, of every unit the word it is of, counted over all examples, and row
            and position of its first piece; ascending. A word that the tokenizer splits, `don't`,
            has several; one that it removes has none.
    """

    units: np.ndarray | None = None


def tag_features(examples, preprocessor, labels=None):
    """Read the words of examples; what their text is, and so what is between them, is kept.

    The tag of a word is that of its first piece (BERT, 5.3). The other pieces have none, also where
    the tokenizer splits a word into several, as it would do in running text: learned from too, the
    many pieces of addresses and the like, all outside of entities, cost recall. Where the
    preprocessor reads words and examples have tags of characters, a word has that of its first one.

    Args:
        examples: list of `TagExample`.
        preprocessor: a `WordPreprocessor`.
        labels: names of the tags in the order of their logits; None makes no `label_ids`.

    Returns:
        `TagFeatures`, with Ragged int32 `label_ids`, one a token, -1 where there is none.

    Raises:
        BertTfError: a tag is unknown; the message names file and line of the example.
    """
    parts, chunk, size = [], [], 0
    for example in examples:
        chunk.append(example)
        size += sum(map(len, example.words))
        if size > _CHUNK_CHARACTERS:
            parts.append(_read(chunk, preprocessor))
            chunk, size = [], 0
    if chunk or not parts:
        parts.append(_read(chunk, preprocessor))
    ids, types, lengths, example, units = _joined(parts)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    rows = {"input_word_ids": Ragged(ids, splits), "input_type_ids": Ragged(types, splits)}
    if labels is not None:
        rows["label_ids"] = Ragged(_label_ids(
            examples, labels, units, splits,
            bool(getattr(preprocessor.tokenizer, "pretokenize", None))), splits)
    return TagFeatures(rows, example, units=units)


def _read(examples, preprocessor):
    """Return flat ids and type ids, `lengths` and `example` of the windows, and units, see
    above."""
    originals = [example.text for example in examples]
    starts = [example.starts for example in examples]
    texts = pretokenize(preprocessor.tokenizer, originals)
    if texts is not originals:
        starts = [analysed_places(original_offsets(original, text), row).tolist()
                  for original, text, row in zip(originals, texts, starts, strict=True)]
    breaks = [row if preprocessor.unit == "character" or example.unit == "word" else []
              for example, row in zip(examples, starts, strict=True)]
    read = preprocessor(tf.constant(texts, tf.string),
                        breaks=tf.ragged.constant(breaks, tf.int64, ragged_rank=1))
    read = {name: values.numpy() for name, values in read.items()}
    real = read["input_mask"] > 0
    # All texts after each other, so that one search finds the words of all units.
    after = np.cumsum([0, *(len(text) + 1 for text in texts)])
    words = np.concatenate([np.zeros(0, np.int64), *(
        np.array(row, np.int64) + first for row, first in zip(starts, after, strict=False))])
    units = read["unit_starts"] + np.repeat(after[:-1], read["num_units"])
    word = np.searchsorted(words, units, side="right") - 1
    return (read["input_word_ids"][real], read["input_type_ids"][real], real.sum(axis=1),
            read["rows"], np.column_stack([word, read["unit_places"]]), len(words),
            len(examples))


def _joined(parts):
    """Join the parts, each numbered from 0."""
    *columns, words, examples = zip(*parts, strict=True)
    ids, types, lengths, example, units = columns
    rows = list(map(len, lengths))
    example = [own + first for own, first in zip(example, np.cumsum([0, *examples[:-1]]),
                                                 strict=True)]
    units = [own + [first_word, first_row, 0] for own, first_word, first_row in zip(
        units, np.cumsum([0, *words[:-1]]), np.cumsum([0, *rows[:-1]]), strict=True)]
    return tuple(np.concatenate(column) for column in (ids, types, lengths, example, units))


def _label_ids(examples, labels, units, splits, every):
    """Return the ids of the labels, int32, one a token of all rows.

    `every` unit of a word has one, or only its first.
    """
    numbers = label_numbers(labels)
    tags = [number_of(tag, numbers, example, "tag") for example in examples
            for tag in example.tags]
    word, row, position = units.T
    first = np.diff(word, prepend=-1) > 0
    label_ids = np.full(splits[-1], _IGNORED, np.int32)
    tags = np.array(tags, np.int32)[word]
    if every:
        inside = np.array([numbers.get(name if name == OUTSIDE else f"I-{name[2:]}", _IGNORED)
                           for name in map(composed, labels)], np.int32)
        tags, first = np.where(first, tags, inside[tags]), word >= 0
    label_ids[(splits[row] + position)[first]] = tags[first]
    return label_ids
