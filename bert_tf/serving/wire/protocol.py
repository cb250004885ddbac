"""TF Serving's wire messages and tensors, without TensorFlow.

The stubs of the package tensorflow-serving-api import TensorFlow, seconds and hundreds of megabytes
that a client has no use for. Here are the messages that it needs, with their fields of the same
numbers and types, in a descriptor pool of their own, so that both can live in one process; what
goes over the wire is the same bytes.

Sources: `tensorflow_serving/apis/*.proto` of TF Serving 2.20, `tensorflow/core/framework/
{tensor,tensor_shape,types}.proto` and `tensorflow/core/protobuf/meta_graph.proto` of TensorFlow.
"""

import math
from typing import NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.serving.wire import string_content

_PREDICTION = "/tensorflow.serving.PredictionService/"
PREDICT = _PREDICTION + "Predict"
GET_MODEL_METADATA = _PREDICTION + "GetModelMetadata"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"

_PACKAGE = "tensorflow"
_ENUMS = {
    "DataType": {
        "DT_INVALID": 0, "DT_FLOAT": 1, "DT_DOUBLE": 2, "DT_INT32": 3, "DT_UINT8": 4,
        "DT_INT16": 5, "DT_INT8": 6, "DT_STRING": 7, "DT_INT64": 9, "DT_BOOL": 10,
        "DT_BFLOAT16": 14, "DT_UINT16": 17, "DT_HALF": 19, "DT_UINT32": 22, "DT_UINT64": 23},
    "State": {"UNKNOWN": 0, "START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40,
              "END": 50},
    "Code": {name: number for number, name in enumerate((
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
        "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
        "UNAUTHENTICATED"))},
}
# message: field: (number, type), the type after `repeated`, `map` or the name of its oneof
_MESSAGES = {
    "Dim": {"size": (1, "int64")},
    "TensorShapeProto": {"dim": (2, "repeated Dim"), "unknown_rank": (3, "bool")},
    "TensorProto": {
        "dtype": (1, "DataType"), "tensor_shape": (2, "TensorShapeProto"),
        "tensor_content": (4, "bytes"), "float_val": (5, "repeated float"),
        "double_val": (6, "repeated double"), "int_val": (7, "repeated int32"),
        "string_val": (8, "repeated bytes"), "int64_val": (10, "repeated int64"),
        "bool_val": (11, "repeated bool"), "half_val": (13, "repeated int32"),
        "uint32_val": (16, "repeated uint32"), "uint64_val": (17, "repeated uint64")},
    "TensorInfo": {"name": (1, "string"), "dtype": (2, "DataType"),
                   "tensor_shape": (3, "TensorShapeProto")},
    "SignatureDef": {"inputs": (1, "map TensorInfo"), "outputs": (2, "map TensorInfo"),
                     "method_name": (3, "string")},
    "SignatureDefMap": {"signature_def": (1, "map SignatureDef")},
    # google.protobuf.Int64Value and Any, by what they consist of.
    "Int64Value": {"value": (1, "int64")},
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "ModelSpec": {"name": (1, "string"), "version": (2, "version_choice Int64Value"),
                  "signature_name": (3, "string"), "version_label": (4, "version_choice string")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "map TensorProto"),
                       "output_filter": (3, "repeated string")},
    # Examples as the bytes that the graph parses.
    "ExampleList": {"examples": (1, "repeated bytes")},
    "ExampleListWithContext": {"examples": (1, "repeated bytes"), "context": (2, "bytes")},
    "Input": {"example_list": (1, "kind ExampleList"),
              "example_list_with_context": (2, "kind ExampleListWithContext")},
    # ClassificationRequest and RegressionRequest.
    "ExampleRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "InferenceTask": {"model_spec": (1, "ModelSpec"), "method_name": (2, "string")},
    "MultiInferenceRequest": {"tasks": (1, "repeated InferenceTask"), "input": (2, "Input")},
    "BytesList": {"value": (1, "repeated bytes")}, "FloatList": {"value": (1, "repeated float")},
    "Int64List": {"value": (1, "repeated int64")},
    "Feature": {"bytes_list": (1, "kind BytesList"), "float_list": (2, "kind FloatList"),
                "int64_list": (3, "kind Int64List")},
    "Features": {"feature": (1, "map Feature")},
    "Example": {"features": (1, "Features")},
    "PredictResponse": {"outputs": (1, "map TensorProto"), "model_spec": (2, "ModelSpec")},
    "GetModelMetadataRequest": {"model_spec": (1, "ModelSpec"),
                                "metadata_field": (2, "repeated string")},
    "GetModelMetadataResponse": {"model_spec": (1, "ModelSpec"), "metadata": (2, "map Any")},
    "StatusProto": {"error_code": (1, "Code"), "error_message": (2, "string")},
    "ModelVersionStatus": {"version": (1, "int64"), "state": (2, "State"),
                           "status": (3, "StatusProto")},
    "GetModelStatusRequest": {"model_spec": (1, "ModelSpec")},
    "GetModelStatusResponse": {"model_version_status": (1, "repeated ModelVersionStatus")},
}


