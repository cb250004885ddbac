"""JSON of the REST API to tensors and back, against Python's json and NumPy."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow.core.example import example_pb2

from bert_tf.serving.wire import rest_text
from bert_tf.serving.wire.request import Limits, ServingError
from bert_tf.serving.wire.rest_examples import (
    examples_of,
    read_examples,
    write_classifications,
    write_regressions,
)
from bert_tf.serving.wire.rest_json import read_predict, tensors_of, write_predict
from bert_tf.serving.wire.rest_text import parse

LIMITS = Limits(rows=4, body_bytes=1 << 20, text_bytes=30_000)
SIGNATURES = {"serving_default": {"text": 7}, "ids": {"ids": 3}}


def types(**dtypes):
    return {name: tf.as_dtype(dtype).as_datatype_enum for name, dtype in dtypes.items()}


def read(body, **dtypes):
    """The tensors of a body, which is text, bytes or a value."""
    if not isinstance(body, str | bytes):
        body = json.dumps(body)
    body = body.encode() if isinstance(body, str) else body
    return tensors_of(parse(body), types(**dtypes))[0]


def refusal(function, *arguments, **words):
    with pytest.raises(ServingError) as info:
        function(*arguments, **words)
    return info.value.code, info.value.message


@pytest.mark.parametrize("dtype, values", [
    ("float32", [[1, -2.5], [0.1, 1e30]]), ("float64", [[0.1, 2 ** 53 - 1]]),
    ("int32", [[1, -2 ** 31], [3, 2 ** 31 - 1]]), ("int64", [-2 ** 63, 2 ** 63 - 1]),
    ("uint32", [2 ** 32 - 1]), ("uint64", [2 ** 64 - 1]), ("uint8", [[[255]]]), ("int8", [-7]),
    ("bool", [[True, False]]), ("string", [["네", ""], ["a\u0000b", "😀"]]),
    ("float32", []), ("string", [[], []]), ("int32", 5)])
def test_columns_are_tensors_of_the_type(dtype, values):
    tensor = read({"inputs": values}, x=dtype)["x"]
    expected = np.array(tf.constant(values, dtype).numpy())
    assert tensor.shape == expected.shape
    assert tensor.dtype == (object if dtype == "string" else np.dtype(dtype))
    assert tensor.tolist() == expected.tolist()


def test_rows_are_stacked_by_name():
    tensors = read({"instances": [{"a": [1, 2], "b": "x"}, {"b": {"b64": "/w=="}, "a": [3, 4]}]},
                   a="int32", b="string")
    assert tensors["a"].tolist() == [[1, 2], [3, 4]]
    assert tensors["b"].tolist() == [b"x", b"\xff"]


@pytest.mark.parametrize("text, expected", [
    ("AAEC", b"\x00\x01\x02"), ("/w", b"\xff"), ("/w==", b"\xff"), ("A A\nE C", b"\x00\x01\x02")])
def test_base64_as_absl_takes_it(text, expected):
    assert read({"inputs": {"b64": text}}, x="string")["x"].item() == expected


def test_not_a_number_and_infinity_are_taken():
    tensor = read('{"inputs": [NaN, Infinity, -Infinity, Inf, -Inf, 1.5]}', x="float32")["x"]
    np.testing.assert_array_equal(
        tensor, np.array([np.nan, np.inf, -np.inf, np.inf, -np.inf, 1.5], np.float32))
    # In a string they are letters.
    assert read('{"inputs": ["Inf NaN", "\\"Inf"], "other": Inf}',
                x="string")["x"].tolist() == [b"Inf NaN", b'"Inf']


def test_bytes_that_are_not_utf8_pass():
    assert read(b'{"inputs": ["a\xff\xec\x95\x88"]}', x="string")["x"].tolist() == [
        b"a\xff\xec\x95\x88"]


@settings(max_examples=60, deadline=None)
@given(arrays.arrays(np.int64, arrays.array_shapes(max_dims=4, max_side=4),
                     elements=st.integers(-2 ** 31, 2 ** 31 - 1)))
def test_rows_and_columns_of_any_shape_agree(array):
    values = array.tolist()
    for key in ("inputs", "instances"):
        np.testing.assert_array_equal(read({key: values}, x="int64")["x"], array)


@pytest.mark.parametrize("body, expected", [
    # Whole numbers and decimals alike, whether float32 holds them or not.
    ("[1, 2.5, 16777217, 1435774380, 1435774380.0]",
     [1, 2.5, 16777216, 1435774336, 1435774336]),
    ("[1e300, -1e300, 1e-300, -1e-300, 18446744073709551616]",
     [np.inf, -np.inf, 0, -0.0, 2.0 ** 64])])
def test_numbers_lose_precision_in_silence(body, expected):
    tensor = read(f'{{"inputs": {body}}}', x="float32")["x"]
    assert tensor.dtype == np.float32
    np.testing.assert_array_equal(tensor, np.float32(expected))
    assert (np.signbit(tensor) == np.signbit(expected)).all()


@pytest.mark.parametrize("body", [
    b'\xef\xbb\xbf{"inputs": [1, 2]}', b'{"inputs": [1, 2]} and more', b' \n{"inputs": [1, 2]}{',
    b'\xef\xbb\xbf {"inputs": [1, 2], "other": [NaN, -NaN, "-NaN Inf \\ud83d\\ude00"]}]'])
def test_what_stands_around_the_object_is_left_out(body):
    assert read(body, x="int32")["x"].tolist() == [1, 2]
    assert parse(body).get("other", ["-NaN Inf 😀"])[-1] == "-NaN Inf 😀"


@pytest.mark.parametrize("body, dtypes, named", [
    ("", {"x": "int32"}, "JSON"), ("  ", {"x": "int32"}, "JSON"), ("[1]", {"x": "int32"}, "[1]"),
    ("{]", {"x": "int32"}, "char 1"), ('{"네": tru', {"x": "int32"}, "char 6"),
    ("instances = [1]", {"x": "int32"}, "char 0"), ('{"a": "b', {"x": "int32"}, "char 6"),
    ('{"inputs": ["\\ud800"]}', {"x": "string"}, "surrogate pair"),
    ('{"inputs": [1e400]}', {"x": "float64"}, "1e400"),
    ("{}", {"x": "int32"}, "instances or inputs"),
    ('{"inputs": 1, "instances": [1]}', {"x": "int32"}, "instances or inputs"),
    ('{"inputs": 1}', {}, "serving_default"),
    ('{"instances": 3}', {"x": "int32"}, "instances is 3"),
    ('{"instances": []}', {"x": "int32"}, "instances is []"),
    ('{"instances": [1]}', {"a": "int32", "b": "int32"}, "a, b"),
    ('{"inputs": [1]}', {"a": "int32", "b": "int32"}, "a, b"),
    ('{"inputs": {"a": 1}}', {"a": "int32", "b": "int32"}, "a, b"),
    ('{"instances": [{"c": 1}]}', {"a": "int32"}, "instance 0: names c; expected a"),
    ('{"instances": [{"a": 1}]}', {"a": "int32", "b": "int32"}, "instance 0: names a"),
    ('{"instances": [{"a": 1}, 2]}', {"a": "int32"}, "instance 1: 2"),
    ('{"instances": [1, {"a": 2}]}', {"a": "int32"}, "instance 1: {'a': 2}"),
    # Ragged: refused, between instances and within one.
    ('{"instances": [[1, 2], [3]]}', {"x": "int32"}, "instance 1: x has shape [1]; expected [2]"),
    ('{"instances": [[[1], [2]], [[3, 4]]]}', {"x": "int32"}, "[1, 2]; expected [2, 1]"),
    ('{"instances": [1, [1]]}', {"x": "int32"}, "[1]; expected []"),
    ('{"instances": [{"x": [[1, 2]]}, {"x": [[[1, 2]]]}]}', {"x": "int32"}, "instance 1: x"),
    ('{"inputs": [[1, 2], [3]]}', {"x": "int32"}, "[3]"),
    ('{"inputs": [1, [2]]}', {"x": "int32"}, "[2]"),
    ('{"inputs": [[1], 2]}', {"x": "int32"}, "2 does not fit"),
    ('{"inputs": [1.0]}', {"x": "int32"}, "1.0 is no int32"),
    ('{"inputs": [NaN]}', {"x": "int32"}, "nan is no int32"),
    ('{"inputs": [2147483648]}', {"x": "int32"}, "2147483648 is no int32"),
    ('{"inputs": [true]}', {"x": "int64"}, "True is no int64"),
    ('{"inputs": [null]}', {"x": "float32"}, "None is no float32"),
    ('{"instances": ["x", "y"]}', {"x": "float32"}, "instance 0: 'x' is no float32"),
    ('{"inputs": [1]}', {"x": "string"}, "1 is no string"),
    ('{"inputs": [{"b64": "AA=="}]}', {"x": "int32"}, "b64"),
    ('{"inputs": [{"b64": "*"}]}', {"x": "string"}, "base64"),
    ('{"inputs": ["a", {"c": "d"}]}', {"x": "string"}, "'c'"),
])
def test_what_is_refused_and_what_is_named(body, dtypes, named):
    code, message = refusal(read, body, **dtypes)
    assert code == "INVALID_ARGUMENT" and named in message, message


def test_deep_and_long_requests_are_refused_in_few_words():
    for depth in (500, 1100, 200_000):
        code, message = refusal(read, '{"inputs": ' + "[" * depth + "]" * depth + "}", x="int32")
        assert (code, len(message) < 2000) == ("INVALID_ARGUMENT", True)
    for body in ({"instances": [{"x" * 100_000: 1}]}, {"instances": ["x" * 100_000, {"y": 1}]},
                 {"inputs": dict.fromkeys(map(str, range(10000)), 1)}):
        code, message = refusal(read, body, x="string")
        assert (code, len(message) < 2000) == ("INVALID_ARGUMENT", True)


def test_half_a_character_is_refused_whatever_stands_beside_it():
    """Bytes that are no UTF-8 are taken, an escape of no character never."""
    for body in (b'{"inputs": ["\\ud800"]}', b'{"inputs": ["\\udfff", "\xff"]}',
                 b'{"\\ud800": 1, "inputs": ["\xff"]}'):
        code, message = refusal(read, body, x="string")
        assert code == "INVALID_ARGUMENT" and "surrogate pair" in message


def test_a_request_of_a_million_lists_is_not_even_parsed():
    many = b'{"inputs": [' + b"[]," * (1 << 20) + b"[]]}"
    assert refusal(parse, many) == (
        "INVALID_ARGUMENT", f"JSON of more than {1 << 20} lists and objects")


def test_a_type_that_json_cannot_give():
    assert refusal(read, {"inputs": [1.5]}, x="bfloat16") == (
        "UNIMPLEMENTED", "JSON cannot give type bfloat16")
    assert refusal(read, {"instances": [1.5]}, x="bfloat16")[0] == "INVALID_ARGUMENT"


@settings(max_examples=100, deadline=None)
@given(arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=5),
                     elements=st.floats(width=32)))
def test_every_float32_is_read_back_the_same(array):
    text = write_predict({"x": array}, row_form=False)
    again = np.array(json.loads(text)["outputs"], np.float32)
    np.testing.assert_array_equal(again, array)
    assert (np.signbit(again) == np.signbit(array)).all() or np.isnan(array).any()


def test_numbers_are_short_and_floats_stay_floats():
    answer = write_predict({"x": np.array([0.1, 1, 1e-7, 16777216], np.float32)}, row_form=False)
    assert answer == b'{"outputs":[0.1,1.0,1e-7,16777216.0]}'
    answer = write_predict({"x": np.array([0.1, np.nan, -np.inf], np.float32)}, row_form=False)
    assert answer.replace(b" ", b"") == b'{"outputs":[0.1,NaN,-Infinity]}'


def test_answers_in_rows_and_columns():
    outputs = {"score": np.array([0.5, 1], np.float32), "ids": np.array([[1, 2], [3, 4]], np.int64),
               "good": np.array([True, False]), "raw_bytes": np.array([b"\xff", b"a"], object),
               "words": np.array([["네".encode(), b""], [b"a", "😀".encode()]], object)}
    assert json.loads(write_predict(outputs, row_form=True)) == {"predictions": [
        {"score": 0.5, "ids": [1, 2], "good": True, "raw_bytes": {"b64": "/w=="},
         "words": ["네", ""]},
        {"score": 1.0, "ids": [3, 4], "good": False, "raw_bytes": {"b64": "YQ=="},
         "words": ["a", "😀"]}]}
    assert json.loads(write_predict(outputs, row_form=False)) == {"outputs": {
        "score": [0.5, 1.0], "ids": [[1, 2], [3, 4]], "good": [True, False],
        "raw_bytes": [{"b64": "/w=="}, {"b64": "YQ=="}],
        "words": [["네", ""], ["a", "😀"]]}}
    alone = {"words": outputs["words"]}
    assert json.loads(write_predict(alone, row_form=True)) == {
        "predictions": [["네", ""], ["a", "😀"]]}
    not_contiguous = {"x": np.arange(6).reshape(2, 3).T, "y": np.arange(3)}
    assert json.loads(write_predict(not_contiguous, row_form=True)) == {"predictions": [
        {"x": [0, 3], "y": 0}, {"x": [1, 4], "y": 1}, {"x": [2, 5], "y": 2}]}
    assert write_predict({"x": np.float32(2)[np.newaxis][0:1].reshape(())},
                         row_form=False) == b'{"outputs":2.0}'


def test_text_that_is_not_utf8_comes_out_as_its_bytes():
    answer = write_predict({"words": np.array([b"a\xffb"], object)}, row_form=False)
    assert answer.replace(b" ", b"") == b'{"outputs":["a\xffb"]}'


@pytest.mark.parametrize("outputs, named", [
    ({}, "no outputs"), ({"x": np.float32([1, 2]), "y": np.float32([1])}, "output y"),
    ({"x": np.zeros([0, 2], np.int32), "y": np.array([[b"a"]], object)}, "output y"),
    ({"x": np.array(1)}, "output x"), ({"x": np.float16([1])}, "float16"),
    ({"x": np.complex64([1])}, "complex64")])
def test_answers_that_cannot_be_written(outputs, named):
    code, message = refusal(write_predict, outputs, row_form=True)
    assert code == "INVALID_ARGUMENT" and named in message, message


@pytest.mark.parametrize("outputs", [
    {"x": np.zeros([0, 2], np.int32)},
    {"x": np.zeros([0, 1, 2], object), "y": np.zeros([0, 3, 4], np.float32)}])
def test_no_rows_are_an_empty_list(outputs):
    assert json.loads(write_predict(outputs, row_form=True)) == {"predictions": []}


def test_examples_with_context():
    document = parse(b"""{
        "context": {"language": "ko", "weight": 0.5},
        "examples": [{"text": "\xeb\x84\xa4", "ids": [1, 2], "weight": [1.5, Infinity, -NaN]},
                     {"text": [{"b64": "/w=="}, "b"], "flag": [1, true, false], "none": []}]}""")
    serialized = examples_of(document, LIMITS)
    # Serialized once, whatever the number of examples.
    assert all(each.startswith(*examples_of({"examples": [document["context"]]}, LIMITS))
               for each in serialized)
    first, second = map(example_pb2.Example.FromString, serialized)

    def values(example):
        return {name: list(getattr(feature, feature.WhichOneof("kind")).value)
                if feature.WhichOneof("kind") else None
                for name, feature in example.features.feature.items()}

    assert np.array_equal(values(first).pop("weight"), [1.5, np.inf, np.nan], equal_nan=True)
    assert {**values(first), "weight": 1} == {"language": [b"ko"], "weight": 1,
                                              "text": ["네".encode()], "ids": [1, 2]}
    assert values(second) == {"language": [b"ko"], "weight": [0.5], "text": [b"\xff", b"b"],
                              "flag": [1, 1, 0], "none": None}


@pytest.mark.parametrize("body, named", [
    ({}, "examples is None"), ({"examples": 1}, "examples is 1"), ({"examples": []}, "[]"),
    ({"examples": {"a": 1}}, "examples is {'a': 1}"), ({"examples": ["a"]}, "'a'"),
    ({"examples": [[{"a": 1}]]}, "[{'a': 1}]"), ({"examples": [{"a": None}]}, "feature a"),
    ({"examples": [{"a": [1, None]}]}, "feature a holds None"),
    ({"examples": [{"a": [[1]]}]}, "feature a holds [1]"),
    ({"examples": [{"a": {"b": 1}}]}, "feature a holds {'b': 1}"),
    ({"examples": [{"a": [1, 1.5]}]}, "feature a mixes"),
    ({"examples": [{"a": [1, {"b64": ""}]}]}, "feature a mixes"),
    ({"examples": [{"a": 2 ** 63}]}, "feature a holds 9223372036854775808"),
    ({"examples": [{"a\udcff": 1}]}, "feature 'a\\udcff'"),
    ({"context": 1, "examples": [{}]}, "example 1"),
    ({"context": [{}], "examples": [{}]}, "example [{}]")])
def test_examples_that_are_refused(body, named):
    code, message = refusal(examples_of, body, LIMITS)
    assert code == "INVALID_ARGUMENT" and named in message, message


def test_results():
    assert json.loads(write_classifications([[("네", np.float32(0.1)), ("no", 0.5)], []])) == {
        "results": [[["네", 0.1], ["no", 0.5]], []]}
    assert write_regressions([np.float32(0.1).item(), 2]) == b'{"results":[0.1,2.0]}'
    assert write_regressions([float("inf"), -float("inf"), float("nan")]).replace(b" ", b"") == (
        b'{"results":[Infinity,-Infinity,NaN]}')
    for write in (write_classifications, write_regressions):
        assert refusal(write, [])[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_a_body_is_bounded_before_it_is_decoded(key):
    body = json.dumps({key: ["네", "b"]}).encode()
    for sent, packed in ((body, False), (gzip.compress(body), True)):
        name, inputs, by_rows = read_predict(sent, packed, SIGNATURES, LIMITS)
        assert (name, by_rows) == ("", key == "instances")
        assert inputs["text"].tolist() == ["네".encode(), b"b"]
    for value in (["a"] * 5, {"text": ["a"] * 5}):
        if key == "instances" and type(value) is dict:
            continue
        body = json.dumps({key: value}).encode()
        assert "5 rows" in refusal(read_predict, body, False, SIGNATURES, LIMITS)[1]
    body = json.dumps({key: ["a", "b" * 30_001]}).encode()
    assert "text of 30001 bytes" in refusal(read_predict, body, False, SIGNATURES, LIMITS)[1]
    body = json.dumps({"examples": [{"a": "b" * 30_000}]}).encode()
    assert "at most 30000" in refusal(read_examples, body, False, LIMITS)[1]
    body = json.dumps({"examples": [{"a": 1}] * 5}).encode()
    assert "5 rows" in refusal(read_examples, body, False, LIMITS)[1]


def test_the_number_of_values_is_bounded_before_they_are_made(monkeypatch):
    monkeypatch.setattr(rest_text, "_MOST_VALUES", 10)
    monkeypatch.setattr(rest_text, "_MOST", 10)
    assert parse(b'{"a": ["%s"]}' % (b'[,\\"' * 100))  # in a text they are no values
    assert refusal(parse, b'{"a": [%s0]}' % (b"0," * 11))[1] == (
        "JSON of more than 10 values")
    assert "lists and objects" in refusal(parse, b'{"a": %s' % (b"[" * 10))[1]
    monkeypatch.setattr(rest_text, "_MOST_BEYOND", 100)
    assert np.isnan(parse(b'{"a": NaN}')["a"])
    assert "at most 100" in refusal(parse, b'{"a": NaN}' + b" " * 100)[1]
    assert parse(b'{"a": 1}' + b" " * 100) == {"a": 1}
