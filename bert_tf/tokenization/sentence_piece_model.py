"""SentencePiece models as messages: read, and made of a list of pieces and their scores."""

import functools
import math

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from bert_tf.errors import BertTfError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces
UNIGRAM = 1  # of model_type


def read_model(data, source):
    """The message `ModelProto` in bytes.

    Raises:
        BertTfError: they are no SentencePiece model, or one without pieces.
    """
    proto = model_message()()
    try:
        proto.ParseFromString(data)
        pieces = [piece.piece for piece in proto.pieces]
    except (message.DecodeError, UnicodeDecodeError) as error:
        raise BertTfError(f"{source} is not a SentencePiece model: {error}") from error
    if not pieces:
        raise BertTfError(f"{source} is not a SentencePiece model: it has no pieces")
    check_model(proto, source)
    return proto


def check_model(proto, source):
    """Refuse what would end the process in the library.

    Raises:
        BertTfError: a piece that is empty, there twice or has a NUL; or rules of normalization
            that point out of their own bounds.
    """
    pieces = [piece.piece for piece in proto.pieces]
    if len(set(pieces)) < len(pieces) or any(not piece or "\0" in piece for piece in pieces):
        raise BertTfError(f"{source} is not a SentencePiece model: a piece is empty, is there "
                          "twice or has a NUL")
    if not all(math.isfinite(piece.score) for piece in proto.pieces):
        raise BertTfError(f"{source} is not a SentencePiece model: a score is no number")
    charsmap = proto.normalizer_spec.precompiled_charsmap
    if charsmap and not _is_sound(charsmap):
        raise BertTfError(f"{source} is not a SentencePiece model: its precompiled_charsmap is "
                          "damaged")


def _is_sound(charsmap):
    """Whether rules, a Darts-clone double array and the texts that it leads to, keep to bounds.

    The children of the unit at `i` are at `i ^ offset ^ byte`; where it has a value, that is at
    `i ^ offset` and the place of a text, which ends with a NUL.
    """
    size = int.from_bytes(charsmap[:4], "little")
    texts = charsmap[4 + size:]
    if len(charsmap) < 4 or size % 4 or not size or len(charsmap) < 4 + size or texts[-1:] != b"\0":
        return False
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    inner = np.flatnonzero(units < 1 << 31)
    offsets = (units >> 10) << ((units & 1 << 9) >> 6)
    children = inner ^ offsets[inner]
    if (children | 0xFF).max(initial=0) >= len(units):
        return False
    values = units[children[units[inner] & 1 << 8 > 0]] & (1 << 31) - 1
    return values.max(initial=0) < len(texts)


def make_model(pieces, types, charsmap=b"", byte_fallback=False):
    """A Unigram model.

    Args:
        pieces: list of `(piece, score)` in the order of their ids.
        types: list of the type of each.
        charsmap: compiled rules of normalization; none where it is empty.
        byte_fallback: whether what no piece has is the pieces of its bytes, which then all are
            there.

    Returns: the message.
    """
    proto = model_message()()
    for (piece, score), kind in zip(pieces, types, strict=True):
        proto.pieces.add(piece=piece, score=score, type=kind)
    unknown = types.index(UNKNOWN)
    # Ids of words that the trainer would have made: all of them pieces of our own.
    proto.trainer_spec.model_type = UNIGRAM
    proto.trainer_spec.vocab_size = len(pieces)
    proto.trainer_spec.unk_id = unknown
    proto.trainer_spec.byte_fallback = byte_fallback
    proto.trainer_spec.bos_id = proto.trainer_spec.eos_id = proto.trainer_spec.pad_id = -1
    proto.trainer_spec.unk_piece = pieces[unknown][0]
    proto.normalizer_spec.name = "precompiled" if charsmap else "identity"
    proto.normalizer_spec.precompiled_charsmap = charsmap
    return proto


@functools.cache
def model_message():
    """The message class `ModelProto` of sentencepiece's `sentencepiece_model.proto`, as far as it
    matters here; fields that it does not name are kept as they are.

    The class that the package sentencepiece brings wants a newer protobuf than TensorFlow has.
    """
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {str: field.TYPE_STRING, int: field.TYPE_INT32, float: field.TYPE_FLOAT,
             bytes: field.TYPE_BYTES, bool: field.TYPE_BOOL}

    def one(name, number, kind, default=None):
        values = {"default_value": default} if default else {}
        return {"name": name, "number": number, "type": kinds[kind],
                "label": field.LABEL_OPTIONAL, **values}

    def many(name, number, kind, label=field.LABEL_OPTIONAL):
        return {"name": name, "number": number, "type": field.TYPE_MESSAGE, "label": label,
                "type_name": kind}

    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto(name="model", syntax="proto2", message_type=[
        {"name": "Piece", "field": [one("piece", 1, str), one("score", 2, float),
                                    one("type", 3, int, str(NORMAL))]},
        {"name": "TrainerSpec", "field": [
            one("model_type", 3, int, str(UNIGRAM)), one("vocab_size", 4, int),
            one("byte_fallback", 35, bool, "false"), one("unk_id", 40, int),
            one("bos_id", 41, int, "1"), one("eos_id", 42, int, "2"),
            one("pad_id", 43, int, "-1"), one("unk_piece", 45, str)]},
        {"name": "NormalizerSpec", "field": [one("name", 1, str),
                                             one("precompiled_charsmap", 2, bytes),
                                             one("remove_extra_whitespaces", 4, bool, "true")]},
        {"name": "ModelProto", "field": [
            many("pieces", 1, "Piece", field.LABEL_REPEATED),
            many("trainer_spec", 2, "TrainerSpec"),
            many("normalizer_spec", 3, "NormalizerSpec")]}]))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelProto"))
