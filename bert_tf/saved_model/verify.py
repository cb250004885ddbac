"""Check that an exported graph answers as the Keras model does, and refuses what it has to."""

import math
from concurrent import futures

import numpy as np
import tensorflow as tf

from bert_tf import cores
from bert_tf.errors import BertTfError
from bert_tf.saved_model.guards import check_guards
from bert_tf.saved_model.requests import make_requests
from bert_tf.saved_model.signatures import signatures

_TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] 반갑습니다 ㅋㅋ",
          "Café 🙂 [MASK] [MASK]!"]
_SENTENCE = "A sentence of which several are longer than the window. "
_LENGTHS = (7, 1, 3, 5, 6)  # tokens of the rows, where there is no text


def verify(served, folder, tolerance):
    """Compare the SavedModel in `folder` with the Keras model, and try its guards, every signature.

    Args:
        served: the `ServedModel`.
        folder: of the SavedModel.
        tolerance: how far a row may be from the expected one, as a fraction of its length.

    Raises:
        BertTfError: they differ, or invalid inputs are not refused.
    """
    check_guards(folder)  # before it is run: without them, invalid shapes end the process
    reloaded = tf.saved_model.load(folder)
    rows = signatures(served)
    texts = [*_TEXTS, _SENTENCE * (served.seq_length // 4)]
    # What the default stands for calls the same graph under its own name.
    requests = {_called(reloaded.signatures[name]) or name: (name, inputs) for name, inputs in
                make_requests(served, texts, _LENGTHS).items()}.values()
    # Most of the time TensorFlow optimizes each graph for its first call, on one core.
    with futures.ThreadPoolExecutor(cores.usable()) as pool:
        list(pool.map(lambda each: _refuses(reloaded.signatures[each[0]], *each), requests))
    for name, inputs in requests:
        signature = rows[name]
        actual = tf.nest.map_structure(np.asarray, reloaded.signatures[name](**inputs))
        if signature.expected is not None:
            expected = signature.expected(served, inputs, actual, tolerance)
        else:
            expected = signature.function(served, **inputs)
        expected = tf.nest.map_structure(np.asarray, expected)
        actual, expected, clear = signature.compared(served, inputs, actual, expected, tolerance)
        for output, values in expected.items():
            same = clear.get(output, np.ones(len(values), bool))
            if values.dtype == np.float32:
                agree = near(actual[output][same], values[same], tolerance)
            else:
                agree = np.array_equal(values[same], actual[output][same])
            if not agree:
                raise BertTfError(f"the reloaded SavedModel gives a different `{output}` for the "
                                  f"signature `{name}` than the Keras model; nothing is published")


def _called(function):
    """Return the names of the graphs that a loaded signature calls."""
    return tuple(node.attr["f"].func.name for node in function.graph.as_graph_def().node
                 if "f" in node.attr)


def _refuses(function, name, inputs):
    """Call a signature with a scalar, a matrix, missing rows and ids that are none, or raise."""
    for key, value in inputs.items():
        invalid = [value[0], value[tf.newaxis]]
        if len(inputs) > 1:
            invalid.append(value[1:])
        if value.dtype == tf.int32 and key != "seed":
            # Not `value - 1`: a vocabulary whose padding is 1, as CamemBERT's, may give no id 0.
            invalid += [-1 - value, value + value.dtype.max // 2]
        for given in invalid:
            try:
                function(**{**inputs, key: given})
            except tf.errors.InvalidArgumentError:
                continue
            raise BertTfError(f"the signature `{name}` accepts an invalid `{key}`, of the shape "
                              f"{given.shape.as_list()}; nothing is published")


def near(actual, expected, tolerance):
    """Return whether each row of `actual [B, …]` is within `tolerance` of its expected one's
    size."""
    expected = expected.reshape(len(expected), math.prod(expected.shape[1:]))
    error = np.linalg.norm(actual.reshape(expected.shape) - expected, axis=1)
    return bool(np.all(error <= tolerance * np.maximum(np.linalg.norm(expected, axis=1), 1)))
