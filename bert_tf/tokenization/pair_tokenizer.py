"""What tokenizers have in common that join the pieces of words pair by pair."""

import tensorflow as tf

from bert_tf.tokenization.base import BaseTokenizer, valid_text
from bert_tf.tokenization.normalization import WHITE_SPACE
from bert_tf.tokenization.offsets import whole_characters

_WHITE = frozenset(chr(point) for first, last in WHITE_SPACE for point in range(first, last + 1))
_FIRST_OF_WHITE = frozenset(character.encode()[:1] for character in _WHITE)


class PairTokenizer(BaseTokenizer):
    """Base of the tokenizers that split text into words, and these into pieces.

    A subclass has what it passes to `_use`; `_words(text)` -> words string `[words]` and which text
    each is of, int64 `[words]`; `_normalized(text)` -> a text whose bytes the pieces, joined, are,
    but for a blank put before it; `_original(text, normalized, offsets)` -> offsets into `text`.
    """

    def _use(self, joined, split, written, lengths, blank):
        """Take the parts of a subclass.

        Args:
            joined: `PairMerges`.
            split: function of words, string `[n]`, to their pieces, RaggedTensor int32.
            written: the bytes that each piece stands for in text, empty for special ones.
            lengths: how many bytes of the normalized text each piece is.
            blank: how many bytes a blank has there.
        """
        self._joined, self._split = joined, split  # no lists: TensorFlow would wrap them
        self._bytes = tf.constant(written)
        self._lengths = tf.constant(lengths, tf.int64)
        self._after_white = tf.constant([_white_before(piece, blank) for piece in written],
                                        tf.int64)

    @property
    def merges(self):
        """Pairs of pieces, the first to be joined first: list of pairs of str."""
        return self._joined.merges

    @property
    def alphabet(self):
        """The pieces from which all others are joined and that have to be there: list of str."""
        raise NotImplementedError

    def words(self, text):
        """The words of all texts, each of which is split into pieces by itself: string `[words]`.

        Args:
            text: string `[n]`.
        """
        return self._words(valid_text(text))[0]

    def detokenize(self, ids):
        """The text of pieces `[n, tokens]`, ragged or not: string `[n]`; special ones vanish."""
        return tf.strings.reduce_join(tf.gather(self._bytes, ids), axis=-1)

    def _tokenize(self, text):
        words, rows = self._words(text)
        words, places = tf.unique(words)
        pieces = tf.gather(self._split(words), places)
        pieces = tf.RaggedTensor.from_value_rowids(pieces, rows, tf.size(text, tf.int64),
                                                   validate=False)
        return pieces.merge_dims(1, 2)

    def _tokenize_with_offsets(self, text):
        """As `tokenize_with_offsets`; a piece that is but the blank put before a text comes from no
        character."""
        normalized = self._normalized(text)
        ids = self._tokenize(text)
        # The pieces of all texts, joined, are the texts; but for the blank put before one.
        lengths = tf.gather(self._lengths, ids.values)
        ends = tf.cumsum(lengths)
        starts = ends - lengths
        rows = ids.value_rowids()
        before = tf.gather(tf.concat([starts, [0]], axis=0), ids.row_starts())
        size = tf.reduce_sum(ids.with_values(lengths), axis=1)
        before += size - tf.cast(tf.strings.length(normalized), tf.int64)
        starts += tf.gather(self._after_white, ids.values)
        starts, ends = (ids.with_values(tf.maximum(offsets - tf.gather(before, rows), 0))
                        for offsets in (starts, ends))
        starts, ends = whole_characters(normalized, starts, ends)
        starts, ends = (self._original(text, normalized, offsets) for offsets in (starts, ends))
        return ids, starts, ends


def _white_before(piece, blank):
    """Bytes of the white space that a piece has before a word, those of a blank being `blank`."""
    if piece[:1] not in _FIRST_OF_WHITE:
        return 0
    text = piece.decode(errors="replace")
    before_word = text[:1] in _WHITE and text[1:2] not in _WHITE
    if len(text) == 1 or not (text[0] == " " or before_word):
        return 0
    return blank if text[0] == " " else len(text[0].encode())
