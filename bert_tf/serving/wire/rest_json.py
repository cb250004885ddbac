"""TensorFlow Serving's JSON for `predict`: requests to tensors, tensors to answers.

The rules are those of `tensorflow_serving/util/json_tensor.cc` ("RESTful API" in the official
guide): row form `instances` -> `predictions`, column form `inputs` -> `outputs`, a plain value
where there is one tensor, objects by name where there are several, `{"b64": …}` for bytes.
"""

import base64
import binascii
import functools
from typing import NamedTuple

import numpy as np

from bert_tf.serving.wire import protocol
from bert_tf.serving.wire.messages import check_rows, check_texts, error
from bert_tf.serving.wire.request import ServingError
from bert_tf.serving.wire.rest_text import dump, read, show
from bert_tf.serving.wire.tensor_proto import MOST_TEXTS

_BYTES_SUFFIX = "_bytes"
_MAX_RANK = 254  # of a tf.TensorShape


class _Kind(NamedTuple):
    """How JSON values become elements of a type."""

    name: str  # of NumPy's type, or what `DataType` calls one that JSON cannot give
    json: frozenset = frozenset()  # the types of JSON values that fit; none: nothing does
    range: tuple | None = None  # least and greatest whole number; None: any
    holder: type = object  # NumPy's type in which all of them can be held

    def fits(self, values):
        """Whether all of some values of those types are in the range."""
        return self.range is None or (self.range[0] <= min(values)
                                      and max(values) <= self.range[1])


_FLOAT = (frozenset({int, float}), None, np.float64)
_INT = (frozenset({int}), (-2 ** 31, 2 ** 31 - 1), np.int64)  # smaller ones wrap, as there
_KINDS = {kind.name: kind for kind in (
    _Kind("float32", *_FLOAT), _Kind("float64", *_FLOAT),
    *(_Kind(name, *_INT) for name in ("int32", "int16", "int8", "uint8")),
    _Kind("int64", frozenset({int}), (-2 ** 63, 2 ** 63 - 1), np.int64),
    _Kind("uint32", frozenset({int}), (0, 2 ** 32 - 1), np.uint64),
    _Kind("uint64", frozenset({int}), (0, 2 ** 64 - 1), np.uint64),
    _Kind("bool", frozenset({bool}), None, np.bool_), _Kind("string", frozenset({str})))}
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


@functools.cache
def _kind(number):
    """The `_Kind` of a `DataType`'s number."""
    name = protocol.dtype_name(number).removeprefix("DT_").lower()
    return _KINDS.get(_NUMPY_NAMES.get(name, name)) or _Kind(name)


def read_predict(body, packed, signatures, limits):
    """The body of a request; what it holds is bounded before it is decoded.

    Args:
        body: bytes.
        packed: whether they are gzip.
        signatures: `{name: {input: number of its DataType}}` of the model.
        limits: `Limits`.

    Returns: the signature's name as given, `{name: np.ndarray}` with strings as object arrays of
        bytes, and whether the answer goes by rows.

    Raises:
        ServingError: `INVALID_ARGUMENT`, or `UNIMPLEMENTED` for a type that JSON cannot give.
    """
    document, name = read(body, packed, limits)
    types = signatures.get(name or "serving_default")
    if types is None:
        raise error("no_named_signature", signature=name or "serving_default")
    columns = document.get("inputs")
    for values in (document.get("instances"), columns,
                   *(columns.values() if type(columns) is dict else ())):
        if type(values) is list:
            check_rows(values, limits)
    inputs, row_form = tensors_of(document, types)
    for alias, value in inputs.items():
        if value.dtype == object:
            if value.size > MOST_TEXTS:
                raise error("tensor", alias=alias)
            check_texts(alias, value.ravel().tolist(), limits)
    return name, inputs, row_form


def tensors_of(document, types):
    """`({name: np.ndarray}, whether by rows)` of a request's JSON, a dict.

    Args:
        document: dict.
        types: `{input: number of its DataType}` of the signature that it asks for.
    """
    kinds = {name: _kind(number) for name, number in sorted(types.items())}
    row_form = "instances" in document
    if row_form == ("inputs" in document):
        raise error("json_key")
    if not kinds:
        raise error("json_no_inputs", name=document.get("signature_name") or "serving_default")
    return (_rows if row_form else _columns)(document, kinds), row_form


