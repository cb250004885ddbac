"""What models do to text before SentencePiece, inside the graph."""

import functools
import sys
import unicodedata

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.errors import check_choice
from bert_tf.tokenization import normalization as normalizing
from bert_tf.tokenization.offsets import among_characters, before_nfc, compose, is_white

NORMALIZATIONS = ("albert", "albert_huggingface", "deberta", "sentencepiece")
_GONE = "\x01"  # stands where a character is to be removed


class PieceNormalizer(tf.Module):
    """`albert` (google-research/albert `tokenization.py`, `preprocess_text`): unless accents are
    kept, text is decomposed (NFKD) and loses its combining characters; `str.lower`.
    `albert_huggingface` (transformers `AlbertTokenizer`): `` and '' become a quotation mark, all
    marks are removed as accents, there is no rule for the final sigma.
    `deberta`: white space of several characters becomes a blank, text is composed (NFC).
    `sentencepiece`: nothing; white space becomes blanks where the model has no rules itself.

    Args:
        normalization: one of the above.
        model_has_rules: whether the model normalizes text too.
        do_lower_case, keep_accents, remove_space: of the two `albert`s.
    """

    def __init__(self, normalization, model_has_rules, do_lower_case=False, keep_accents=True,
                 remove_space=True):
        super().__init__(name="normalizer")
        self._kind = check_choice("normalization", normalization, NORMALIZATIONS)
        self._lowers_sigma = normalization == "albert" and do_lower_case
        rules = _character_rules(normalization, model_has_rules, do_lower_case, keep_accents,
                                 remove_space)
        self._characters = tf_text.FastBertNormalizer(model_buffer=tf.constant(np.frombuffer(
            normalizing.normalizer_model(rules), np.uint8))) if rules else None

    def normalize(self, text):
        """The text that is split into pieces: string `[n]`, valid UTF-8 -> string `[n]`."""
        text = self._prepared(text)
        text = self._characters.normalize(text) if self._characters else text
        return self._lowered_sigma(text)

    def normalize_with_offsets(self, text):
        """The same, and a function that takes offsets in it, RaggedTensor, to ones in `text`."""
        prepared = self._prepared(text)
        normalized, sources = prepared, None
        if self._characters:
            normalized, sources = self._characters.normalize_with_offsets(prepared)

        def original(offsets):
            if sources is not None:
                offsets = tf.gather(sources, offsets, batch_dims=1)
            if self._kind == "deberta":
                collapsed = _collapse(text)
                offsets = among_characters(text, collapsed,
                                           before_nfc(collapsed, prepared, offsets))
            return offsets

        return self._lowered_sigma(normalized), original

    def _prepared(self, text):
        """The text before the rules for single characters."""
        if self._kind == "albert_huggingface":
            return tf.strings.regex_replace(text, "``|''", f'"{_GONE}')
        if self._kind == "deberta":
            return compose(_collapse(text))
        return text

    def _lowered_sigma(self, text):
        """Σ in lower case: ς at the end of a word, as `str.lower` has it, else σ."""
        if not self._lowers_sigma:
            return text
        text = tf.strings.regex_replace(text, normalizing.final_sigma_pattern(cleaned=False),
                                        r"\1ς\2")
        return tf.strings.regex_replace(text, "Σ", "σ")


def _collapse(text):
    """White space of several characters as blanks, and at the end, and line breaks and tabs.

    The model takes several blanks for one. Each text keeps its number of characters.
    """
    def replaced():
        characters = tf.strings.unicode_decode(text, "UTF-8")
        points, rows = characters.values, characters.value_rowids()
        first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0)
        last = tf.roll(first, -1, 0)
        white = is_white(points)
        several = (tf.roll(white, 1, 0) & ~first) | tf.roll(white, -1, 0) | last
        breaks = (points == 0x0A) | (points == 0x0D) | (points == 0x09)
        blank = white & (several | breaks)
        return tf.strings.unicode_encode(characters.with_values(
            tf.where(blank, ord(" "), points)), "UTF-8")

    odd = tf.strings.regex_full_match(text, r"(?s).*[\t\n\r\v\f\x{80}-\x{10ffff}].*")
    return tf.cond(tf.reduce_any(odd), replaced, lambda: text)


@functools.cache
def _character_rules(normalization, model_has_rules, do_lower_case, keep_accents, remove_space):
    """Dict of every code point that changes -> its replacement."""
    rules = {}
    if normalization == "deberta":
        return rules
    spaces = {code_point for first, last in normalizing.WHITE_SPACE
              for code_point in range(first, last + 1)}
    if normalization == "albert":
        spaces |= {*range(0x1C, 0x20)}  # as `str.split` has it
    elif model_has_rules:  # which decide what is a blank; U+0085 they leave
        spaces = {0x85}
    if not remove_space:
        spaces = set()
    is_accent = _is_mark if normalization == "albert_huggingface" else unicodedata.combining
    for code_point in range(1, sys.maxunicode + 1) if not keep_accents or do_lower_case else spaces:
        character = after = chr(code_point)
        if not keep_accents:
            after = "".join(c for c in unicodedata.normalize("NFKD", character)
                            if not is_accent(c))
        if do_lower_case:
            # Σ waits for the rule of its place in the word.
            after = after.lower() if "Σ" not in after or normalization != "albert" else after
        if code_point in spaces:
            after = " "
        if after != character and not 0xD800 <= code_point < 0xE000:
            rules[code_point] = after
    if normalization == "albert_huggingface":
        rules[ord(_GONE)] = ""
    return rules


def _is_mark(character):
    return unicodedata.category(character)[0] == "M"
