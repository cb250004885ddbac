"""A query and a passage within the text that a language model is asked by: a template, the texts
before, between and after the two, and which of them stands where."""

import itertools
import re

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tokenization.base import stripped, valid_text
from bert_tf.tokenization.offsets import compose

# Tokens of the two texts in the shortest window, and those that the template has further where they
# keep it from being cut into longer ones.
_ROOM = 16
_LITERAL = -1  # the owner of tokens of the template
# Which of the two a name in a template is of, and whether without the white space around it.
NAMES = {name + strip: (place, bool(strip)) for place, name in enumerate(("text_a", "text_b"))
         for strip in ("", ".strip()")}
# The names that a template may have, in its order.
ORDERS = [names for names in itertools.permutations(NAMES, 2)
          if {NAMES[name][0] for name in names} == {0, 1}]


def check_template(template):
    """Return a template as a list of five str; UsageError for what is none.

    Args:
        template: the texts before, between and after the two of a pair, and in between the names
            of these two, `text_a` and `text_b` in either order; `text_a.strip()` is the one
            without the white space around it. Without names `text_a` comes first, as it is.
    """
    parts = [*template] if isinstance(template, list | tuple) else []
    if len(parts) == 3:
        parts = [parts[0], "text_a", parts[1], "text_b", parts[2]]
    if not (len(parts) == 5 and all(isinstance(part, str) for part in parts)
            and tuple(parts[1::2]) in ORDERS):
        raise UsageError(explain(
            f"template={template!r}"[:200], "the texts before, between and after the two of a "
            f"pair, and perhaps in between their names, of {', '.join(NAMES)}"))
    return parts


def named(pair):
    """Return a dict of each name in a template to what of a pair, two str, it stands for."""
    return {name: pair[place].strip() if strip else pair[place]
            for name, (place, strip) in NAMES.items()}


