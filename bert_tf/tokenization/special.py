"""Tokens written out in a text, such as the `<mask>` of "A <mask> returns a value."."""

import re

import tensorflow as tf

from bert_tf.tokenization import normalization
from bert_tf.tokenization.string_table import StringTable

# The body of a regular expression's class.
WHITE_SPACE = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}"
                      for first, last in normalization.WHITE_SPACE)
_BREAK, _DROPPED = b"\xff", b"\xfe"  # no bytes of UTF-8
_NOTHING = r"[^\x00-\x{10ffff}]"


class WrittenTokens(tf.Module):
    """Finds tokens that are written in texts; only core TensorFlow ops are used.

    Of tokens that begin at one place the longest is found.

    Args:
        vocabulary: `Vocabulary`.
        added_tokens: those of its `added_tokens` that are to be found, at least one.
    """

    def __init__(self, vocabulary, added_tokens):
        super().__init__(name="written_tokens")
        tokens = sorted(added_tokens, key=lambda added: -len(added.token))
        self._table = StringTable(tf.constant([added.token for added in tokens]),
                                  range(len(tokens)))
        self._ids = tf.constant([vocabulary.id(added.token) for added in tokens], tf.int32)
        stripping, others = ("|".join(re.escape(added.token) for added in tokens
                                      if added.lstrip == lstrip) or _NOTHING
                             for lstrip in (True, False))
        self._pattern = f"([{WHITE_SPACE}]*)({stripping})|({others})"

    def around(self, text, tokenize):
        """Token ids of texts in which the tokens stand for what they name.

        Args:
            text: string `[n]`, valid UTF-8.
            tokenize: string `[m]` -> a tuple of RaggedTensors `[m, (tokens)]`, ids int32 and, if
                wanted, starts and ends int64, for the text in between.

        Returns:
            What `tokenize` gives, for the whole texts: RaggedTensors `[n, (tokens)]`.
        """
        marked = tf.strings.regex_replace(
            text, self._pattern, _BREAK + _DROPPED + rb"\1" + _BREAK + rb"\2\3" + _BREAK)
        parts = tf.strings.split(marked, _BREAK)
        values = parts.values
        dropped = tf.strings.substr(values, 0, 1) == _DROPPED
        lengths = tf.cast(tf.strings.length(values), tf.int64) - tf.cast(dropped, tf.int64)
        number, is_token = self._table.find(values)
        inner = tokenize(tf.where(is_token | dropped, "", values))
        begins = tf.cumsum(lengths, exclusive=True)
        begins -= tf.gather(tf.gather(tf.concat([begins, [0]], 0), parts.row_starts()),
                            parts.value_rowids())
        outer = (tf.gather(self._ids, number), begins, begins + lengths)
        joined = []
        for place, values_inside in enumerate(inner):
            if place:  # offsets in a part
                values_inside += begins[:, tf.newaxis]
            whole = tf.RaggedTensor.from_row_lengths(
                tf.boolean_mask(outer[place], is_token), tf.cast(is_token, tf.int64),
                validate=False)
            joined.append(parts.with_values(tf.concat([whole, values_inside], axis=1))
                          .merge_dims(1, 2))
        return tuple(joined)

