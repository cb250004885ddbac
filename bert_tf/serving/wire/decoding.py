"""From the bytes of a request to tensors: plain functions, for this process or one of its own.

No TensorFlow is needed, so that a process that only decodes is small and starts at once. What a
request holds is bounded before it is decoded. All raise `ServingError`.
"""

import zlib
from types import SimpleNamespace
from typing import NamedTuple

from google.protobuf.message import DecodeError

from bert_tf.serving.wire import protocol, tensor_proto
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError, Spec
from bert_tf.serving.wire.rest_examples import read_examples
from bert_tf.serving.wire.rest_json import read_predict
from bert_tf.serving.wire.rest_text import parse, show

_MOST_FIELDS = 16  # names of metadata that are looked at
_MOST_SPEC_BYTES = 4096  # of a `ModelSpec` that is read before the rest


class Limits(NamedTuple):
    """What a request may hold.

    Attributes:
        rows: of a tensor, and examples.
        body_bytes: of a body, once it is unpacked.
    """

    rows: int
    body_bytes: int


class TooLargeError(ServingError):
    """A body of more bytes than are taken; HTTP has a status of its own for it, 413."""

    @classmethod
    def of(cls, limit):
        said = error("rest_too_large", limit=limit)
        return cls(said.code, said.message)


def predict_json(body, packed, signatures, limits):
    """The JSON of `:predict`.

    Args:
        body: bytes.
        packed: whether they are gzip.
        signatures: `{name: {input: number of its DataType}}` of the model.
        limits: `Limits`.

    Returns: the signature's name, `{name: np.ndarray}`, and whether the answer goes by rows.
    """
    document, name = _document(body, packed, limits)
    types = signatures.get(name or "serving_default")
    if types is None:
        raise error("no_named_signature", signature=name or "serving_default")
    columns = document.get("inputs")
    for values in (document.get("instances"), columns,
                   *(columns.values() if type(columns) is dict else ())):
        _check_rows_of(values, limits)
    inputs, row_form = read_predict(document, SimpleNamespace(
        inputs={alias: SimpleNamespace(dtype=number) for alias, number in types.items()}))
    for alias, value in inputs.items():
        if value.dtype == object and value.size > tensor_proto.MOST_TEXTS:
            raise error("tensor", alias=alias)
    return name, inputs, row_form


def examples_json(body, packed, limits):
    """The JSON of `:classify` and `:regress`: the signature's name, serialized `tf.Example`."""
    document, name = _document(body, packed, limits)
    _check_rows_of(document.get("examples"), limits)
    return name, read_examples(document)


def _document(body, packed, limits):
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
        raise TooLargeError.of(limit)
    return text if unpack.eof else b""


def _check_rows_of(value, limits):
    if type(value) is list:
        _check_rows(value, limits)


def _check_rows(values, limits):
    if len(values) > limits.rows:
        raise error("rows", given=len(values), wanted=limits.rows)


def predict_message(message, limits):
    """A `PredictRequest`: `(Spec, {name: np.ndarray}, names of outputs)`."""
    request = _message(protocol.PredictRequest, message)
    return (read_spec(request.model_spec), tensor_proto.read_all(request.inputs, limits.rows),
            tuple(request.output_filter))


def examples_message(message, limits):
    """A `ClassificationRequest` or `RegressionRequest`: `(Spec, serialized tf.Examples)`."""
    request = _message(protocol.ExampleRequest, message)
    return read_spec(request.model_spec), examples_of(request.input, limits)


def tasks_message(message, limits):
    """A `MultiInferenceRequest`: the first `Spec`, all `(Spec, method name)`, `tf.Examples`."""
    request = _message(protocol.MultiInferenceRequest, message)
    _check_rows(request.tasks, limits)
    tasks = [(read_spec(task.model_spec), task.method_name) for task in request.tasks]
    return tasks[0][0] if tasks else Spec(""), tasks, examples_of(request.input, limits)


def metadata_message(message, limits):
    """A `GetModelMetadataRequest`: `(Spec, names of fields)`."""
    request = _message(protocol.GetModelMetadataRequest, message)
    if not request.HasField("model_spec"):
        raise error("no_spec")
    return read_spec(request.model_spec), tuple(request.metadata_field[:_MOST_FIELDS])


def examples_of(given, limits):
    """Serialized examples of a `protocol.Input`; there must be some."""
    context = given.example_list_with_context
    found = context.examples or given.example_list.examples
    if not found:
        raise error("no_examples")
    _check_rows(found, limits)
    return [context.context + example for example in found]


def first_spec(message):
    """The `Spec` of a request that begins with its `ModelSpec`, as they do; else None.

    So little of it is read that this is quick for any message.
    """
    if message[:1] != b"\x0a":
        return None
    size = shift = 0
    for position, byte in enumerate(message[1:6], 2):
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            if size > _MOST_SPEC_BYTES:
                return None
            return read_spec(_message(protocol.ModelSpec, message[position:position + size]))
    return None


def _message(kind, data):
    try:
        return kind.FromString(data)
    except DecodeError as problem:
        raise error("damaged") from problem


def read_spec(model_spec):
    """The `Spec` of a `ModelSpec`, of `protocol` or of TensorFlow Serving."""
    which = model_spec.WhichOneof("version_choice")
    return Spec(model_spec.name,
                model_spec.version.value if which == "version" else None,
                model_spec.version_label if which == "version_label" else None,
                model_spec.signature_name)
