"""Tensors on the wire, against TensorFlow's own conversions."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from bert_tf.serving.wire import tensor_proto
from bert_tf.serving.wire.request import Limits, ServingError

DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "bool", "float16", "bfloat16"]
SHAPES = [(), (0,), (1,), (3,), (2, 0), (2, 3, 4)]


def _array(dtype, shape):
    values = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, shape)
    return np.asarray(values, tf.as_dtype(dtype).as_numpy_dtype)


def _texts(shape):
    values = ["", "네 🙂", "a" * 300, b"\xff"] * 6
    array = np.empty(int(np.prod(shape)), object)
    array[:] = [tf.compat.as_bytes(value) for value in values[:array.size]]
    return array.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [*DTYPES, "string"])
def test_both_ways(dtype, shape):
    array = _texts(shape) if dtype == "string" else _array(dtype, shape)
    written = tensor_pb2.TensorProto()
    tensor_proto.write(array, written)
    assert not written.tensor_content
    content = tensor_pb2.TensorProto()
    tensor_proto.write(array, content, as_content=True)
    assert bool(content.tensor_content) == bool(array.size)
    for proto in (written, content, tf.make_tensor_proto(array, dtype, shape)):
        if dtype != "string" or proto is not content:  # which Python's function cannot read
            np.testing.assert_array_equal(tf.make_ndarray(proto), array)
        read = _read(proto)
        assert read.shape == shape and read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)


def test_one_value_stands_for_many():
    proto = tensor_pb2.TensorProto(dtype=tf.float32.as_datatype_enum, float_val=[1, 2])
    proto.tensor_shape.dim.add(size=4)
    np.testing.assert_array_equal(_read(proto), [1, 2, 2, 2])
    proto.ClearField("float_val")
    np.testing.assert_array_equal(_read(proto), [0, 0, 0, 0])


def test_strings_in_tensor_content():
    array = _texts((2, 2))
    content = b"".join(_length(len(text)) for text in array.ravel()) + b"".join(array.ravel())
    proto = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, tensor_content=content)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    np.testing.assert_array_equal(_read(proto), array)


def _read(proto):
    return tensor_proto.read_all({"x": proto})["x"]


def _length(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


@pytest.mark.parametrize("fields, size", [
    ({"dtype": 0}, 1), ({"dtype": 99}, 1),  # no type
    ({"dtype": 3, "int_val": [1, 2, 3]}, 2),  # too many
    ({"dtype": 3, "tensor_content": b"123"}, 1),  # no whole number
    ({"dtype": 3, "tensor_content": b"1234"}, 2),  # too few
    ({"dtype": 7, "tensor_content": b"\x05ab"}, 1),  # a string that ends early
    ({"dtype": 7, "tensor_content": b"\xff"}, 1), ({"dtype": 3}, -1), ({"dtype": 1}, 2**40),
    ({"dtype": 1, "float_val": [1]}, 2**22 + 2),  # more than 16 MB
    ({"dtype": 7, "string_val": [b"a" * 2**20]}, 18)])
def test_what_does_not_hold_what_it_says(fields, size):
    proto = tensor_pb2.TensorProto(**fields)
    proto.tensor_shape.dim.add(size=size)
    with pytest.raises(ServingError, match="input text") as refused:
        tensor_proto.read_all({"text": proto})
    assert refused.value.code == "INVALID_ARGUMENT"


def test_tensors_of_one_value_each_fill_no_memory():
    proto = tensor_pb2.TensorProto(dtype=1, float_val=[1])
    proto.tensor_shape.dim.add(size=2**21)  # 8 MB of a few bytes
    assert tensor_proto.read_all(dict.fromkeys("ab", proto)).keys() == set("ab")
    with pytest.raises(ServingError, match="input c"):
        tensor_proto.read_all(dict.fromkeys("abc", proto))


@pytest.mark.parametrize("values", [{"tensor_content": bytes(1 << 20)}, {}, {"string_val": [b""]}])
def test_the_number_of_texts_and_rows_is_bounded_by_the_shape(values):
    """What a shape says is refused at once: texts of no bytes are many in a small message."""
    proto = tensor_pb2.TensorProto(dtype=7, **values)
    for size in (1 << 10, 1 << 20):
        proto.tensor_shape.dim.add(size=size)
    with pytest.raises(ServingError, match="input text"):
        tensor_proto.read_all({"text": proto})
    with pytest.raises(ServingError, match="a request of 1024 rows; expected at most 1000"):
        tensor_proto.read_all({"text": proto}, Limits(1000, 0, 0))