def _rows(document, kinds):
    instances = document["instances"]
    if type(instances) is not list or not instances:
        raise error("json_list", key="instances", value=show(instances))
    by_name = _is_object(instances[0])
    if not by_name and len(kinds) > 1:
        raise error("json_by_name", names=", ".join(kinds))
    rows = {name: _Rows(kind) for name, kind in kinds.items()}
    for item, instance in enumerate(instances):
        try:
            if _is_object(instance) != by_name:
                raise error("json_mixed", value=show(instance))
            named = instance if by_name else dict.fromkeys(kinds, instance)
            if named.keys() != kinds.keys():
                raise error("json_names", names=", ".join(kinds), given=", ".join(named))
            for name, value in named.items():
                rows[name].add(value, name)
        except ServingError as problem:
            raise error("json_instance", item=item, problem=problem.message) from problem
    return {name: column.tensor(len(instances)) for name, column in rows.items()}


class _Rows:
    """What the instances give one input: a tensor each, all of one shape."""

    def __init__(self, kind):
        self.kind = kind
        self.shape = None  # of an instance's tensor
        self.elements = []

    def add(self, value, name):
        shape = _dense_shape(value)
        _fill(value, 0, shape, self.kind, self.elements)
        if self.shape is None:
            self.shape = shape
        elif shape != self.shape:
            raise error("json_shape", name=name, expected=self.shape, shape=shape)

    def tensor(self, batch):
        return _tensor(self.elements, [batch, *self.shape], self.kind)


def _columns(document, kinds):
    values = document["inputs"]
    if not _is_object(values):
        if len(kinds) > 1:
            raise error("json_by_name", names=", ".join(kinds))
        values = dict.fromkeys(kinds, values)
    elif not kinds.keys() <= values.keys():
        raise error("json_names", names=", ".join(kinds), given=", ".join(values))
    tensors = {}
    for name, kind in kinds.items():
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
        raise error("json_base64", value=show(value))
    text = "".join(value["b64"].split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as problem:
        raise error("json_base64", value=show(value)) from problem


def _dense_shape(value):
    """The shape that a value's first elements give; list."""
    shape = []
    while type(value) is list and len(shape) <= _MAX_RANK:
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _fill(value, level, shape, kind, elements):
    """Append a value's elements in their order, checking that it has that shape."""
    rank = len(shape)
    if type(value) is not list and level == rank:
        elements.append(_element(value, kind))
        return
    if type(value) is not list or level >= rank or rank > _MAX_RANK or len(value) != shape[level]:
        raise error("json_ragged", value=show(value), shape=show(shape))
    if level == rank - 1 and value and kind.json.issuperset(map(type, value)) and kind.fits(value):
        elements += value
        return
    for part in value:
        _fill(part, level + 1, shape, kind, elements)


def _element(value, kind):
    if not kind.json:
        raise error("json_unreadable_type", dtype=kind.name)
    if type(value) in kind.json and kind.fits((value,)):
        return value
    if type(value) is dict and kind.name == "string":
        return decode_base64(value)
    raise error("json_wrong_type", value=show(value), dtype=kind.name)


def _tensor(elements, shape, kind):
    if kind.name == "string":
        elements = [value if type(value) is bytes else value.encode("utf-8", "surrogateescape")
                    for value in elements]
    array = np.empty(len(elements), kind.holder)
    array[:] = elements
    with np.errstate(over="ignore"):  # infinite then, as there
        return array.astype(object if kind.name == "string" else kind.name,
                            copy=False).reshape(shape)


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
        if not array.ndim or batch not in (None, len(array)):
            raise error("json_batch", name=name)
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
    if array.dtype.name not in _KINDS:
        raise error("json_unwritable_type", name=name, dtype=array.dtype.name)
    return np.ascontiguousarray(array) if array.ndim else array[()]
