"""Vectors that a server stores small, and those that the client does."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scripted_server import ScriptedServer

from bert_tf.errors import UsageError
from bert_tf.retrieval.codes import VectorCode

CODES = {"int8": (VectorCode(precision="int8", scale=10.0), tf.int8),
         "bits": (VectorCode(precision="bits"), tf.uint8), "float32": (VectorCode(), tf.float32)}


def vectors(texts):
    return np.float32([[np.cos(float(text) * place) for place in range(16)] for text in texts])


def server(precision):
    code, dtype = CODES[precision]

    def answer(signature, inputs):
        if signature == "describe":
            about = {"embedding": code.options(), "results": {}}
            return {"description": np.array([json.dumps(about).encode()], object)}
        return {"embedding": code.encode(vectors(inputs["text"]))}

    text = {"text": (tf.string, [None])}
    width = code.stored_width(16)
    return ScriptedServer(answer, {"embed": (text, {"embedding": (dtype, [None, width])}),
                                   "describe": (text, {"description": (tf.string, [None])})})


@pytest.mark.parametrize("precision", CODES)
def test_what_is_served_and_what_is_asked_for(protocol, ask, precision):
    served, _ = CODES[precision]
    texts, smaller = ["1", "2", "3"], VectorCode(8, "bits")
    expected = served.encode(vectors(texts))
    with server(precision).running(protocol) as address:
        np.testing.assert_array_equal(ask(address, "embed", texts), expected, strict=True)
        empty = ask(address, "embed", [])
        assert empty.shape == (0, expected.shape[1]) and empty.dtype == expected.dtype
        np.testing.assert_array_equal(ask(address, "embed", "2", code=VectorCode()),
                                      served.decode(expected[1]), strict=True)
        np.testing.assert_array_equal(ask(address, "embed", texts, code=smaller),
                                      smaller.encode(served.decode(expected)), strict=True)
        assert [each["index"] for each in ask(address, "rank", "2", texts)][0] == 1
        with pytest.raises(UsageError, match="multiple of 8"):
            ask(address, "embed", texts, code=VectorCode(7, "bits"))