def _message_classes():
    """`{name: class}` of `_MESSAGES`."""
    file = descriptor_pb2.FileDescriptorProto(name="bert_tf/serving/wire/protocol.proto",
                                              package=_PACKAGE, syntax="proto3")
    for name, values in _ENUMS.items():
        # In a message of its own: two enumerations of one scope may not share a value's name.
        enum = file.message_type.add(name=f"{name}Enum").enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
            for name in _MESSAGES}


def _add_field(message, name, number, kind):
    """Add a field, of a map from strings with the entry that it consists of."""
    shape, _, element = kind.rpartition(" ")
    if shape == "map":
        entry = message.nested_type.add(
            name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, element)
        element = f"{message.name}.{entry.name}"
    field = message.field.add(name=name, number=number)
    field.label = (field.LABEL_REPEATED if shape in ("map", "repeated") else
                   field.LABEL_OPTIONAL)
    if shape not in ("map", "repeated", ""):
        choices = [choice.name for choice in message.oneof_decl]
        if shape not in choices:
            message.oneof_decl.add(name=shape)
        field.oneof_index = [*choices, shape].index(shape)
    if element in _ENUMS:
        field.type, field.type_name = field.TYPE_ENUM, f".{_PACKAGE}.{element}Enum.{element}"
    elif element in _MESSAGES or shape == "map":
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{element}"
    else:
        field.type = field.Type.Value(f"TYPE_{element.upper()}")


_CLASSES = _message_classes()
TensorProto = _CLASSES["TensorProto"]
SignatureDefMap = _CLASSES["SignatureDefMap"]
ModelSpec = _CLASSES["ModelSpec"]
PredictRequest = _CLASSES["PredictRequest"]
ExampleRequest = _CLASSES["ExampleRequest"]
MultiInferenceRequest = _CLASSES["MultiInferenceRequest"]
Input = _CLASSES["Input"]
Example = _CLASSES["Example"]
Feature = _CLASSES["Feature"]
PredictResponse = _CLASSES["PredictResponse"]
GetModelMetadataRequest = _CLASSES["GetModelMetadataRequest"]
GetModelMetadataResponse = _CLASSES["GetModelMetadataResponse"]
GetModelStatusRequest = _CLASSES["GetModelStatusRequest"]
GetModelStatusResponse = _CLASSES["GetModelStatusResponse"]


class _Dtype(NamedTuple):
    """How numbers of a type are stored, little-endian, and the field that may list them."""

    stored: str
    field: str


DTYPES = {
    "DT_FLOAT": _Dtype("<f4", "float_val"), "DT_DOUBLE": _Dtype("<f8", "double_val"),
    "DT_INT8": _Dtype("i1", "int_val"), "DT_INT16": _Dtype("<i2", "int_val"),
    "DT_INT32": _Dtype("<i4", "int_val"), "DT_INT64": _Dtype("<i8", "int64_val"),
    "DT_UINT8": _Dtype("u1", "int_val"), "DT_UINT16": _Dtype("<u2", "int_val"),
    "DT_UINT32": _Dtype("<u4", "uint32_val"), "DT_UINT64": _Dtype("<u8", "uint64_val"),
    "DT_BOOL": _Dtype("?", "bool_val"),
    # Both listed as their 16 bits.
    "DT_HALF": _Dtype("<u2", "half_val"), "DT_BFLOAT16": _Dtype("<u2", "half_val")}
# What an array of NumPy's is sent as: half is stored as itself, bfloat16 is unknown to NumPy.
_SENT = {np.dtype(dtype.stored): name for name, dtype in DTYPES.items()
         if dtype.field != "half_val"} | {np.dtype("<f2"): "DT_HALF"}
_NUMBERS = _ENUMS["DataType"]
_NAMES = {number: name for name, number in _NUMBERS.items()}


def dtype_name(number):
    """`DT_FLOAT` for 1 and so on; `DT_<number>` of a type that is not read here."""
    return _NAMES.get(number, f"DT_<{number}>")


def dtype_number(name):
    """1 for `DT_FLOAT` and so on."""
    return _NUMBERS[name]


