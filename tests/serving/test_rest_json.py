"""JSON of the REST API to tensors and back, against Python's json and NumPy."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow.core.example import example_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.serving.request import ServingError
from bert_tf.serving.rest_examples import (
    read_examples,
    write_classifications,
    write_regressions,
)
from bert_tf.serving.rest_json import read_predict, write_predict
from bert_tf.serving.rest_text import parse


def signature(**dtypes):
    made = meta_graph_pb2.SignatureDef()
    for name, dtype in dtypes.items():
        made.inputs[name].dtype = tf.as_dtype(dtype).as_datatype_enum
    return made


def read(body, **dtypes):
    """The tensors of a body, which is text, bytes or a value."""
    if not isinstance(body, str | bytes):
        body = json.dumps(body)
    body = body.encode() if isinstance(body, str) else body
    return read_predict(parse(body), signature(**dtypes))[0]


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


@pytest.mark.parametrize("body, dtypes, message", [
    ("", {"x": "int32"}, "JSON Parse error: The document is empty"),
    ("[1]", {"x": "int32"}, "JSON Value: [\n    1\n] Is not object"),
    ("{]", {"x": "int32"}, "JSON Parse error: Missing a name for object member. at offset: 1"),
    ('{"네": tru', {"x": "int32"}, "JSON Parse error: Invalid value. at offset: 8"),
    ('{"a": 1} x', {"x": "int32"}, "JSON Parse error: The document root must not be followed by "
                                   "other values. at offset: 9"),
    ('{"a": "b', {"x": "int32"}, "JSON Parse error: Missing a closing quotation mark in string. "
                                 "at offset: 6"),
    ('{"inputs": ["\\ud800"]}', {"x": "string"}, "JSON Parse error: The surrogate pair in string "
                                                 "is invalid. at offset: 22"),
    ('{"inputs": [1e400]}', {"x": "float64"}, "JSON Parse error: Number too big to be stored in "
                                              "double. at offset: 19"),
    ("{}", {"x": "int32"}, "Missing 'inputs' or 'instances' key"),
    ('{"inputs": 1, "instances": [1]}', {"x": "int32"},
     'JSON Value: {\n    "inputs": 1,\n    "instances": [\n        1\n    ]\n} Not formatted '
     "correctly expecting only one of 'inputs' or 'instances' keys to exist "),
    ('{"instances": 3}', {"x": "int32"},
     'JSON Value: {\n    "instances": 3\n} Excepting \'instances\' to be an list/array'),
    ('{"instances": []}', {"x": "int32"},
     'JSON Value: {\n    "instances": []\n} No values in \'instances\' array'),
    ('{"instances": [1]}', {"a": "int32", "b": "int32"},
     "instances is a plain list, but expecting list of objects as multiple input tensors required "
     "as per tensorinfo_map"),
    ('{"inputs": [1]}', {"a": "int32", "b": "int32"},
     "inputs is a plain value/list, but expecting an object as multiple input tensors required as "
     "per tensorinfo_map"),
    ('{"inputs": {"a": 1}}', {"a": "int32", "b": "int32"},
     "Missing named input: b in 'inputs' object."),
    ('{"instances": [{"c": 1}]}', {"a": "int32"},
     "Failed to process element: 0 key: c of 'instances' list. Error: INVALID_ARGUMENT: JSON "
     "object: does not have named input: c"),
    ('{"instances": [{"a": 1}]}', {"a": "int32", "b": "int32"},
     "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"a\": 1\n} keys must "
     "be equal to: a,b"),
    ('{"instances": [{"a": 1}, 2]}', {"a": "int32"},
     "Expecting object but got list at item 1 of input list"),
    ('{"instances": [1, {"a": 2}]}', {"a": "int32"},
     "Expecting value/list but got object at item 1 of input list"),
    # Ragged: refused, between instances and within one.
    ('{"instances": [[1, 2], [3]]}', {"x": "int32"},
     "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor "
     "size: 2 but got: 1"),
    ('{"instances": [[[1], [2]], [[3, 4]]]}', {"x": "int32"},
     "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting shape "
     "[2,1] but got: [1,2]"),
    ('{"inputs": [[1, 2], [3]]}', {"x": "int32"},
     "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
    ('{"inputs": [1, [2]]}', {"x": "int32"},
     "Encountered list at unexpected level: 1 expected < 1"),
    ('{"inputs": [[1], 2]}', {"x": "int32"},
     "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
    ('{"inputs": [1.0]}', {"x": "int32"},
     "JSON Value: 1.0 Type: Number is not of expected type: int32"),
    ('{"inputs": [NaN]}', {"x": "int32"},
     "JSON Value: NaN Type: Number is not of expected type: int32"),
    ('{"inputs": [2147483648]}', {"x": "int32"},
     "JSON Value: 2147483648 Type: Number is not of expected type: int32"),
    ('{"inputs": [true]}', {"x": "int64"},
     "JSON Value: true Type: True is not of expected type: int64"),
    ('{"inputs": [null]}', {"x": "float32"},
     "JSON Value: null Type: Null is not of expected type: float"),
    ('{"inputs": [1]}', {"x": "string"},
     "JSON Value: 1 Type: Number is not of expected type: string"),
    ('{"inputs": [{"b64": "AA=="}]}', {"x": "int32"},
     'JSON Value: {\n    "b64": "AA=="\n} Type: Object is not of expected type: int32'),
    ('{"inputs": [{"b64": "*"}]}', {"x": "string"}, "Unable to base64 decode"),
    ('{"inputs": ["a", {"c": "d"}]}', {"x": "string"},
     'JSON Value: {\n    "c": "d"\n} not formatted correctly for base64 data'),
    ('{"inputs": [16777217]}', {"x": "float32"},
     "Cannot convert JSON value: 16777217 to float without loss of precision."),
    ('{"inputs": [1e39]}', {"x": "float32"},
     "Cannot convert JSON value: 1e+39 to float without loss of precision."),
])
def test_what_is_refused_and_in_which_words(body, dtypes, message):
    assert refusal(read, body, **dtypes) == ("INVALID_ARGUMENT", message)


def test_deep_and_long_requests_are_refused_in_few_words():
    for depth in (500, 1100, 200_000):
        code, message = refusal(read, '{"inputs": ' + "[" * depth + "]" * depth + "}", x="int32")
        assert (code, len(message) < 2000) == ("INVALID_ARGUMENT", True)
    code, message = refusal(read, {"inputs": 1, "instances": ["x" * 100_000] * 10}, x="string")
    assert (code, len(message) < 2000) == ("INVALID_ARGUMENT", True)


def test_half_a_character_is_refused_whatever_stands_beside_it():
    """Bytes that are no UTF-8 are taken, an escape of no character never."""
    for body in (b'{"inputs": ["\\ud800"]}', b'{"inputs": ["\\udfff", "\xff"]}',
                 b'{"\\ud800": 1, "inputs": ["\xff"]}'):
        code, message = refusal(read, body, x="string")
        assert code == "INVALID_ARGUMENT" and "surrogate pair in string is invalid" in message


def test_a_request_of_a_million_lists_is_not_even_parsed():
    many = b'{"inputs": [' + b"[]," * (1 << 20) + b"[]]}"
    assert refusal(parse, many) == (
        "INVALID_ARGUMENT", f"JSON of more than {1 << 20} lists and objects")


def test_a_type_that_json_cannot_give():
    assert refusal(read, {"inputs": [1.5]}, x="bfloat16") == (
        "UNIMPLEMENTED", "Conversion of JSON Value: 1.5 to type: bfloat16")


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


@pytest.mark.parametrize("outputs, message", [
    ({}, "Cannot convert empty tensor map to JSON"),
    ({"x": np.float32([1, 2]), "y": np.float32([1])},
     "Tensor name: y has inconsistent batch size: 1 expecting: 2"),
    ({"x": np.array(1)}, "Tensor name: x has no shape information "),
    ({"x": np.float16([1])}, "Failed to write JSON value for tensor type: half")])
def test_answers_that_cannot_be_written(outputs, message):
    assert refusal(write_predict, outputs, row_form=True) == ("INVALID_ARGUMENT", message)


def test_examples_with_context():
    document = parse(json.dumps({
        "context": {"language": "ko", "weight": 0.5},
        "examples": [{"text": "네", "ids": [1, 2], "weight": [1.5, 2.0]},
                     {"text": [{"b64": "/w=="}, "b"], "flag": True, "none": []}]}).encode())
    first, second = map(example_pb2.Example.FromString, read_examples(document))

    def values(example):
        return {name: list(getattr(feature, feature.WhichOneof("kind")).value)
                if feature.WhichOneof("kind") else None
                for name, feature in example.features.feature.items()}

    assert values(first) == {"language": [b"ko"], "weight": [1.5, 2.0], "text": ["네".encode()],
                             "ids": [1, 2]}
    assert values(second) == {"language": [b"ko"], "weight": [0.5], "text": [b"\xff", b"b"],
                              "flag": [1], "none": None}


@pytest.mark.parametrize("body, message", [
    ({}, "JSON Value: {} When method is classify, key 'examples' is expected and was not found"),
    ({"examples": 1},
     'JSON Value: {\n    "examples": 1\n} Expecting \'examples\' value to be an list/array'),
    ({"examples": []},
     'JSON Value: {\n    "examples": []\n} \'examples\' value is an empty array'),
    ({"examples": ["a"]}, "Example must be JSON object but got JSON String"),
    ({"examples": [{"a": None}]}, "Feature: a has element with unexpected JSON type: Null"),
    ({"examples": [{"a": [[1]]}]}, "Feature: a has element with unexpected JSON type: Array"),
    ({"examples": [{"a": {"b": 1}}]}, "Feature: a has element with unexpected JSON type: Object"),
    ({"examples": [{"a": [1, 1.5]}]},
     "Unexpected element type in feature: a expecting type: int64"),
    ({"examples": [{"a": 2 ** 63}]}, "Feature: a has uint64 element. Only int64 is supported."),
    ({"context": 1, "examples": [{}]}, "Example must be JSON object but got JSON Number")])
def test_examples_that_are_refused(body, message):
    assert refusal(read_examples, body) == ("INVALID_ARGUMENT", message)


def test_results():
    assert json.loads(write_classifications([[("네", np.float32(0.1)), ("no", 0.5)], []])) == {
        "results": [[["네", 0.1], ["no", 0.5]], []]}
    assert write_regressions([np.float32(0.1).item(), 2]) == b'{"results":[0.1,2.0]}'
    assert json.loads(write_regressions([float("inf")])) == {"results": [float("inf")]}
    assert refusal(write_classifications, []) == (
        "INVALID_ARGUMENT", "Cannot convert empty ClassificationResults to JSON")
