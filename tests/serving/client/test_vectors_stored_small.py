"""Vectors that a server stores small, and those that the client does."""

import asyncio
import json

import numpy as np
import pytest
import tensorflow as tf
from scripted_server import MODEL, ScriptedServer

from bert_tf.errors import UsageError
from bert_tf.retrieval.codes import VectorCode
from bert_tf.serving.client import AsyncClient, Client, RequestError, steps

CODES = {"int8": (VectorCode(precision="int8", scale=10.0), tf.int8),
         "bits": (VectorCode(precision="bits"), tf.uint8), "float32": (VectorCode(), tf.float32)}


def vectors(texts):
    return np.float32([[np.cos(float(text) * place) for place in range(16)] for text in texts])


def server(code_of, dtype):
    """A server whose version stores by `code_of(version)`."""
    def answer(signature, inputs):
        code = code_of(served.version)
        if signature == "describe":
            about = {"embedding": code.options(), "results": {}}
            return {"description": np.array([json.dumps(about).encode()], object)}
        return {"embedding": code.encode(vectors(inputs["text"]))}

    text = {"text": (tf.string, [None])}
    width = code_of(1).encode(np.ones([1, 16], "float32")).shape[1]
    served = ScriptedServer(answer, {"embed": (text, {"embedding": (dtype, [None, width])}),
                                     "describe": (text, {"description": (tf.string, [None])})})
    return served


@pytest.mark.parametrize("precision", CODES)
def test_what_is_served_and_what_is_asked_for(protocol, ask, precision):
    served, dtype = CODES[precision]
    texts, smaller = ["1", "2", "3"], VectorCode(8, "bits")
    expected = served.encode(vectors(texts))
    with server(lambda _: served, dtype).running(protocol) as address:
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


def by_version(version):
    return VectorCode(precision="int8", scale=10.0 * version)


def embeds_waiting(address, meanwhile, texts):
    with Client(address, MODEL) as client:
        before = client.embed(texts, code=VectorCode())
        meanwhile()
        return before, client.embed(texts, code=VectorCode())


def embeds_asynchronously(address, meanwhile, texts):
    async def call():
        async with AsyncClient(address, MODEL) as client:
            before = await client.embed(texts, code=VectorCode())
            meanwhile()
            return before, await client.embed(texts, code=VectorCode())
    return asyncio.run(call())


@pytest.mark.parametrize("embeds", [embeds_waiting, embeds_asynchronously])
def test_a_new_version_is_decoded_by_its_own_scale(protocol, embeds, monkeypatch):
    if protocol == "rest":
        monkeypatch.setattr(steps, "_KNOWN_SECONDS", -1.0)
    served, texts = server(by_version, tf.int8), ["1", "2"]

    def update():
        assert served.requests == 2  # describe, embed
        served.version += 1

    with served.running(protocol) as address:
        for vectors_of_version, version in zip(embeds(address, update, texts), (3, 4),
                                               strict=True):
            code = by_version(version)
            np.testing.assert_array_equal(vectors_of_version,
                                          code.decode(code.encode(vectors(texts))), strict=True)
        requests = served.requests
        with Client(address, MODEL) as client:
            for _ in range(3):
                client.embed("1", code=VectorCode())
        assert served.requests == requests + 1 + 3


def test_versions_that_answer_in_turn(ask):
    served = server(by_version, tf.int8)
    answer = served.answer

    def in_turn(signature, inputs):
        if signature == "embed":
            served.version = 7 - served.version
        return answer(signature, inputs)

    served.answer = in_turn
    with (served.running("grpc") as address,
          pytest.raises(RequestError, match="answer in turn; expected one of them; try version=")):
        ask(address, "embed", ["1", "2"], of={"batch_size": 1, "concurrency": 1})
