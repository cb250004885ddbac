"""TensorFlow Serving's JSON for `classify` and `regress`: to `tf.Example`, from scores.

The rules are those of `tensorflow_serving/util/json_tensor.cc` ("Classify and Regress API" in the
official guide): an example is an object of features, each a value or a list of values of one kind;
`context` holds features that all examples have.
"""

import numpy as np

from bert_tf.serving.wire import protocol
from bert_tf.serving.wire.messages import check_context, check_rows, check_texts, error
from bert_tf.serving.wire.rest_json import decode_base64, is_base64
from bert_tf.serving.wire.rest_text import dump, read, show


def read_examples(body, packed, limits):
    """The body of a request: the signature's name, and serialized `tf.Example`s, a list of bytes.

    Args:
        body: bytes.
        packed: whether they are gzip.
        limits: `Limits`.

    Raises:
        ServingError: `INVALID_ARGUMENT`.
    """
    document, name = read(body, packed, limits)
    examples = examples_of(document, limits)
    check_texts("inputs", examples, limits)
    return name, examples


def examples_of(document, limits):
    """The serialized `tf.Example`s of a request's JSON, a dict."""
    examples = document.get("examples")
    if type(examples) is not list or not examples:
        raise error("json_list", key="examples", value=show(examples))
    check_rows(examples, limits)
    context = _example(document["context"]) if "context" in document else b""
    check_context(context, examples, limits)
    # Of a feature that both have, what comes last is read, an empty list aside, as over gRPC.
    return [context + _example(value) for value in examples]


def _example(value):
    """The serialized `tf.Example` of a JSON object."""
    if type(value) is not dict:
        raise error("json_example", value=show(value))
    example = protocol.Example()
    for name, content in value.items():
        feature = protocol.Feature()
        for element in content if type(content) is list else [content]:
            _add(element, name, feature)
        try:
            example.features.feature[name].CopyFrom(feature)
        except UnicodeEncodeError as problem:  # protobuf for Python has no other names
            raise error("json_feature_name", name=show(name)) from problem
    return example.SerializeToString()


def _add(element, name, feature):
    kind, element = _feature_value(element, name)
    present = feature.WhichOneof("kind")
    if present not in (None, kind):
        raise error("json_feature_kinds", name=name)
    getattr(feature, kind).value.append(element)


def _feature_value(element, name):
    """`(field of tf.Feature, value)` of a JSON value."""
    if type(element) is str:
        return "bytes_list", element.encode("utf-8", "surrogateescape")
    if is_base64(element):
        return "bytes_list", decode_base64(element)
    if type(element) is float:
        return "float_list", element
    if type(element) in (bool, int) and element < 2 ** 63:
        return "int64_list", int(element)
    raise error("json_feature", name=name, value=show(element))


def write_classifications(classifications):
    """The answer of `classify`, `{"results": [[[label, score], …], …]}`; bytes.

    Args:
        classifications: of each example a list of `(label, score)`, str and float.
    """
    if not classifications:
        raise error("json_no_results")
    return _results([[[label, np.float32(score)] for label, score in classes]
                     for classes in classifications],
                    [score for classes in classifications for _, score in classes])


def write_regressions(values):
    """The answer of `regress`, `{"results": [value, …]}`; list of float -> bytes."""
    if not values:
        raise error("json_no_results")
    return _results(np.asarray(values, np.float32), values)


def _results(results, numbers):
    finite = np.isfinite(np.asarray(numbers, np.float32)).all()
    return dump({"results": results}, bool(finite))
