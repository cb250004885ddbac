"""JSON text and values, with what TensorFlow Serving's parser and writer take beside standard JSON.

Both take `NaN`, `Infinity` and `-Infinity` for numbers, and bytes in strings that are not UTF-8; a
request may begin with a byte order mark and go on after its object. In Python bytes that are not
UTF-8 are lone surrogates (`surrogateescape`). What is standard JSON goes through orjson, which
writes float32 arrays thirty times as fast as the json module; the rest through the json module.
"""

import json
import math
import re
import reprlib
import zlib

import numpy as np
import orjson

from bert_tf.serving.wire.messages import error

_MOST = 1 << 20  # lists and objects of a request; each takes 30 times its two bytes in memory
_MOST_VALUES = 1 << 23
_MOST_BEYOND = 8 << 20  # bytes of JSON beyond the standard, which is parsed forty times as slowly
_DEEPEST = 1024  # levels of lists and objects, orjson's own bound
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BLANKS = " \t\r\n"
# What Python's json does not know: -NaN, and Inf for Infinity.
_STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*+"|-NaN|Inf(?!inity)', re.DOTALL)
# An escape; its group is there where that is half of a surrogate pair.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL)
show = reprlib.repr  # a value as error messages have it: short


def read(body, packed, limits):
    """What a request says, and the name of the signature that it asks for, `""` for the default.

    Args:
        body: bytes.
        packed: whether they are gzip.
        limits: `Limits`.

    Returns: dict, str.

    Raises:
        ServingError: it is no JSON object, or too large.
    """
    document = parse(_gunzip(body, limits.body_bytes) if packed else body)
    name = document.get("signature_name", "")
    if type(name) is not str:
        raise error("json_signature", value=show(name))
    return document, name


def _gunzip(body, limit):
    """What gzip packed; `b""` of what is no gzip, as TensorFlow Serving takes it."""
    unpack = zlib.decompressobj(wbits=31)
    try:
        text = unpack.decompress(body, limit + 1)
    except zlib.error:
        return b""
    if len(text) > limit:
        raise error("rest_too_large", limit=limit)
    return text if unpack.eof else b""


def parse(body):
    """The dict that a request's body holds; bytes -> dict. Raises ServingError."""
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


def _plain(value):
    """What the json module can write of a NumPy value."""
    value = np.asarray(value)
    if value.dtype == np.float32:  # by way of the fewest digits
        value = value.astype(str).astype(np.float64)
    return value.tolist()


def _parse_beyond_standard(body):
    if len(body) > _MOST_BEYOND:
        raise error("json_too_long", given=len(body), wanted=_MOST_BEYOND)
    text = body.decode("utf-8-sig", "surrogateescape").lstrip(_BLANKS)
    if "Inf" in text or "-NaN" in text:
        text = _STRING_OR_NUMBER.sub(
            lambda match: {"Inf": "Infinity", "-NaN": "NaN"}.get(match[0], match[0]), text)
    try:
        document, end = _DECODER.raw_decode(text)
    except RecursionError as problem:
        raise error("json_too_deep", limit=_DEEPEST) from problem
    except (ValueError, OverflowError) as problem:
        raise error("json_text", problem=problem) from problem
    if any(match[1] for match in _ESCAPE.finditer(text, 0, end)):
        raise error("json_text", problem="half of a surrogate pair")
    return document


def _double(digits):
    value = float(digits)
    if math.isinf(value):
        raise OverflowError(f"{show(digits)} is no float64")
    return value


def _integer(digits):
    value = int(digits) if len(digits) < 21 else 2 ** 64
    return value if -2 ** 63 <= value < 2 ** 64 else _double(digits)


_DECODER = json.JSONDecoder(parse_float=_double, parse_int=_integer)
