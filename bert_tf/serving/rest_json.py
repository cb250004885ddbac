"""TensorFlow Serving's JSON for `predict`: requests to tensors, tensors to answers.

The rules are those of `tensorflow_serving/util/json_tensor.cc` ("RESTful API" in the official
guide): row form `instances` -> `predictions`, column form `inputs` -> `outputs`, a plain value
where there is one tensor, objects by name where there are several, `{"b64": …}` for bytes.
"""

import base64
import binascii
import functools
import math
from typing import NamedTuple

import numpy as np

from bert_tf.serving import protocol
from bert_tf.serving.messages import error
from bert_tf.serving.request import ServingError
from bert_tf.serving.rest_text import dump, show, type_name

_BYTES_SUFFIX = "_bytes"
_MAX_RANK = 254  # of a tf.TensorShape
# TensorFlow's names for types (`DataTypeString`) where they are not NumPy's.
_TYPE_NAMES = {"float32": "float", "float64": "double", "float16": "half"}
_NUMPY_NAMES = {name: of_numpy for of_numpy, name in _TYPE_NAMES.items()}


class _Kind(NamedTuple):
    """How JSON values become elements of a type."""

    name: str  # of the type, as TensorFlow writes it
    dtype: type  # of NumPy
    json: frozenset = frozenset()  # the types of JSON values that fit; none: nothing does
    fits: object = None  # of values of those types: whether all can be held
    holder: type = object  # NumPy's type in which all of them can be held


def _whole(low, high):
    return lambda values: low <= min(values) and max(values) <= high


def _lossless(digits, largest):
    most = 2 ** digits - 1  # what `IsLosslessDecimal` allows of a whole number
    return lambda values: all(
        (abs(value) <= most) if type(value) is int else (abs(value) <= largest or not
                                                         math.isfinite(value))
        for value in values)


def _always(values):
    return True


_INT = _whole(-2 ** 31, 2 ** 31 - 1)  # also of int8, int16 and uint8, as in `AddValueToTensor`
_FITS = {
    "float32": ({int, float}, _lossless(24, float(np.finfo(np.float32).max)), np.float64),
    "float64": ({int, float}, _lossless(53, math.inf), np.float64),
    "int32": ({int}, _INT, np.int64),
    "int16": ({int}, _INT, np.int64),
    "int8": ({int}, _INT, np.int64),
    "uint8": ({int}, _INT, np.int64),
    "int64": ({int}, _whole(-2 ** 63, 2 ** 63 - 1), np.int64),
    "uint32": ({int}, _whole(0, 2 ** 32 - 1), np.uint64),
    "uint64": ({int}, _whole(0, 2 ** 64 - 1), np.uint64),
    "bool": ({bool}, _always, np.bool_),
    "string": ({str}, _always, object),
}


@functools.cache
def _kind(number):
    """The `_Kind` of a `DataType`'s number."""
    name = protocol.dtype_name(number).removeprefix("DT_").lower()
    known = _NUMPY_NAMES.get(name, name)
    if known not in _FITS:
        return _Kind(name, None)
    json, fits, holder = _FITS[known]
    return _Kind(name, object if known == "string" else np.dtype(known), frozenset(json), fits,
                 holder)


def read_predict(document, signature):
    """The input tensors of a request.

    Args:
        document: dict, the request's JSON.
        signature: `SignatureDef` that it asks for.

    Returns: `(inputs, row_form)`: `{name: np.ndarray}`, strings as object arrays of bytes; whether
        the answer goes by rows too.

    Raises:
        ServingError: `INVALID_ARGUMENT`, or `UNIMPLEMENTED` for a type that JSON cannot give.
    """
    kinds = {name: _kind(info.dtype) for name, info in signature.inputs.items()}
    if not kinds:
        raise error("json_no_inputs", name=document.get("signature_name") or "DEFAULT")
    row_form = "instances" in document
    if not row_form and "inputs" not in document:
        raise error("json_missing_key")
    if row_form and "inputs" in document:
        raise error("json_both_keys", value=show(document))
    return (_rows if row_form else _columns)(document, kinds), row_form


def _rows(document, kinds):
    instances = document["instances"]
    if type(instances) is not list:
        raise error("json_instances_not_list", value=show(document))
    if not instances:
        raise error("json_no_instances", value=show(document))
    if type(instances[0]) is not dict and len(kinds) > 1:
        raise error("json_instances_plain")
    by_name = _is_object(instances[0])
    only = next(iter(kinds))
    rows = {name: _Rows(kind) for name, kind in kinds.items()}
    for item, instance in enumerate(instances):
        if by_name:
            if not _is_object(instance):
                raise error("json_instance_not_object", item=item)
            for name, value in instance.items():
                try:
                    if name not in rows:
                        raise error("json_unknown_input", name=name)
                    rows[name].add(value)
                except ServingError as problem:
                    raise error("json_instance_key", item=item, name=name,
                                error=f"{problem.code}: {problem.message}") from problem
            if instance.keys() != kinds.keys():
                raise error("json_instance_keys", item=item, value=show(instance),
                            names=",".join(sorted(kinds)))
        else:
            if _is_object(instance):
                raise error("json_instance_is_object", item=item)
            try:
                rows[only].add(instance)
            except ServingError as problem:
                raise error("json_instance", item=item,
                            error=f"{problem.code}: {problem.message}") from problem
    return {name: column.tensor(len(instances)) for name, column in rows.items()
            if column.shape is not None}