def as_array(values, dtype):
    """Python values as an array that `to_tensor` sends as `dtype`.

    Args:
        values: nested lists, or an array, of numbers or of str and bytes.
        dtype: `DT_STRING`, `DT_INT32` and so on.

    Returns: array of that type; of strings one of objects; float32 for bfloat16, which is left to
        the server to refuse.

    Raises:
        UsageError: the values are ragged or of another type.
    """
    if dtype != "DT_STRING" and dtype not in DTYPES:
        raise UsageError(explain(f"values of the type {dtype} cannot be sent",
                                 f"one of DT_STRING {' '.join(DTYPES)}"))
    try:
        if dtype == "DT_STRING":
            return _strings(np.asarray(values, object))
        array = np.asarray(values)
        stored = np.dtype({"DT_HALF": "<f2", "DT_BFLOAT16": "<f4"}.get(
            dtype, DTYPES[dtype].stored))
        # Whole numbers may be of any integer type that has them.
        whole = array.dtype.kind in "iu" and stored.kind in "iu"
        if array.size and not whole and not np.can_cast(array.dtype, stored, "same_kind"):
            raise TypeError(f"{array.dtype} values")
        cast = array.astype(stored)
        if stored.kind in "iu" and not np.array_equal(cast, array):
            raise OverflowError("a value is too large")
        return cast
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(explain(f"{error}", f"a regular array of {dtype}")) from error


def _strings(array):
    for value in array.flat:
        if not isinstance(value, str | bytes):
            raise TypeError(f"a value is {type(value).__name__}")
        to_bytes(value)
    return array


def to_bytes(text):
    """A str in UTF-8, bytes as they are.

    Raises:
        UsageError: half a surrogate pair is in the text, which has no UTF-8.
    """
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(explain(f"character {error.start} of the text {text[:40]!r} is half a "
                                 "surrogate pair", "Unicode text")) from error


def to_tensor(array):
    """A `TensorProto` of an array of numbers, bool, or of str and bytes (dtype object, S, U).

    Raises:
        UsageError: NumPy's type has no counterpart.
    """
    array = np.asarray(array)
    tensor = TensorProto()
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    if array.dtype.kind in "OSU":
        tensor.dtype = _NUMBERS["DT_STRING"]
        tensor.string_val.extend(map(to_bytes, array.flat))
        return tensor
    little = array.dtype.newbyteorder("<")
    if little not in _SENT:
        raise UsageError(explain(f"an array of {array.dtype}",
                                 "numbers, bool or text: str, bytes"))
    tensor.dtype = _NUMBERS[_SENT[little]]
    tensor.tensor_content = array.astype(little, copy=False).tobytes()
    return tensor


def from_tensor(tensor):
    """The array of a `TensorProto`; strings are bytes in an array of objects.

    float16 and bfloat16 become float32. Where fewer values than elements are listed, the last
    stands for the rest, of none 0 or `b""`, as TensorFlow reads them.

    Raises:
        BertTfError: the type is not known, or values and shape disagree.
    """
    name = dtype_name(tensor.dtype)
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if name == "DT_STRING":
        if tensor.tensor_content:
            values = _strings_in(tensor.tensor_content, shape)
        else:
            values = np.empty(len(tensor.string_val), object)
            values[:] = tensor.string_val
        rest = np.array([b""], object)
    elif name in DTYPES:
        stored, field = DTYPES[name]
        if tensor.tensor_content:
            values = _contents(tensor.tensor_content, stored, shape)
        else:
            values = np.array(getattr(tensor, field), stored)
        rest = np.zeros(1, stored)
    else:
        raise BertTfError(explain(f"a tensor of the type {name}",
                                  f"one of DT_STRING {' '.join(DTYPES)}"))
    missing = _size(shape) - len(values)
    if missing > 0:
        values = np.concatenate([values, np.repeat(values[-1:] if len(values) else rest, missing)])
    if missing < 0:
        raise BertTfError(f"a tensor of the shape {shape} with {len(values)} values")
    if name == "DT_HALF":
        values = values.view("<f2").astype(np.float32)
    elif name == "DT_BFLOAT16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.reshape(shape)


def _contents(content, stored, shape):
    if len(content) != _size(shape) * np.dtype(stored).itemsize:
        raise BertTfError(f"a tensor of the shape {shape} with {len(content)} bytes")
    return np.frombuffer(content, stored)


def _strings_in(content, shape):
    try:
        return string_content.unpack(content, _size(shape))
    except ValueError as error:
        raise BertTfError(f"a tensor of the shape {shape}: {error}") from error


def _size(shape):
    if any(size < 0 for size in shape):
        raise BertTfError(explain(f"a tensor of the shape {shape}", "no negative sizes"))
    return math.prod(shape)
