"""Results that are compared with each other come from one version, also where it changes."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scripted_server import ScriptedServer

from bert_tf.serving.client import RequestError

ONE_BY_ONE = {"batch_size": 1, "concurrency": 1}
TEXT = {"text": (tf.string, [None])}
TERMS = {"terms": {"kind": "terms", "text": "terms", "score": "weights"}}
OUTPUTS = {"embed": {"embedding": (tf.float32, [None, 2])},
           "predict": {"probability": (tf.float32, [None])},
           **dict.fromkeys(("sparse", "sparse_queries"), {
               "terms": (tf.string, [None, None]), "weights": (tf.float32, [None, None])}),
           "describe": {"description": (tf.string, [None])}}


def served(version_of, *signatures, **about):
    """A server and the signatures that it was asked, the n-th time with the answer of the version
    `version_of(n)`; all versions say the same of themselves."""
    def answer(signature, inputs):
        if signature == "describe":
            return {"description": np.array([json.dumps(about).encode()], object)}
        asked.append(signature)
        server.version, texts = version_of(len(asked)), inputs["text"]
        ones = np.ones([len(texts), 1], np.float32)
        return {"embed": lambda: {"embedding": np.float32(
                    [[float(text), server.version] for text in texts])},
                "predict": lambda: {"probability": ones[:, 0]}}.get(signature, lambda: {
                    # Each version has names of its own for what it finds.
                    "terms": np.array([[text + b"@%d" % server.version] for text in texts], object),
                    "weights": ones})()

    asked = []
    server = ScriptedServer(answer, {name: (TEXT, OUTPUTS[name])
                                     for name in (*signatures, "describe")})
    return server, asked


@pytest.mark.parametrize("last", [1, 2, 3])
def test_a_version_that_changes_between_the_batches_of_a_call(protocol, ask, last):
    server, asked = served(lambda request: 3 if request <= last else 4, "embed")
    with server.running(protocol) as address:
        vectors = ask(address, "embed", ["1", "2", "3", "4"], of=ONE_BY_ONE)
    assert vectors.tolist() == [[1, 4], [2, 4], [3, 4], [4, 4]]
    assert len(asked) == 8  # all again, once


@pytest.mark.parametrize("method", [("embed", ["1", "2"]), ("rank", "1", ["2", "3"])])
def test_versions_that_describe_themselves_alike_and_follow_one_another(ask, method):
    server, _ = served(lambda request: 2 + request, "embed")
    with (server.running("grpc") as address,
          pytest.raises(RequestError, match="several versions answer in turn") as error):
        ask(address, *method, of=ONE_BY_ONE)
    assert error.value.code == "UNAVAILABLE"


def test_what_is_not_compared_may_be_of_several_versions(ask):
    server, asked = served(lambda request: 2 + request, "predict")
    with server.running("grpc") as address:
        ask(address, "predict", "predict", text=["1", "2"], of=ONE_BY_ONE)
    assert len(asked) == 2


def test_a_query_and_its_passages_are_weighed_by_one_version(ask):
    server, asked = served(lambda request: 3 if request == 1 else 4, "sparse", "sparse_queries",
                           results={"sparse": TERMS, "sparse_queries": TERMS})
    with server.running("grpc") as address:
        assert [row["score"] for row in ask(address, "rank", "b", ["a", "b"])] == [1, 0]
    assert asked == ["sparse", "sparse_queries"] * 2
