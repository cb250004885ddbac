"""SentencePiece, the tokenizer of ALBERT, inside the graph.

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
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.shapes import check_rank
from bert_tf.storage import files
from bert_tf.tokenization import normalization
from bert_tf.tokenization.special import WHITE_SPACE, tokenize_around
from bert_tf.tokenization.vocabulary import Vocabulary

CONFIG_NAME = "tokenizer_config.json"
MODEL_NAME = "spiece.model"
SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
# Keys of tokenizer_config.json, and what ALBERT's own code does where it has none.
OPTIONS = {"do_lower_case": True, "keep_accents": False, "remove_space": True}
_UNUSED = 5  # type of a piece that the model knows but never yields
_WORD = "\u2581"  # begins a word's first piece
# White space as `str.split` has it: these separators too.
_SPACES = r"\x1c-\x1f" + WHITE_SPACE


class SentencePieceTokenizer(tf.Module):
    """SentencePiece with what ALBERT does before it (google-research/albert `tokenization.py`,
    `preprocess_text` and `encode_pieces`).

    White space is collapsed; `` and '' become a quotation mark; unless accents are kept, text is
    decomposed (NFKD) and loses its combining characters; `str.lower`. A comma after a number is a
    piece of its own. The model may then compose again: the published ones apply NFKC.

    Args:
        model: bytes of a `spiece.model`, with `<pad> <unk> [CLS] [SEP] [MASK]` among its pieces.
        do_lower_case, keep_accents, remove_space: as above, and in `tokenizer_config.json`.
        source: what an error names, for example the file's path.

    Raises:
        BertTfError: not a SentencePiece model.
        UsageError: a special token is missing.
    """

    def __init__(self, model, do_lower_case=True, keep_accents=False, remove_space=True,
                 source="the model"):
        super().__init__(name="tokenizer")
        self.options = {"do_lower_case": do_lower_case, "keep_accents": keep_accents,
                        "remove_space": remove_space}
        self.model = model
        tokens, used = _read_model(model, source)
        self.vocabulary = Vocabulary(
            tokens, source, SPECIAL_TOKENS, lambda token: token not in SPECIAL_TOKENS
            and token[0] != _WORD and any(map(str.isalnum, token)))
        try:
            self._pieces = tf_text.SentencepieceTokenizer(used, out_type=tf.int32)
        except tf.errors.OpError as error:
            raise BertTfError(f"{source} is not a SentencePiece model: {error.message}") from error
        self._tokens = tf.constant(tokens)
        rules = _character_rules(do_lower_case, keep_accents)
        self._characters = tf_text.FastBertNormalizer(model_buffer=tf.constant(np.frombuffer(
            normalization.normalizer_model(rules), np.uint8))) if rules else None

    def normalize(self, text):
        """The text that is cut into pieces: string `[n]` -> string `[n]`."""
        if self.options["remove_space"]:
            text = tf.strings.regex_replace(text, f"[{_SPACES}]+", " ")
            text = tf.strings.regex_replace(text, "^ | $", "")
        text = tf.strings.regex_replace(text, "``|''", '"')
        if not self.options["keep_accents"]:
            text = tf_text.normalize_utf8(text, "NFKD")
        if self.options["do_lower_case"]:
            text = tf.strings.regex_replace(text, normalization.final_sigma_pattern(), r"\1ς\2")
        return self._characters.normalize(text) if self._characters else text

    def tokenize(self, text, split_special=False):
        """Ids of the pieces of each text.

        Args:
            text: string `[n]`, UTF-8.
            split_special: take `[MASK]` and the other special tokens written in the text for what
                they name; else they are text like any other.

        Returns:
            RaggedTensor int32 `[n, (tokens)]`.
        """
        text = check_rank("text", tf.convert_to_tensor(text, tf.string), 1)
        if split_special:
            return tokenize_around(self.vocabulary, text, self.tokenize)
        return self._pieces.tokenize(self.normalize(text))

    def tokens(self, ids):
        """Pieces as strings, of the shape of `ids` (integers, ragged or not)."""
        return tf.gather(self._tokens, ids)

    def detokenize(self, ids):
        """The text of pieces `[n, tokens]`, ragged or not: string `[n]`; special ones vanish."""
        return self._pieces.detokenize(ids)

    def save(self, folder):
        """Write `spiece.model`, the very bytes that were read, and `tokenizer_config.json`."""
        files.write_bytes(os.path.join(folder, MODEL_NAME), self.model)
        files.write_json(os.path.join(folder, CONFIG_NAME), self.options)

    @classmethod
    def load(cls, folder):
        """Read what `save` wrote, or the files of the same names beside Hugging Face checkpoints.

        Raises:
            BertTfError: a file is missing or damaged.
            UsageError: a special token is missing, or an option is neither true nor false.
        """
        path = os.path.join(folder, MODEL_NAME)
        with files.open_binary(path) as stream:
            model = stream.read()
        return cls(model, **_read_options(os.path.join(folder, CONFIG_NAME)), source=path)


def _read_model(model, source):
    """The pieces in a serialised model, and that model without pieces such as `2,`.

    ALBERT cuts a comma off a number and cuts what is left again; marking such pieces as unused
    gives the same.
    """
    proto = _model_message()()
    try:
        proto.ParseFromString(model)
        tokens = [piece.piece for piece in proto.pieces]
    except (message.DecodeError, UnicodeDecodeError) as error:
        raise BertTfError(f"{source} is not a SentencePiece model: {error}") from error
    if not tokens:
        raise BertTfError(f"{source} is not a SentencePiece model: it has no pieces")
    for piece in proto.pieces:
        if piece.piece[-1:] == "," and piece.piece[-2:-1].isdigit():
            piece.type = _UNUSED
    return tokens, proto.SerializeToString()


@functools.cache
def _model_message():
    """The message class `ModelProto` of sentencepiece's `sentencepiece_model.proto`, as far as it
    matters here; fields that it does not name are kept as they are.

    The class that the package sentencepiece brings wants a newer protobuf than TensorFlow has.
    """
    field = descriptor_pb2.FieldDescriptorProto
    optional, repeated = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto(name="model", syntax="proto2", message_type=[
        {"name": "Piece", "field": [
            {"name": "piece", "number": 1, "type": field.TYPE_STRING, "label": optional},
            {"name": "type", "number": 3, "type": field.TYPE_INT32, "label": optional}]},
        {"name": "ModelProto", "field": [
            {"name": "pieces", "number": 1, "type": field.TYPE_MESSAGE, "label": repeated,
             "type_name": "Piece"}]}]))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelProto"))


@functools.cache
def _character_rules(lower_case, keep_accents):
    """Dict of every code point that changes -> its replacement."""
    rules = {}
    for code_point in range(1, sys.maxunicode + 1):
        character = chr(code_point)
        after = character.lower() if lower_case else character
        if not keep_accents:
            after = "".join(c for c in after if not unicodedata.combining(c))
        if after != character:
            rules[code_point] = after
    return rules


def _read_options(path):
    """The options in a `tokenizer_config.json`, ours or Hugging Face's; one may be absent."""
    config = files.read_json(path) if files.exists(path) else {}
    options = {key: config.get(key, default) if isinstance(config, dict) else None
               for key, default in OPTIONS.items()}
    for key, value in options.items():
        if not isinstance(value, bool):
            raise UsageError(explain(f"{path}: {key}={value!r}", "true or false"))
    return options
