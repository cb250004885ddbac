"""Where the regular expressions of byte-level tokenizers begin a match: text as words.

They are written out, in operations on all characters at once, because RE2 cannot look ahead.
"""

import functools
import sys
import unicodedata

import numpy as np
import tensorflow as tf

from bert_tf.errors import check_choice
from bert_tf.tokenization import normalization as normalizing

# Kinds of characters; the white ones come first.
_BLANK, _NEWLINE, _WHITE, _LETTER, _NUMBER, _OTHER = range(6)
# As a `tokenizer.json` has them; the first one is that of the pre-tokenizer ByteLevel.
EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
EXPRESSIONS["qwen2"] = EXPRESSIONS["llama3"].replace(r"\p{N}{1,3}", r"\p{N}")
_LONG_S = "\u017f"  # which is an s in another case


class WordPattern(tf.Module):
    """Splits text into the matches of an expression, which are all of the text.

    Args:
        pattern: a name in `EXPRESSIONS`.
    """

    def __init__(self, pattern):
        super().__init__(name="word_pattern")
        self._starts = {
            "gpt2": _gpt2, "llama3": functools.partial(_llama3, digits=3),
            "qwen2": functools.partial(_llama3, digits=1),
        }[check_choice("pattern", pattern, EXPRESSIONS)]
        firsts, kinds = _character_kinds()
        self._firsts, self._kinds = tf.constant(firsts), tf.constant(kinds)

    def words(self, text):
        """Split text, string `[n]`: words, string `[words]`, and which text each is of, int64
        `[words]`."""
        characters = tf.strings.unicode_decode(text, "UTF-8")
        code_points, rows = characters.values, characters.value_rowids()
        first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0)
        kind = tf.gather(self._kinds,
                         tf.searchsorted(self._firsts, code_points, side="right") - 1)
        places = tf.where(self._starts(code_points, kind, first))[:, 0]
        words = tf.RaggedTensor.from_row_starts(code_points, places, validate=False)
        return tf.strings.unicode_encode(words, "UTF-8"), tf.gather(rows, places)


def _gpt2(code_points, kind, first):
    """Return where words begin, bool `[k]`.

    Of white space before a word, all but the last character is a match, and a blank that is last
    belongs to the word.

    Args:
        code_points: int32 `[k]`, of all texts one after the other.
        kind: int32 `[k]`, the characters' kinds.
        first: bool `[k]`, true for the first character of a text.
    """
    white = kind <= _WHITE
    last = tf.roll(first, -1, 0)
    before_word = ~last & ~tf.roll(white, -1, 0)
    previous = tf.roll(kind, 1, 0)
    starts = first | tf.where(white, (previous > _WHITE) | before_word,
                              (kind != previous) & (previous != _BLANK))
    short, long = _endings(code_points, starts, last, str)
    starts &= ~tf.roll(short | long, 1, 0)
    return starts | tf.roll(short, 2, 0) | tf.roll(long, 3, 0)


def _llama3(code_points, kind, first, digits):
    """Return where words begin, as `_gpt2`; of numbers after every so many `digits`.

    Letters take the one character before them, but for a line break or a number. Several that are
    none of these keep together, as does one after a blank, which goes with them; line breaks after
    them are theirs. Of white space all up to its last line break is a match.
    """
    white, newline, other = kind <= _WHITE, kind == _NEWLINE, kind == _OTHER
    last = tf.roll(first, -1, 0)
    before_word = ~last & ~tf.roll(white, -1, 0)
    previous = tf.where(first, _NEWLINE, tf.roll(kind, 1, 0))
    begins = first | (kind != previous)  # a run of one kind

    # Line breaks that belong to what is before them, and the last ones within white space.
    place = tf.range(tf.size(kind))
    taken = newline & ~first & (_of_run(begins, previous) == _OTHER)
    run = tf.cumsum(tf.cast(first | (white != tf.roll(white, 1, 0)), tf.int32)) - 1
    last_break = tf.gather(tf.math.segment_max(tf.where(newline, place, -1), run), run)
    after_taken = tf.roll(taken, 1, 0) & ~first
    starts_white = ~taken & ((first | (previous > _WHITE) | after_taken)
                             | (place == last_break + 1) | (before_word & ~newline))

    # What is alone before letters is theirs.
    alone = other & begins & (last | ~tf.roll(other, -1, 0))
    starts_other = begins & (first | (previous != _BLANK))
    joins = tf.where(white, ~newline, alone & starts_other) & ~last
    starts_letter = begins & (first | ~tf.roll(joins, 1, 0))
    begun = _of_run(begins, place)
    starts = tf.where(white, starts_white, tf.where(
        kind == _LETTER, starts_letter, tf.where(
            other, starts_other, (place - begun) % digits == 0)))
    short, long = _endings(code_points, starts & alone, last, lambda letters: (
        letters + letters.upper() + (_LONG_S if "s" in letters else "")))
    return starts | tf.roll(short, 2, 0) | tf.roll(long, 3, 0)


def _of_run(begins, values):
    """The values at the beginning of each one's run."""
    return tf.gather(tf.boolean_mask(values, begins), tf.cumsum(tf.cast(begins, tf.int32)) - 1)


def _endings(code_points, starts, last, cases):
    """Where the English endings 's 't 'm 'd begin, and 're 've 'll: bool `[k]` twice.

    Args:
        code_points, starts, last: of all characters; an ending begins where a word does.
        cases: what letters may be instead of those of a str.
    """
    second, third = tf.roll(code_points, -1, 0), tf.roll(code_points, -2, 0)
    apostrophe = starts & (code_points == ord("'")) & ~last
    short = apostrophe & _is_any(second, cases("stmd"))
    long = apostrophe & ~tf.roll(last, -1, 0) & (
        (_is_any(second, cases("rv")) & _is_any(third, cases("e")))
        | (_is_any(second, cases("l")) & _is_any(third, cases("l"))))
    return short, long


@functools.cache
def _character_kinds():
    """Ranges of characters of one kind: first code points int32 `[r]` and kinds int32 `[r]`."""
    kinds = np.full(sys.maxunicode + 1, _OTHER, np.int32)
    categories = np.array([*map(unicodedata.category, map(chr, range(len(kinds))))], "S1")
    kinds[categories == b"L"], kinds[categories == b"N"] = _LETTER, _NUMBER
    for first, last in normalizing.WHITE_SPACE:
        kinds[first:last + 1] = _WHITE
    kinds[ord(" ")] = _BLANK
    kinds[[ord("\r"), ord("\n")]] = _NEWLINE
    firsts = np.flatnonzero(np.diff(kinds, prepend=-1)).astype(np.int32)
    return firsts, kinds[firsts]


def _is_any(code_points, characters):
    return tf.reduce_any(code_points[:, tf.newaxis] == [ord(c) for c in characters], axis=1)
