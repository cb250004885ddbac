"""SentencePiece, the tokenizer of ALBERT, XLM-R, CamemBERT and DeBERTa-v3, inside the graph.

    tokenizer = SentencePieceTokenizer.load("folder")  # spiece.model
    ids = tokenizer.tokenize(["Any text."])

The ops are tensorflow-text's `SentencepieceOp` and those that use it, `NormalizeUTF8` and
`FastBertNormalize`, all of which TF Serving links.
"""

import functools
import os
import sys
import unicodedata

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.storage import files
from bert_tf.tokenization import normalization as normalizing
from bert_tf.tokenization.base import BaseTokenizer, valid_text
from bert_tf.tokenization.offsets import (
    among_characters,
    before_nfc,
    is_white,
    without_white_space,
)
from bert_tf.tokenization.sentence_piece_model import CONTROL, UNKNOWN, UNUSED, read_model
from bert_tf.tokenization.tokenizer_config import NAME as CONFIG_NAME
from bert_tf.tokenization.tokenizer_config import (
    check_boolean,
    read_config,
    read_vocabulary_options,
    vocabulary_options,
)
from bert_tf.tokenization.vocabulary import Vocabulary

MODEL_NAME = "spiece.model"
SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
NORMALIZATIONS = ("albert", "albert_huggingface", "deberta", "sentencepiece")
# Keys of tokenizer_config.json, and what ALBERT's code does where it has none.
OPTIONS = {"do_lower_case": True, "keep_accents": False, "remove_space": True}
WORD = "\u2581"  # begins a word's first piece
_GONE = "\x01"  # stands where a character is to be removed