class _Rows:
    """What the instances give one input: a tensor each, all of one shape."""

    def __init__(self, kind):
        self.kind = kind
        self.shape = None  # of an instance's tensor
        self.elements = []

    def add(self, value):
        before = len(self.elements)
        shape = _dense_shape(value)
        _fill(value, 0, shape, self.kind, self.elements)
        if self.shape is None:
            self.shape = shape
        elif shape != self.shape:
            size, expected = len(self.elements) - before, math.prod(self.shape)
            if size != expected:
                raise error("json_tensor_size", expected=expected, size=size)
            raise error("json_tensor_shape", expected=_shape_name(self.shape),
                        shape=_shape_name(shape))

    def tensor(self, batch):
        return _tensor(self.elements, [batch, *self.shape], self.kind)


def _columns(document, kinds):
    values = document["inputs"]
    if not _is_object(values):
        if len(kinds) > 1:
            raise error("json_inputs_plain")
        values = {next(iter(kinds)): values}
    tensors = {}
    for name, kind in kinds.items():
        if name not in values:
            raise error("json_missing_input", name=name)
        shape, elements = _dense_shape(values[name]), []
        _fill(values[name], 0, shape, kind, elements)
        tensors[name] = _tensor(elements, shape, kind)
    return tensors


def _is_object(value):
    return type(value) is dict and not is_base64(value)


def is_base64(value):
    """Whether a JSON value is an object that says bytes, `{"b64": "…"}`."""
    return type(value) is dict and len(value) == 1 and type(value.get("b64")) is str


def decode_base64(value):
    """The bytes that `{"b64": "…"}` says; padding may be absent. Raises ServingError."""
    if not is_base64(value):
        raise error("json_not_base64_object", value=show(value))
    text = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise error("json_not_base64") from problem


def _dense_shape(value):
    """The shape that a value's first elements give; list."""
    shape = []
    while type(value) is list and len(shape) <= _MAX_RANK:
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _shape_name(shape):
    return f"[{','.join(map(str, shape))}]"


def _fill(value, level, shape, kind, elements):
    """Append a value's elements in their order, checking that it has that shape."""
    rank = len(shape)
    if type(value) is not list:
        if level != rank:
            raise error("json_wrong_level", value=show(value), level=level + 1, rank=rank)
        elements.append(_element(value, kind))
        return
    if level >= rank or rank > _MAX_RANK:
        raise error("json_list_too_deep", level=level, rank=rank)
    if len(value) != shape[level]:
        raise error("json_list_size", size=len(value), level=level, expected=shape[level])
    if level == rank - 1 and value and kind.json.issuperset(map(type, value)) and kind.fits(value):
        elements += value
        return
    for part in value:
        _fill(part, level + 1, shape, kind, elements)


def _element(value, kind):
    if kind.dtype is None:
        raise error("json_unreadable_type", value=show(value), dtype=kind.name)
    if type(value) in kind.json:
        if kind.fits((value,)):
            return value
        if float in kind.json:
            raise error("json_lossy", value=show(value), dtype=kind.name)
    elif type(value) is dict and kind.name == "string":
        return decode_base64(value)
    raise error("json_wrong_type", value=show(value), type=type_name(value), dtype=kind.name)


def _tensor(elements, shape, kind):
    if kind.name == "string":
        elements = [value if type(value) is bytes else value.encode("utf-8", "surrogateescape")
                    for value in elements]
    array = np.empty(len(elements), kind.holder)
    array[:] = elements
    return array.astype(kind.dtype, copy=False).reshape(shape)


def write_predict(outputs, row_form):
    """The answer to a request; JSON text, bytes.

    Args:
        outputs: `{name: np.ndarray}`, strings as object arrays of bytes.
        row_form: `{"predictions": […]}`, a row each, and not `{"outputs": …}`.

    Raises:
        ServingError: `INVALID_ARGUMENT`: JSON has no such type, or outputs no common batch.
    """
    if not outputs:
        raise error("json_no_outputs")
    finite = all(array.dtype.kind != "f" or bool(np.isfinite(array).all())
                 for array in outputs.values())
    values = {name: _writable(name, array) for name, array in outputs.items()}
    if row_form:
        _check_batch(outputs)
        if len(values) == 1:
            (rows,) = values.values()
        else:
            rows = [dict(zip(values, row, strict=True))
                    for row in zip(*values.values(), strict=True)]
        return dump({"predictions": rows}, finite)
    if len(values) == 1:
        (values,) = values.values()
    return dump({"outputs": values}, finite)


def _check_batch(outputs):
    batch = None
    for name, array in outputs.items():
        if not array.ndim:
            raise error("json_no_batch", name=name)
        if batch not in (None, len(array)):
            raise error("json_batch_sizes", name=name, size=len(array), expected=batch)
        batch = len(array)


def _writable(name, array):
    """What `dump` takes of a tensor."""
    if array.dtype == object:
        elements = np.empty(array.size, object)
        if name.endswith(_BYTES_SUFFIX):
            elements[:] = [{"b64": base64.b64encode(value).decode()} for value in array.flat]
        else:
            elements[:] = [value.decode("utf-8", "surrogateescape") for value in array.flat]
        return elements.reshape(array.shape).tolist()
    if array.dtype.name not in _FITS:
        type_of = _TYPE_NAMES.get(array.dtype.name, array.dtype.name)
        raise error("json_unwritable_type", dtype=type_of)
    return np.ascontiguousarray(array) if array.ndim else array[()]