class PairTemplate:
    """Reads pairs of texts within a template.

    Special tokens that the template names are these tokens; what the two texts have of them is
    text, as everywhere. What is between special tokens is tokenized together with the text in it,
    so that the ids are those of the whole; but white space between one of the two texts and a token
    with `lstrip` is text, which `allow_special` drops.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        template: as of `check_template`.

    Attributes:
        size: how many tokens there are around two empty texts.
        shortest: the least window that has space for text, too.
    """

    def __init__(self, tokenizer, template):
        self._tokenizer = tokenizer
        added = sorted((each.token for each in tokenizer.vocabulary.added_tokens), key=len,
                       reverse=True)
        pattern = re.compile("|".join(map(re.escape, added)) or "(?!)")
        # By turns: ids that are always the same, and what is tokenized, where 0 and 1 stand for the
        # two texts.
        before, first, between, second, after = check_template(template)
        (first, strip_first), (second, strip_second) = NAMES[first], NAMES[second]
        self._strip = {first: strip_first, second: strip_second}
        head, inner = _split(pattern, before, last=True)
        end, tail = _split(pattern, after, last=False)
        parts = [self._ids_of(head), [inner, first]]
        if found := [*pattern.finditer(between)]:
            begin, stop = found[0].start(), found[-1].end()
            parts[-1].append(between[:begin])
            parts += [self._ids_of(between[begin:stop]), [between[stop:], second]]
        else:
            parts[-1] += [between, second]
        parts[-1].append(end)
        self._parts = [*parts, self._ids_of(tail)]
        self.size = int(self.count([[""], [""]])[0])
        self.shortest = self.size + _ROOM

    def count(self, texts):
        """Count the tokens of pairs that are not truncated: int64 `[n]`.

        Args:
            texts: two tensors, or lists, string `[n]`.
        """
        return self._read(texts)[0].row_lengths()

    def pack(self, texts, seq_length):
        """Return what `tokenization.packing.pack` does of pairs, padded to the longest row.

        The template is whole; of a pair that is too long the longer text loses tokens from its end.

        Args:
            texts: two tensors string `[n]`.
            seq_length: the window, from `shortest` on.
        """
        ids, owners = self._read(texts)
        rows = ids.value_rowids()
        own = [tf.cast(owners == text, tf.int64) for text in (0, 1)]
        lengths = [tf.reduce_sum(ids.with_values(mine), axis=1) for mine in own]
        budget = tf.maximum(seq_length - (ids.row_lengths() - tf.add_n(lengths)), 0)
        first = tf.minimum(lengths[0], tf.maximum(budget - lengths[1], (budget + 1) // 2))
        kept = owners == _LITERAL
        for mine, length in zip(own, (first, tf.minimum(lengths[1], budget - first)), strict=True):
            place = tf.cumsum(mine, exclusive=True)
            place -= tf.gather(tf.gather(tf.concat([place, [0]], 0), ids.row_starts()), rows)
            kept |= (mine > 0) & (place < tf.gather(length, rows))
        ids = _ragged(tf.boolean_mask(ids.values, kept), tf.boolean_mask(rows, kept), ids.nrows())
        real = tf.sequence_mask(ids.row_lengths(), dtype=tf.int32)
        return {"input_word_ids": ids.to_tensor(self._tokenizer.vocabulary.pad_id),
                "input_mask": real, "input_type_ids": tf.zeros_like(real)}

    def _ids_of(self, text):
        with tf.init_scope():
            return np.array(self._tokenizer.tokenize([text], allow_special=True)[0], np.int32)

    def _read(self, texts):
        """Return the ids, RaggedTensor int32 `[n, (tokens)]`, and of all of them in a row the text
        that each is of, 0 or 1, or `_LITERAL`."""
        texts = [valid_text(tf.convert_to_tensor(text, tf.string)) for text in texts]
        texts = [stripped(text) if self._strip[place] else text
                 for place, text in enumerate(texts)]
        if self._tokenizer.composes:  # as then no character becomes several, offsets are exact
            texts = [*map(compose, texts)]
        count, found = tf.size(texts[0], tf.int64), []
        for part in self._parts:
            if isinstance(part, list):
                found.append(self._between(part, texts))
                continue
            ids = tf.tile(part, [count])
            rows = tf.repeat(tf.range(count), len(part))
            found.append((ids, rows, tf.fill(tf.shape(ids), _LITERAL)))
        ids, rows, owners = (tf.concat(each, 0) for each in zip(*found, strict=True))
        order = tf.argsort(rows, stable=True)  # of a row, the parts one after the other
        return _ragged(tf.gather(ids, order), tf.gather(rows, order), count), tf.gather(owners,
                                                                                        order)

    def _between(self, part, texts):
        """Return ids, rows and owners of what is tokenized together, each `[tokens]`."""
        joined = [texts[each] if isinstance(each, int) else tf.fill(tf.shape(texts[0]), each)
                  for each in part]
        ids, starts, ends = self._tokenizer.tokenize_with_offsets(tf.strings.join(joined))
        rows, begin = ids.value_rowids(), tf.zeros_like(ids.row_lengths())
        owners = tf.fill(tf.shape(rows), _LITERAL)
        for each, text in zip(part, joined, strict=True):
            end = begin + tf.cast(tf.strings.length(text), begin.dtype)
            if isinstance(each, int):
                inside = (starts.values >= tf.gather(begin, rows)) & (
                    ends.values <= tf.gather(end, rows))
                owners = tf.where(inside, each, owners)
            begin = end
        return ids.values, rows, owners


def _ragged(values, rows, count):
    return tf.RaggedTensor.from_value_rowids(values, rows, count, validate=False)


def _split(pattern, text, last):
    """Split a text after its last special token, or before its first one: two str."""
    found = [*pattern.finditer(text)]
    if last:
        place = found[-1].end() if found else 0
    else:
        place = found[0].start() if found else len(text)
    return text[:place], text[place:]