class SentencePieceTokenizer(BaseTokenizer):
    """SentencePiece with what models do before it.

    `albert` (google-research/albert `tokenization.py`, `preprocess_text` and `encode_pieces`):
    unless accents are kept, text is decomposed (NFKD) and loses its combining characters;
    `str.lower`. A comma after a number is a piece of its own.
    `albert_huggingface` (transformers `AlbertTokenizer`): `` and '' become a quotation mark, all
    marks are removed as accents, there is no rule for commas and none for the final sigma.
    `deberta`: white space of several characters becomes a blank, text is composed (NFC).
    `sentencepiece`: nothing; white space becomes blanks where the model has no rules itself.

    The model may then compose again: most published ones apply NFKC.

    Args:
        model: bytes of a `spiece.model` whose ids are those of the model that reads the text.
        do_lower_case, keep_accents, remove_space: as above, of the two `albert`s.
        source: what an error names, for example the file's path.
        normalization: one of the above.
        special_tokens, pair_separators, pair_types, added_tokens: as of `Vocabulary`.

    Raises:
        BertTfError: not a SentencePiece model.
        UsageError: a special token is missing.
    """

    def __init__(self, model, do_lower_case=True, keep_accents=False, remove_space=True,
                 source="the model", normalization="albert", special_tokens=SPECIAL_TOKENS,
                 **vocabulary):
        check_choice("normalization", normalization, NORMALIZATIONS)
        self.normalization = normalization
        self.model = model
        proto = read_model(model, source)
        super().__init__(Vocabulary(
            [piece.piece for piece in proto.pieces], source, special_tokens,
            lambda token: token not in special_tokens and token[:1] != WORD
            and any(map(str.isalnum, token)), **vocabulary))
        self._flags = {"do_lower_case": do_lower_case, "keep_accents": keep_accents,
                       "remove_space": remove_space} if (
                           normalization.startswith("albert")) else {}
        try:
            self._pieces = tf_text.SentencepieceTokenizer(self._used(proto), out_type=tf.int32)
        except tf.errors.OpError as error:
            raise BertTfError(f"{source} is not a SentencePiece model: {error.message}") from error
        has_rules = bool(proto.normalizer_spec.precompiled_charsmap)
        rules = _character_rules(normalization, has_rules, **self._flags)
        self._characters = tf_text.FastBertNormalizer(model_buffer=tf.constant(np.frombuffer(
            normalizing.normalizer_model(rules), np.uint8))) if rules else None

    @property
    def options(self):
        """What `tokenizer_config.json` holds."""
        stated = {} if self.normalization == "albert" else {"normalization": self.normalization}
        return {**self._flags, **stated, **vocabulary_options(self.vocabulary, SPECIAL_TOKENS, 1)}

    def normalize(self, text):
        """The text that is split into pieces: string `[n]` -> string `[n]`."""
        text = self._prepared(valid_text(text))
        text = self._characters.normalize(text) if self._characters else text
        return self._lowered_sigma(text)

    def detokenize(self, ids):
        """The text of pieces `[n, tokens]`, ragged or not: string `[n]`; special ones vanish."""
        return self._pieces.detokenize(ids)

    def save(self, folder):
        """Write `spiece.model`, the very bytes that were read, and `tokenizer_config.json`."""
        files.write_bytes(os.path.join(folder, MODEL_NAME), self.model)
        files.write_json(os.path.join(folder, CONFIG_NAME), self.options)

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote, or a `spiece.model` alone, as ALBERT's.

        Raises:
            BertTfError: a file is missing or damaged.
            UsageError: a special token is missing, or an option is neither true nor false.
        """
        path = os.path.join(folder, MODEL_NAME)
        with files.open_binary(path) as stream:
            model = stream.read()
        return cls(model, **read_options(os.path.join(folder, CONFIG_NAME)), source=path)

    def _tokenize(self, text):
        return self._pieces.tokenize(self.normalize(text))

    def _tokenize_with_offsets(self, text):
        prepared = self._prepared(text)
        if self._characters:
            normalized, sources = self._characters.normalize_with_offsets(prepared)
        else:
            normalized, sources = prepared, None
        ids, starts, ends = self._pieces.tokenize_with_offsets(self._lowered_sigma(normalized))
        starts, ends = (each.with_values(tf.cast(each.values, tf.int64)) for each in (starts, ends))
        if sources is not None:
            starts, ends = (tf.gather(sources, each, batch_dims=1) for each in (starts, ends))
        if self.normalization == "deberta":
            collapsed = _collapse(text)
            starts, ends = (among_characters(text, collapsed, before_nfc(
                collapsed, prepared, each)) for each in (starts, ends))
        return ids, without_white_space(text, starts, ends), ends

    def _prepared(self, text):
        """The text before the rules for single characters, which is not shorter or longer."""
        if self.normalization == "albert_huggingface":
            return tf.strings.regex_replace(text, "``|''", f'"{_GONE}')
        if self.normalization == "deberta":
            return tf_text.normalize_utf8(_collapse(text), "NFC")
        return text

    def _lowered_sigma(self, text):
        """Σ in lower case: ς at the end of a word, as `str.lower` has it, else σ."""
        if self.normalization != "albert" or not self._flags["do_lower_case"]:
            return text
        text = tf.strings.regex_replace(text, normalizing.final_sigma_pattern(cleaned=False),
                                        r"\1ς\2")
        return tf.strings.regex_replace(text, "Σ", "σ")

    def _used(self, proto):
        """The serialised model in which special tokens are no text.

        ALBERT's code splits a comma off a number and splits what is left again; marking pieces
        such as `2,` as unused gives the same.
        """
        added = {each.token for each in self.vocabulary.added_tokens}
        for piece in proto.pieces:
            if piece.type != UNKNOWN and piece.piece in {*self.vocabulary.special_tokens, *added}:
                piece.type = CONTROL
            elif self.normalization == "albert" and piece.piece[-1:] == "," and (
                    piece.piece[-2:-1].isdigit()):
                piece.type = UNUSED
        proto.normalizer_spec.remove_extra_whitespaces |= self._flags.get("remove_space", True)
        return proto.SerializeToString()


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
def _character_rules(normalization, model_has_rules, do_lower_case=False, keep_accents=True,
                     remove_space=True):
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
    is_accent = (_is_mark if normalization == "albert_huggingface" else unicodedata.combining)
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
        if after != character:
            rules[code_point] = after
    if normalization == "albert_huggingface":
        rules[ord(_GONE)] = ""
    return {code_point: after for code_point, after in rules.items()
            if not 0xD800 <= code_point < 0xE000}


def _is_mark(character):
    return unicodedata.category(character)[0] == "M"


def read_options(path):
    """Arguments of the class in a `tokenizer_config.json`; one may be absent.

    Raises:
        UsageError: a value of another form.
    """
    config = read_config(path)
    options = read_vocabulary_options(config, path)
    if "normalization" in config:
        if config["normalization"] not in NORMALIZATIONS:
            raise UsageError(explain(f"{path}: normalization={config['normalization']!r}",
                                     f"one of {', '.join(NORMALIZATIONS)}"))
        options["normalization"] = config["normalization"]
    for key, default in OPTIONS.items():
        options[key] = config.get(key, default)
        check_boolean(options[key], key, path)
    return options
