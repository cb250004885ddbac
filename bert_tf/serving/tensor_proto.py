"""TensorFlow's `TensorProto` to and from NumPy, on the short way.

Answers are written to the typed fields (`float_val` …), as TensorFlow Serving does: clients read
them there. `tf.make_ndarray` and `tf.make_tensor_proto` do the same slower.
"""

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes

from bert_tf.serving.messages import error

_VALUES = {
    types_pb2.DT_FLOAT: "float_val", types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val", types_pb2.DT_INT16: "int_val", types_pb2.DT_INT8: "int_val",
    types_pb2.DT_UINT16: "int_val", types_pb2.DT_UINT8: "int_val", types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_BOOL: "bool_val", types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_UINT64: "uint64_val", types_pb2.DT_STRING: "string_val",
    types_pb2.DT_HALF: "half_val", types_pb2.DT_BFLOAT16: "half_val"}
_NUMPY = {kind: np.dtype(dtypes.as_dtype(kind).as_numpy_dtype) for kind in _VALUES}
_KINDS = {dtype: kind for kind, dtype in _NUMPY.items()}
# Packed fields whose wire format is that of the memory: (tag, where that is so).
_RAW = {types_pb2.DT_FLOAT: b"\x2a", types_pb2.DT_DOUBLE: b"\x32"}
_MOST_REPEATED = 64 << 20  # bytes of a tensor whose last value stands for others
_MOST_BYTES = 512 << 20  # of all tensors of a request


def read_all(protos):
    """`{name: np.ndarray}` of a map of `TensorProto`.

    Raises:
        ServingError: one does not hold what it says.
    """
    arrays, size = {}, 0
    for name, proto in protos.items():
        try:
            arrays[name] = read(proto)
            size += arrays[name].nbytes
            if size > _MOST_BYTES:
                raise ValueError("tensors of too many bytes")
        except (ValueError, KeyError, OverflowError) as problem:
            raise error("tensor", alias=name) from problem
    return arrays


def read(proto):
    """The array of a `TensorProto`; texts are an object array of bytes.

    Raises:
        ValueError, KeyError: it does not hold what it says.
    """
    kind = proto.dtype
    dtype = _NUMPY[kind]
    shape = tuple([dim.size for dim in proto.tensor_shape.dim])
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise ValueError("the shape is not known")
    if proto.tensor_content:
        if kind == types_pb2.DT_STRING:
            return np.array(_split_strings(proto.tensor_content, shape), object).reshape(shape)
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    values = getattr(proto, _VALUES[kind])
    if kind == types_pb2.DT_STRING:
        array = np.empty(len(values), object)
        array[:] = values
    elif _VALUES[kind] == "half_val":
        array = np.array(values, np.uint16).view(dtype)
    else:
        array = np.array(values, dtype)
    size = 1
    for length in shape:
        size *= length
    if len(array) == size:
        return array.reshape(shape)
    if len(array) > size or size * dtype.itemsize > _MOST_REPEATED:
        raise ValueError("more values than the shape has, or too large")
    # The last value stands for all that follow; none at all for zeros.
    if len(array) == 0:
        return np.full(shape, b"" if dtype.kind == "O" else 0, dtype)
    return np.concatenate([array, np.repeat(array[-1:], size - len(array))]).reshape(shape)


def _split_strings(content, shape):
    """The strings in a `tensor_content`: lengths as varints, then the bytes."""
    lengths, position = [], 0
    for _ in range(int(np.prod(shape, dtype=object))):
        length, shift = 0, 0
        while True:
            byte = content[position] if position < len(content) else None
            if byte is None or shift > 63:
                raise ValueError("the lengths of the strings are damaged")
            length |= (byte & 127) << shift
            position, shift = position + 1, shift + 7
            if byte < 128:
                break
        lengths.append(length)
    strings = []
    for length in lengths:
        strings.append(content[position:position + length])
        position += length
    if position != len(content):
        raise ValueError("the strings are not as long as they say")
    return strings


def write(array, proto):
    """Fill an empty `TensorProto` with an array."""
    kind = _KINDS[array.dtype]
    proto.dtype = kind
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if array.size == 0:
        return
    if kind in _RAW:
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        data = data.tobytes()
        proto.MergeFromString(_RAW[kind] + _varint(len(data)) + data)
    elif _VALUES[kind] == "half_val":
        proto.half_val.extend(np.ascontiguousarray(array).view(np.uint16).ravel().tolist())
    else:
        getattr(proto, _VALUES[kind]).extend(array.ravel().tolist())


def _varint(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)
