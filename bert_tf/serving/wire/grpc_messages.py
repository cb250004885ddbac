"""From the bytes of a gRPC request to tensors: plain functions, for this process or another.

No TensorFlow is needed, so that a process that only decodes is small and starts at once. What a
request holds is bounded before it is decoded. All raise `ServingError`.
"""

from google.protobuf.message import DecodeError

from bert_tf.serving.wire import protocol, tensor_proto
from bert_tf.serving.wire.messages import check_context, check_rows, check_texts, error
from bert_tf.serving.wire.request import Spec

_MOST_FIELDS = 16  # names of metadata that are looked at
_MOST_SPEC_BYTES = 4096  # of a `ModelSpec` that is read before the rest


def read_predict(message, limits):
    """A `PredictRequest`: `(Spec, {name: np.ndarray}, names of outputs)`."""
    request = _message(protocol.PredictRequest, message)
    return (read_spec(request.model_spec), tensor_proto.read_all(request.inputs, limits),
            tuple(request.output_filter))


def read_examples(message, limits):
    """A `ClassificationRequest` or `RegressionRequest`: `(Spec, serialized tf.Examples)`."""
    request = _message(protocol.ExampleRequest, message)
    return read_spec(request.model_spec), examples_of(request.input, limits)


def read_tasks(message, limits):
    """A `MultiInferenceRequest`: the first `Spec`, all `(Spec, method name)`, `tf.Examples`."""
    request = _message(protocol.MultiInferenceRequest, message)
    check_rows(request.tasks, limits)
    tasks = [(read_spec(task.model_spec), task.method_name) for task in request.tasks]
    return tasks[0][0] if tasks else Spec(""), tasks, examples_of(request.input, limits)


def read_metadata(message, limits):
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
    check_rows(found, limits)
    check_context(context.context, found, limits)
    examples = [context.context + example for example in found]
    check_texts("inputs", examples, limits)
    return examples


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
