"""JSON text and values, with what TensorFlow Serving's parser and writer take beside standard JSON.

Both take `NaN`, `Infinity` and `-Infinity` for numbers, and bytes in strings that are not UTF-8, as
rapidjson does with `kParseNanAndInfFlag` and without validation of the encoding. In Python such
bytes are lone surrogates (`surrogateescape`). What is standard JSON goes through orjson, which
writes float32 arrays thirty times as fast as the json module; the rest through the json module.
"""

import json
import math
import re

import numpy as np
import orjson

from bert_tf.serving import rest_messages as say
from bert_tf.serving.request import ServingError

_SHOWN = 1000  # characters of a request that an error message shows; TensorFlow Serving shows all
_DEEPEST = 1024  # levels of lists and objects, orjson's own bound
_STRING_OR_INF = re.compile(r'"(?:[^"\\]|\\.)*+"|Inf(?!inity)', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOW = json.JSONEncoder(indent=4, ensure_ascii=False)


def invalid(message, **words):
    """A `ServingError` `INVALID_ARGUMENT` of one of `rest_messages`."""
    return ServingError("INVALID_ARGUMENT", message.format(**words))


def parse(body):
    """The dict that a request's body holds; bytes -> dict. Raises ServingError."""
    if not body:
        raise invalid(say.EMPTY)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = _parse_beyond_standard(body)
    if type(document) is not dict:
        raise invalid(say.NOT_OBJECT, value=show(document))
    return document


def dump(value, finite=True):
    """JSON text of a value; bytes.

    Args:
        value: of dict, list, str, numbers, NumPy arrays of numbers with C's order, NumPy numbers.
            Of float32 the fewest digits that give the same float32 again are written.
        finite: whether all numbers in it are; orjson writes null for one that is not.
    """
    if finite:
        try:
            return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
        except orjson.JSONEncodeError:  # a string that is not Unicode
            pass
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    return text.encode("utf-8", "surrogateescape")


def show(value):
    """A JSON value as error messages show it: indented, cut where it gets long."""
    pieces, length = [], 0
    try:
        for piece in _SHOW.iterencode(value):
            pieces.append(piece[:_SHOWN])
            length += len(piece)
            if length > _SHOWN:
                return "".join(pieces)[:_SHOWN] + "…"
    except RecursionError:
        return "…"
    return "".join(pieces)


def type_name(value):
    """How messages call the type of a JSON value."""
    if isinstance(value, bool):
        return str(value)
    return {type(None): "Null", dict: "Object", list: "Array", str: "String"}.get(
        type(value), "Number")


def _plain(value):
    """What the json module can write of a NumPy value."""
    value = np.asarray(value)
    if value.dtype == np.float32:  # by way of the fewest digits
        value = value.astype(str).astype(np.float64)
    return value.tolist()


def _parse_beyond_standard(body):
    text = body.decode("utf-8", "surrogateescape")
    if "Inf" in text:
        text = _STRING_OR_INF.sub(
            lambda match: "Infinity" if match[0] == "Inf" else match[0], text)
    try:
        document = json.loads(text, parse_float=_double, parse_int=_integer)
        if not _LONE_SURROGATE.search(text) and _LONE_SURROGATE.search(_SHOW.encode(document)):
            raise invalid(say.PARSE_ERROR, problem=say.SURROGATE, offset=len(body))
    except json.JSONDecodeError as error:
        problem = next((problem for begin, problem in say.PARSE_PROBLEMS.items()
                        if error.msg.startswith(begin)), error.msg)
        offset = len(text[:error.pos].encode("utf-8", "surrogateescape"))
        raise invalid(say.PARSE_ERROR, problem=problem, offset=offset) from error
    except OverflowError as error:
        raise invalid(say.PARSE_ERROR, problem=say.NUMBER_TOO_BIG, offset=len(body)) from error
    except RecursionError as error:
        raise invalid(say.TOO_DEEP, limit=_DEEPEST) from error
    return document


def _double(digits):
    value = float(digits)
    if math.isinf(value):
        raise OverflowError
    return value


def _integer(digits):
    value = int(digits) if len(digits) < 21 else 2 ** 64
    return value if -2 ** 63 <= value < 2 ** 64 else _double(digits)
