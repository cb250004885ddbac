"""Composed text (NFC), and places in a text: before it and after, in bytes and in characters.

tensorflow-text has ops for the first (`NormalizeUTF8WithOffsetsMap`, `FindSourceOffsets`), but the
second of them crashes the process on an empty batch and refuses rows without offsets.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.tokenization import normalization

# `NormalizeUTF8` sorts a run of combining marks in a time that grows with its square: in texts of
# more bytes, so many marks of a run are sorted at once ("stream-safe", UAX #15 section 13).
_LONG_TEXT, _MOST_MARKS = 4096, 30


def compose(text):
    """Compose texts (NFC): string `[n]`, valid UTF-8 -> string `[n]`.

    Of more than 30 combining marks in succession in a text of more than 4,096 bytes each 30 are
    composed by themselves.
    """
    long = tf.where(tf.strings.length(text) > _LONG_TEXT)
    hostile = tf.boolean_mask(long, tf.strings.regex_full_match(
        tf.gather_nd(text, long), normalization.marks_pattern(_MOST_MARKS + 1)))
    return tf.cond(tf.size(hostile) > 0, lambda: _composed_in_parts(text, hostile),
                   lambda: tf_text.normalize_utf8(text, "NFC"))


# Rarely entered, and traced once a process, not for each tokenizer.
@tf.function(input_signature=[tf.TensorSpec([None], tf.string),
                              tf.TensorSpec([None, 1], tf.int64)], autograph=False)
def _composed_in_parts(text, hostile):
    """Compose texts, those of the rows `hostile` in parts."""
    characters = tf.strings.unicode_decode(text, "UTF-8")
    points, rows = characters.values, characters.value_rowids()
    is_hostile = tf.gather(tf.scatter_nd(hostile, tf.ones_like(hostile[:, 0], tf.bool),
                                         tf.shape(text, tf.int64)), rows)
    first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0)
    marks = tf.searchsorted(tf.constant(normalization.mark_edges()), points, side="right") % 2 == 1
    # Characters since the one that a run of marks follows.
    places, base = tf.range(tf.size(points)), first | ~marks
    since = places - tf.gather(tf.boolean_mask(places, base),
                               tf.cumsum(tf.cast(base, tf.int32)) - 1)
    begins = (since > 1) & (since % _MOST_MARKS == 1)
    starts = tf.where(first | (is_hostile & begins))[:, 0]
    parts = tf.RaggedTensor.from_row_starts(points, starts, validate=False)
    parts = tf_text.normalize_utf8(tf.strings.unicode_encode(parts, "UTF-8"), "NFC")
    return tf.strings.reduce_join(tf.RaggedTensor.from_value_rowids(
        parts, tf.gather(rows, starts), tf.size(text, tf.int64), validate=False), axis=-1)


def before_nfc(text, composed, offsets):
    """Byte offsets into NFC text as byte offsets into the text before.

    Args:
        text: string `[n]`.
        composed: string `[n]`, its NFC form.
        offsets: RaggedTensor int64 `[n, (k)]` into `composed`, each at a character's start or the
            text's end.

    Returns:
        RaggedTensor int64 `[n, (k)]`, each at the start of what became the character.
    """
    return tf.cond(tf.reduce_all(text == composed), lambda: offsets,
                   lambda: _through_segments(text, composed, offsets))


def _through_segments(text, composed, offsets):
    """Align by segments: a character and all after it that NFC may join or reorder with it.

    Each segment becomes one segment; within, the tail that follows a joined character stays as it
    is, so that offsets are counted from the segment's end.
    """
    before, before_rows = _segment_starts(text)
    after, after_rows = _segment_starts(composed)
    sought = offsets.values + tf.gather(after_rows, offsets.value_rowids())
    segment = tf.searchsorted(after, sought, side="right") - 1
    following = tf.minimum(segment + 1, tf.size(after) - 1)
    from_end = tf.gather(before, following) - (tf.gather(after, following) - sought)
    first = tf.gather(before, segment)
    found = tf.where(sought == tf.gather(after, segment), first, tf.maximum(first, from_end))
    # Marks that change places may have different sizes: never within one.
    _, edges, _ = _characters(text)
    found = tf.gather(edges, tf.searchsorted(edges, found, side="right") - 1)
    return offsets.with_values(found - tf.gather(before_rows, offsets.value_rowids()))


def _segment_starts(text):
    """Where segments start in all texts written one after the other, and where each text does.

    Returns:
        int64 `[segments + 1]`, the last being the end, and int64 `[n]`.
    """
    characters, edges, rows = _characters(text)
    joins = tf.searchsorted(tf.constant(normalization.composing_edges()), characters.values,
                            side="right") % 2 == 1
    first = edges[:-1] == tf.gather(rows, characters.value_rowids())
    return tf.boolean_mask(edges, tf.concat([~joins | first, [True]], axis=0)), rows


def _characters(text):
    """Characters of all texts written one after the other.

    Returns:
        RaggedTensor int32 `[n, (characters)]`, the code points; int64 `[characters + 1]`, where
        each starts, the last being the end; int64 `[n]`, where each text starts.
    """
    characters, starts = tf.strings.unicode_decode_with_offsets(text, "UTF-8")
    lengths = tf.cast(tf.strings.length(text), tf.int64)
    rows = tf.cumsum(lengths, exclusive=True)
    edges = tf.concat([starts.values + tf.gather(rows, starts.value_rowids()),
                       tf.reduce_sum(lengths, keepdims=True)], axis=0)
    return characters, edges, rows


def character_offsets(text, offsets):
    """Byte offsets into UTF-8 texts as character offsets, as Python's `str` counts them.

    Args:
        text: string `[n]`.
        offsets: RaggedTensor int64 `[n, (k)]`, each at a character's start or the text's end.

    Returns:
        RaggedTensor int64 `[n, (k)]`.
    """
    characters, edges, rows = _characters(tf.convert_to_tensor(text, tf.string))
    sought = offsets.values + tf.gather(rows, offsets.value_rowids())
    found = tf.searchsorted(edges, sought, out_type=tf.int64)
    return offsets.with_values(found - tf.gather(characters.row_starts(), offsets.value_rowids()))


def whole_characters(text, starts, ends):
    """Byte ranges in UTF-8 texts, widened to all of the characters of which they hold a byte.

    Args:
        text: string `[n]`.
        starts, ends: RaggedTensors int64 `[n, (k)]`.

    Returns:
        The same, `(starts, ends)`.
    """
    _, edges, rows = _characters(text)
    row = tf.gather(rows, starts.value_rowids())
    first = tf.searchsorted(edges, starts.values + row, side="right") - 1
    last = tf.searchsorted(edges, ends.values + row, side="left")
    return (starts.with_values(tf.gather(edges, first) - row),
            ends.with_values(tf.gather(edges, last) - row))


def without_white_space(text, starts, ends):
    """Byte ranges in UTF-8 texts without the white space that they begin with.

    Args:
        text: string `[n]`.
        starts, ends: RaggedTensors int64 `[n, (k)]`, characters' edges.

    Returns:
        RaggedTensor int64 `[n, (k)]`, the starts, at most the ends.
    """
    characters, edges, rows = _characters(text)
    dark = tf.boolean_mask(edges, tf.concat([~is_white(characters.values), [True]], axis=0))
    row = tf.gather(rows, starts.value_rowids())
    following = tf.gather(dark, tf.searchsorted(dark, starts.values + row)) - row
    return starts.with_values(tf.minimum(following, ends.values))


def is_white(code_points):
    """Whether characters, int32, have the Unicode property White_Space: bool of their shape."""
    return tf.searchsorted(tf.constant(normalization.white_space_edges()), code_points,
                           side="right") % 2 == 1


def among_characters(text, other, offsets):
    """Byte offsets into texts of as many characters: `offsets` into `other` as ones into `text`.

    Args:
        text, other: string `[n]`, each text with as many characters.
        offsets: RaggedTensor int64 `[n, (k)]`, each at a character's start or the text's end.

    Returns:
        RaggedTensor int64 `[n, (k)]`.
    """
    (_, edges, rows), (_, other_edges, other_rows) = _characters(text), _characters(other)
    of_row = offsets.value_rowids()
    place = tf.searchsorted(other_edges, offsets.values + tf.gather(other_rows, of_row))
    found = tf.gather(edges, place) - tf.gather(rows, of_row)
    # The end of a text is where the next one begins.
    return offsets.with_values(found)


def ends_of_characters(starts, ends):
    """The ends of pieces, of which several may come from one character.

    A piece that ends where it starts, within the character, gets the end of the next that does not.

    Args:
        starts, ends: RaggedTensors int64 `[n, (k)]`.

    Returns:
        RaggedTensor int64 `[n, (k)]`.
    """
    flat = ends.values
    whole = tf.where(flat > starts.values)[:, 0]
    following = tf.searchsorted(whole, tf.range(tf.size(flat, tf.int64)))
    found = tf.concat([tf.gather(flat, whole), [0]], axis=0)
    return ends.with_values(tf.maximum(flat, tf.gather(found, following)))
