"""Requests that TF Serving runs on a new version before it takes traffic.

`assets.extra/tf_serving_warmup_requests` is a TFRecord file of serialized
`tensorflow.serving.PredictionLog` (TF Serving's "SavedModel Warmup"). The few fields needed are
written here by number, so that an export does not depend on tensorflow-serving-api.
"""

import math

import tensorflow as tf

from bert_tf.saved_model.requests import make_requests

_SENTENCE = "The quick brown fox [MASK] over the lazy dog. "
_LENGTHS = (8, 64)  # tokens, about; and the whole window


def warmup_requests(served):
    """Make requests to every signature of a `ServedModel`: a short text, a middling one, the
    window.

    One row each suffices: kernels and memory are set up for a length, whatever the rows.

    Returns: list of `{signature: {input: tensor}}`, one for each length.
    """
    window = served.seq_length
    lengths = sorted({min(length, window) for length in (*_LENGTHS, window)})
    return [make_requests(served, [_text(served, length)], [length]) for length in lengths]


def write_warmup(path, *requests):
    """Write the warm-up file.

    Args:
        path: file to write; not atomic, it belongs into a version that is still being built.
        requests: dicts `{signature name: {input name: tensor}}`; TF Serving takes up to 1,000
            requests in all.
    """
    with tf.io.TFRecordWriter(path) as writer:
        for some in requests:
            for signature, inputs in some.items():
                writer.write(_prediction_log(signature, inputs))


def _text(served, length):
    """Return sentences of about `length` tokens; those that fill the window are longer."""
    if served.tokenizer is None:
        return ""
    tokens = max(1, int(served.tokenizer.tokenize(tf.constant([_SENTENCE])).row_lengths()[0]))
    times = math.ceil(length / tokens) if length == served.seq_length else length // tokens
    return _SENTENCE * max(1, times)


def _prediction_log(signature, inputs):
    # PredictionLog.predict_log = 6, PredictLog.request = 1; PredictRequest.model_spec = 1 and
    # .inputs = 2 (a map: key = 1, value = 2); ModelSpec.signature_name = 3.
    request = _field(1, _field(3, signature.encode()))
    for name, value in inputs.items():
        proto = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, proto))
    return _field(6, _field(1, request))


def _field(number, data):
    """Return a length-delimited field in the protocol buffer wire format (numbers below 16)."""
    length, size = len(data), b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data
