"""SentencePiece, the tokenizer of ALBERT, XLM-R, CamemBERT and DeBERTa-v3, inside the graph.

    tokenizer = SentencePieceTokenizer.load("folder")  # spiece.model
    ids = tokenizer.tokenize(["Any text."])

The ops are tensorflow-text's `SentencepieceOp` and those that use it, `NormalizeUTF8` and
`FastBertNormalize`, all of which TF Serving links.
"""

import os

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.errors import BertTfError, check_choice
from bert_tf.storage import files
from bert_tf.tokenization.base import BaseTokenizer, valid_text
from bert_tf.tokenization.offsets import ends_of_characters, without_white_space
from bert_tf.tokenization.piece_normalizer import NORMALIZATIONS, PieceNormalizer
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
# Keys of tokenizer_config.json, and what ALBERT's code does where it has none.
OPTIONS = {"do_lower_case": True, "keep_accents": False, "remove_space": True}
WORD = "\u2581"  # begins a word's first piece


class SentencePieceTokenizer(BaseTokenizer):
    """SentencePiece with what models do before it (`PieceNormalizer`).

    The model may then normalize again: most published ones apply NFKC. As ALBERT's own code does
    (`encode_pieces`), `albert` makes a comma after a number a piece of its own.

    Args:
        model: bytes of a `spiece.model` whose ids are those of the model that reads the text.
        do_lower_case, keep_accents, remove_space: of the two `albert`s.
        source: what an error names, for example the file's path.
        normalization: one of `NORMALIZATIONS`.
        special_tokens, pair_separators, …: as of `Vocabulary`.

    Raises:
        BertTfError: not a SentencePiece model.
        UsageError: a special token is missing.
    """

    def __init__(self, model, do_lower_case=True, keep_accents=False, remove_space=True,
                 source="the model", normalization="albert", special_tokens=SPECIAL_TOKENS,
                 **vocabulary):
        check_choice("normalization", normalization, NORMALIZATIONS)
        self.normalization = normalization
        self.composes = normalization == "deberta"
        self.model = model
        proto = read_model(model, source)
        super().__init__(Vocabulary(
            [piece.piece for piece in proto.pieces], source, special_tokens,
            lambda token: token not in special_tokens and token[:1] != WORD
            and any(map(str.isalnum, token)), **vocabulary))
        self.flags = {"do_lower_case": do_lower_case, "keep_accents": keep_accents,
                       "remove_space": remove_space} if (
                           normalization.startswith("albert")) else {}
        try:
            self._pieces = tf_text.SentencepieceTokenizer(self._used(proto), out_type=tf.int32)
        except tf.errors.OpError as error:
            raise BertTfError(f"{source} is not a SentencePiece model: {error.message}") from error
        self._bare = tf.constant([token == WORD for token in self.vocabulary.tokens])
        self._normalizer = PieceNormalizer(
            normalization, bool(proto.normalizer_spec.precompiled_charsmap), **self.flags)

    @property
    def options(self):
        """What `tokenizer_config.json` holds."""
        stated = {} if self.normalization == "albert" else {"normalization": self.normalization}
        return {**self.flags, **stated, **vocabulary_options(self.vocabulary, SPECIAL_TOKENS, 1)}

    @property
    def lower_case(self):
        """Whether text is lower-cased before the model's own rules."""
        return self.flags.get("do_lower_case", False)

    @property
    def strip_accents(self):
        """Whether accents are removed before the model's own rules."""
        return not self.flags.get("keep_accents", True)

    def normalize(self, text):
        """The text that is split into pieces: string `[n]` -> string `[n]`."""
        return self._normalizer.normalize(valid_text(text))

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
        normalized, original = self._normalizer.normalize_with_offsets(text)
        ids, starts, ends = self._pieces.tokenize_with_offsets(normalized)
        starts, ends = (original(each.with_values(tf.cast(each.values, tf.int64)))
                        for each in (starts, ends))
        starts = without_white_space(text, starts, ends)
        # What is but the blank before a word comes from no character.
        bare = tf.gather(self._bare, ids.values)
        whole = ends_of_characters(starts, ends.with_values(
            tf.where(bare, starts.values, ends.values)))
        return ids, starts, ends.with_values(tf.where(bare, starts.values, whole.values))

    def _used(self, proto):
        """The serialised model in which special tokens are no text.

        ALBERT's code splits a comma off a number and splits what is left again; marking pieces
        such as `2,` as unused gives the same, unless they make another way through the text best.
        """
        added = {each.token for each in self.vocabulary.added_tokens}
        for piece in proto.pieces:
            if piece.type != UNKNOWN and piece.piece in {*self.vocabulary.special_tokens, *added}:
                piece.type = CONTROL
            elif self.normalization == "albert" and piece.piece[-1:] == "," and (
                    piece.piece[-2:-1].isdigit()):
                piece.type = UNUSED
        proto.normalizer_spec.remove_extra_whitespaces |= self.flags.get("remove_space", True)
        return proto.SerializeToString()


def read_options(path):
    """Arguments of the class in a `tokenizer_config.json`; one may be absent.

    Raises:
        UsageError: a value of another form.
    """
    config = read_config(path)
    options = read_vocabulary_options(config, path)
    if "normalization" in config:
        options["normalization"] = check_choice(f"{path}: normalization",
                                                config["normalization"], NORMALIZATIONS)
    for key, default in OPTIONS.items():
        options[key] = config.get(key, default)
        check_boolean(options[key], key, path)
    return options
