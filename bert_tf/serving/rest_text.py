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

from bert_tf.serving.messages import error

_SHOWN = 1000  # characters of a request that an error message shows; TensorFlow Serving shows all
_MOST = 1 << 20  # lists and objects of a request; each takes 30 times its two bytes in memory
_MOST_VALUES = 1 << 23
_MOST_BEYOND = 8 << 20  # bytes of JSON beyond the standard, which is parsed forty times as slowly
_DEEPEST = 1024  # levels of lists and objects, orjson's own bound
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_STRING_OR_INF = re.compile(r'"(?:[^"\\]|\\.)*+"|Inf(?!inity)', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte
_SHOW = json.JSONEncoder(indent=4, ensure_ascii=False)

# rapidjson, error/en.h: what is wrong, by how Python's json begins to say it.
_PARSE_PROBLEMS = {
    "Expecting value": "Invalid value.",
    "Expecting property name": "Missing a name for object member.",
    "Illegal trailing comma before end of object": "Missing a name for object member.",
    "Illegal trailing comma before end of array": "Invalid value.",
    "Expecting ':'": "Missing a colon after a name of object member.",
    "Expecting ','": "Missing a comma or closing bracket after a member or an element.",
    "Unterminated string": "Missing a closing quotation mark in string.",
    "Invalid control character": "Invalid encoding in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Extra data": "The document root must not be followed by other values.",
}
_SURROGATE = "The surrogate pair in string is invalid."
_NUMBER_TOO_BIG = "Number too big to be stored in double."


def parse(body):
    """The dict that a request's body holds; bytes -> dict. Raises ServingError."""
    if not body:
        raise error("json_empty")
    _check_number(body, b"[{", "json_too_many", _MOST)
    _check_number(body, b",", "json_too_many_values", _MOST_VALUES)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = _parse_beyond_standard(body)
    if type(document) is not dict:
        raise error("json_not_object", value=show(document))
    return document


def _check_number(body, marks, message, limit):
    """Refuse more than `limit` of the `marks`; those in strings do not count."""
    def many(text):
        return sum(text.count(mark) for mark in marks) > limit

    if many(body) and many(_STRING.sub(b"", body)):
        raise error(message, limit=limit)


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
    if len(body) > _MOST_BEYOND:
        raise error("json_too_long", given=len(body), wanted=_MOST_BEYOND)
    text = body.decode("utf-8", "surrogateescape")
    if "Inf" in text:
        text = _STRING_OR_INF.sub(
            lambda match: "Infinity" if match[0] == "Inf" else match[0], text)
    try:
        document = json.loads(text, parse_float=_double, parse_int=_integer)
        wrong = _NO_BYTE if _LONE_SURROGATE.search(text) else _LONE_SURROGATE
        if wrong.search(_SHOW.encode(document)):
            raise error("json_parse_error", problem=_SURROGATE, offset=len(body))
    except json.JSONDecodeError as problem:
        said = next((said for begin, said in _PARSE_PROBLEMS.items()
                     if problem.msg.startswith(begin)), problem.msg)
        offset = len(text[:problem.pos].encode("utf-8", "surrogateescape"))
        raise error("json_parse_error", problem=said, offset=offset) from problem
    except OverflowError as problem:
        raise error("json_parse_error", problem=_NUMBER_TOO_BIG, offset=len(body)) from problem
    except RecursionError as problem:
        raise error("json_too_deep", limit=_DEEPEST) from problem
    return document


def _double(digits):
    value = float(digits)
    if math.isinf(value):
        raise OverflowError
    return value


def _integer(digits):
    value = int(digits) if len(digits) < 21 else 2 ** 64
    return value if -2 ** 63 <= value < 2 ** 64 else _double(digits)
