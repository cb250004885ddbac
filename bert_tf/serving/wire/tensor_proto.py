"""TensorFlow's `TensorProto` to and from NumPy, on the short way.

Answers are written to the typed fields (`float_val` …), as TensorFlow Serving does: clients read
them there. `tf.make_ndarray` and `tf.make_tensor_proto` do the same slower.
"""

import math

import ml_dtypes
import numpy as np

from bert_tf.serving.wire import protocol, string_content
from bert_tf.serving.wire.messages import check_texts, error

_STRING = protocol.dtype_number("DT_STRING")
_OWN = {"DT_HALF": np.float16, "DT_BFLOAT16": ml_dtypes.bfloat16}  # not as their 16 bits
_TYPES = {protocol.dtype_number(name): (np.dtype(_OWN.get(name, stored)), field)
          for name, (stored, field) in protocol.DTYPES.items()}
_TYPES[_STRING] = np.dtype(object), "string_val"
_KINDS = {dtype: kind for kind, (dtype, _) in _TYPES.items()}
# Packed fields whose wire format is that of the memory: their tags.
_RAW = {"float_val": b"\x2a", "double_val": b"\x32"}
_MOST_BYTES = 128 << 20  # of all tensors of a request
# Bytes that repeated last values may fill in all tensors: a small message, which is decoded in the
# event loop, must not fill more.
_MOST_REPEATED = 16 << 20
_TEXT = 50  # bytes and more that each text takes in memory
MOST_TEXTS = 1 << 18  # of a tensor


def read_all(protos, limits=None):
    """`{name: np.ndarray}` of a map of `TensorProto`; texts are object arrays of bytes.

    What shapes say is bounded before anything of that size is made.

    Args:
        protos: of TensorFlow, or of `protocol`.
        limits: `Limits` of the rows of a tensor and of a text; None: any number of both.

    Raises:
        ServingError: one does not hold what it says, or too much.
    """
    arrays, size, repeated = {}, 0, 0
    for name, proto in protos.items():
        rows = proto.tensor_shape.dim[0].size if proto.tensor_shape.dim else 0
        if limits is not None and rows > limits.rows:
            raise error("rows", given=rows, wanted=limits.rows)
        try:
            kind, shape = proto.dtype, _shape(proto)
            size += math.prod(shape) * _TYPES[kind][0].itemsize
            repeated += _repeated(proto, kind, math.prod(shape))
            if size > _MOST_BYTES or repeated > _MOST_REPEATED:
                raise ValueError("tensors of too many bytes")
            arrays[name] = _read(proto, kind, shape)
        except (ValueError, KeyError, OverflowError) as problem:
            raise error("tensor", alias=name) from problem
        if limits is not None and kind == _STRING:
            check_texts(name, arrays[name].ravel().tolist(), limits)
    return arrays


def _shape(proto):
    shape = tuple([dim.size for dim in proto.tensor_shape.dim])
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise ValueError("the shape is not known")
    return shape


def _repeated(proto, kind, size):
    """Return the bytes of a tensor's `size` values for which its last one stands, or none."""
    if proto.tensor_content:
        return 0
    dtype, field = _TYPES[kind]
    values = getattr(proto, field)
    text = _TEXT + len(values[-1]) if kind == _STRING and values else 0
    return (size - len(values)) * (text or dtype.itemsize)


def _read(proto, kind, shape):
    dtype, field = _TYPES[kind]
    size = math.prod(shape)
    if kind == _STRING and size > MOST_TEXTS:
        raise ValueError("too many texts")
    if proto.tensor_content:
        if kind == _STRING:
            return string_content.unpack(proto.tensor_content, size).reshape(shape)
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    values = getattr(proto, field)
    if len(values) > size:
        raise ValueError("more values than the shape has")
    if kind == _STRING:
        array = np.empty(len(values), object)
        array[:] = values
    elif field == "half_val":
        array = np.array(values, np.uint16).view(dtype)
    else:
        array = np.array(values, dtype)
    if len(array) == size:
        return array.reshape(shape)
    # The last value stands for all that follow; none at all for zeros.
    if len(array) == 0:
        return np.full(shape, b"" if kind == _STRING else 0, dtype)
    return np.concatenate([array, np.repeat(array[-1:], size - len(array))]).reshape(shape)


def write(array, proto, as_content=False):
    """Fill an empty `TensorProto` with an array, as values or as `tensor_content`."""
    kind = _KINDS[array.dtype]
    proto.dtype = kind
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if array.size == 0:
        return
    field = _TYPES[kind][1]
    if kind == _STRING and as_content:
        proto.tensor_content = string_content.pack(array.ravel().tolist())
    elif as_content or field in _RAW:
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        data = data.tobytes()
        if as_content:
            proto.tensor_content = data
            return
        proto.MergeFromString(_RAW[field] + string_content.varint(len(data)) + data)
    elif field == "half_val":
        proto.half_val.extend(np.ascontiguousarray(array).view(np.uint16).ravel().tolist())
    else:
        getattr(proto, field).extend(array.ravel().tolist())
