"""The units of a text that are tagged, words or characters, and where they stand in it.

Only core TensorFlow ops are used, and no state.
"""

import functools
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tokenization import normalization

UNITS = ("word", "character")
# Kinds of characters: what joins belongs to the character before it.
_WHITE, _LETTER, _ALONE, _JOINS = range(4)


class Units(NamedTuple):
    """Units of texts; offsets are in characters, as Python's `str` counts them."""

    starts: tf.RaggedTensor  # int64 [n, (units)], the first character
    ends: tf.RaggedTensor  # int64 [n, (units)], the one after the last
    text: tf.Tensor  # string [all units]
    spaced: tf.Tensor  # bool [all units], at the text's beginning or after white space
    inside: tf.Tensor  # bool [all units], continues the word of the unit before


def split_units(text, unit, breaks=None):
    """Split texts into units.

    A word ends at white space; every punctuation mark and every Chinese character is a word, as
    for `Tokenizer`. A character is one that is not white space. In either case combining marks,
    jamo that compose with what is before, and characters that `Tokenizer` removes belong to the
    letter before them.

    Args:
        text: string `[n]`, UTF-8; what is not UTF-8 is read as U+FFFD.
        unit: `word` or `character`.
        breaks: RaggedTensor int64 `[n, (k)]`, characters at which a unit begins in any case.

    Returns: `Units`.
    """
    characters = tf.strings.unicode_decode(text, "UTF-8")
    points, rows = characters.values, characters.value_rowids()
    row_starts = tf.cast(characters.row_starts(), tf.int64)
    kind = _kinds_of(points)
    first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0)
    broken = first
    if breaks is not None:
        places = breaks.values + tf.gather(row_starts, breaks.value_rowids())
        broken |= tf.scatter_nd(places[:, tf.newaxis], tf.ones_like(places),
                                tf.shape(points, tf.int64)[:1]) > 0
    white = kind == _WHITE
    spaced = first | tf.roll(white, 1, 0)

    # What joins and has no letter to join is one.
    base = (kind != _JOINS) | broken | spaced | (tf.roll(kind, 1, 0) == _ALONE)
    letter = tf.where(base, (kind == _LETTER) | (kind == _JOINS), False)
    base_of = tf.cumsum(tf.cast(base, tf.int32)) - 1
    before = tf.roll(tf.gather(tf.boolean_mask(letter, base), base_of), 1, 0)
    inside = letter & before & ~spaced
    opens = base & ~white & (broken | ~inside | (unit == "character"))

    count = tf.cumsum(tf.cast(opens, tf.int64))
    text_of = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(points, ~white), tf.boolean_mask(count, ~white) - 1,
        tf.reduce_sum(tf.cast(opens, tf.int64)), validate=False)
    last = tf.concat([(opens | white | first)[1:], tf.ones_like(first[:1])], axis=0) & ~white
    starts, ends = tf.where(opens)[:, 0], tf.where(last)[:, 0] + 1
    of_row = tf.gather(rows, starts)

    def ragged(places):
        return tf.RaggedTensor.from_value_rowids(
            places - tf.gather(row_starts, of_row), of_row, tf.size(text, tf.int64),
            validate=False)

    return Units(ragged(starts), ragged(ends), tf.strings.unicode_encode(text_of, "UTF-8"),
                 tf.gather(spaced, starts), tf.gather(inside, starts))


def substrings(text, starts, ends):
    """Return parts of texts: string RaggedTensor `[n, (parts)]`.

    Args:
        text: string `[n]`.
        starts, ends: RaggedTensors int64 `[n, (parts)]`, characters as of `Units`.
    """
    characters = tf.strings.unicode_decode(text, "UTF-8")
    first = tf.gather(tf.cast(characters.row_starts(), tf.int64), starts.value_rowids())
    places = tf.ragged.range(starts.values + first, ends.values + first)
    parts = places.with_values(tf.gather(characters.values, places.values))
    return starts.with_values(tf.strings.unicode_encode(parts, "UTF-8"))


class CharacterPieces(tf.Module):
    """Word pieces of single characters, each as a `Tokenizer`'s vocabulary writes it.

    A character inside a word is looked up as a piece that continues one, `##e`, so that the model
    sees where words begin; where the vocabulary has only the other form, that is taken.

    Args:
        tokenizer: a `Tokenizer`.
    """

    def __init__(self, tokenizer):
        super().__init__(name="characters")
        self._normalize = tokenizer.normalize
        vocabulary = tokenizer.vocabulary
        forms = {False: {}, True: {}}
        for index, (token, continues) in enumerate(
                zip(vocabulary.tokens, vocabulary.continuation, strict=True)):
            character = token[2:] if continues else token
            if len(character) == 1:
                forms[bool(continues)][ord(character)] = index
        known = sorted({*forms[False], *forms[True]})
        self._known = tf.constant([*known, sys.maxunicode + 1], tf.int32)
        # [continues, character]; the last one is what no piece is of.
        self._ids = tf.constant([
            [forms[continues].get(point, forms[not continues].get(point)) for point in known]
            + [vocabulary.unk_id] for continues in (False, True)], tf.int32)

    def __call__(self, characters, inside):
        """Return ids of `characters`, string `[n]`, and whether each is `inside` a word, bool
        `[n]`.

        Returns: RaggedTensor int32 `[n, (pieces)]`: one, or none where normalizing removes the
            character, or several where it makes several of it.
        """
        points = tf.strings.unicode_decode(self._normalize(characters), "UTF-8")
        first = tf.ragged.range(points.row_lengths()).values == 0
        continues = tf.gather(inside, points.value_rowids()) | ~first
        place = tf.searchsorted(self._known, points.values)
        place = tf.where(tf.gather(self._known, place) == points.values, place,
                         tf.size(self._known) - 1)
        return points.with_values(tf.gather_nd(self._ids, tf.stack(
            [tf.cast(continues, tf.int32), place], axis=1)))


def _kinds_of(code_points):
    firsts, kinds = _character_kinds()
    return tf.gather(tf.constant(kinds),
                     tf.searchsorted(tf.constant(firsts), code_points, side="right") - 1)


@functools.cache
def _character_kinds():
    """Return ranges of characters of one kind: first code points int32 `[r]` and kinds int32
    `[r]`."""
    kinds = np.full(sys.maxunicode + 1, _LETTER, np.int32)
    for code_point in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code_point))
        if category[0] in "CMPZ":
            cleaned = normalization.clean(chr(code_point))
            if cleaned == " ":
                kinds[code_point] = _WHITE
            elif not cleaned or category[0] == "M":
                kinds[code_point] = _JOINS
            elif category[0] == "P":
                kinds[code_point] = _ALONE
    kinds[0xFFFD] = _JOINS
    for first, after in normalization.composing_edges().reshape(-1, 2):
        kinds[first:after] = _JOINS
    for character in "$+<=>^`|~":  # ASCII that is not alphanumeric
        kinds[ord(character)] = _ALONE
    for first, last in normalization.CHINESE:
        kinds[first:last + 1] = _ALONE
    firsts = np.flatnonzero(np.diff(kinds, prepend=-1)).astype(np.int32)
    return firsts, kinds[firsts]
