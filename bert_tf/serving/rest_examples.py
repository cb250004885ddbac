"""TensorFlow Serving's JSON for `classify` and `regress`: to `tf.Example`, from scores.

The rules are those of `tensorflow_serving/util/json_tensor.cc` ("Classify and Regress API" in the
official guide): an example is an object of features, each a value or a list of values of one kind;
`context` holds features that all examples have.
"""

import numpy as np

from bert_tf.serving import protocol
from bert_tf.serving.messages import error
from bert_tf.serving.rest_json import decode_base64, is_base64
from bert_tf.serving.rest_text import dump, show, type_name

_FLOAT_MAX = float(np.finfo(np.float32).max)
_KINDS = {"bytes_list": "bytes", "float_list": "float", "int64_list": "int64"}


def read_examples(document):
    """The examples of a request, each a serialized `tf.Example`; list of bytes.

    Args:
        document: dict, the request's JSON.

    Raises:
        ServingError: `INVALID_ARGUMENT`.
    """
    context = _example(document["context"]) if "context" in document else None
    if "examples" not in document:
        raise error("json_no_examples_key", value=show(document))
    examples = document["examples"]
    if type(examples) is not list:
        raise error("json_examples_not_list", value=show(document))
    if not examples:
        raise error("json_no_examples", value=show(document))
    return [_example(value, context).SerializeToString() for value in examples]


def _example(value, context=None):
    """The `tf.Example` of a JSON object; what it does not say itself is the context's."""
    if type(value) is not dict:
        raise error("json_example_not_object", type=type_name(value))
    example = protocol.Example()
    if context is not None:
        example.CopyFrom(context)
    for name, content in value.items():
        feature = protocol.Feature()
        for element in content if type(content) is list else [content]:
            _add(element, name, feature)
        example.features.feature[name].CopyFrom(feature)
    return example


def _add(element, name, feature):
    kind, element = _feature_value(element, name)
    present = feature.WhichOneof("kind")
    if present not in (None, kind):
        raise error("json_feature_kind", name=name, kind=_KINDS[present])
    getattr(feature, kind).value.append(element)


def _feature_value(element, name):
    """`(field of tf.Feature, value)` of a JSON value."""
    if type(element) is str:
        return "bytes_list", element.encode("utf-8", "surrogateescape")
    if is_base64(element):
        return "bytes_list", decode_base64(element)
    if type(element) is float:
        if np.isfinite(element) and abs(element) > _FLOAT_MAX:
            raise error("json_lossy", value=show(element), dtype="float")
        return "float_list", element
    if type(element) in (bool, int):
        if element >= 2 ** 63:
            raise error("json_feature_uint64", name=name)
        return "int64_list", int(element)
    raise error("json_feature_type", name=name, type=type_name(element))


def write_classifications(classifications):
    """The answer of `classify`, `{"results": [[[label, score], …], …]}`; bytes.

    Args:
        classifications: of each example a list of `(label, score)`, str and float.
    """
    if not classifications:
        raise error("json_no_classifications")
    return _results([[[label, np.float32(score)] for label, score in classes]
                     for classes in classifications],
                    [score for classes in classifications for _, score in classes])


def write_regressions(values):
    """The answer of `regress`, `{"results": [value, …]}`; list of float -> bytes."""
    if not values:
        raise error("json_no_regressions")
    return _results(np.asarray(values, np.float32), values)


def _results(results, numbers):
    finite = np.isfinite(np.asarray(numbers, np.float32)).all()
    return dump({"results": results}, bool(finite))
