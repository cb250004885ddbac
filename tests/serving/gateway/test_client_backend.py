"""What the gateway's backend makes of the answers of a server."""

import asyncio
import contextlib

import grpc
import numpy as np
import pytest
import tensorflow as tf
from fake_backend import serving
from scripted_server import MODEL, Refusal, ScriptedServer, numbers
from server_harness import PATIENCE

from bert_tf.serving.apis.backend import About, OutdatedError
from bert_tf.serving.gateway.client_backend import ClientBackend
from bert_tf.serving.server.codec import Decoder
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.wire.request import Limits


def _backend(address, **options):
    return ClientBackend(address, [MODEL], Decoder(), Limits(1000, 1 << 20, 1000), Metrics(),
                         **options)


def test_vectors_of_tokens_are_padded_to_the_most_of_all_batches():
    def answer(_, inputs):
        return {"vectors": np.ones((1, len(inputs["text"][0].split()), 2), np.float32)}

    async def ask(address):
        backend = _backend(address, batch_size=1)
        outputs = await backend.run(await backend.about(MODEL, None), ("query_vectors",),
                                    {"text": ["quick fox", "fox"]}, None)
        await backend.close()
        return outputs["vectors"]

    signatures = {"query_vectors": ({"text": (tf.string, [None])},
                                    {"vectors": (tf.float32, [None, None, 2])})}
    with ScriptedServer(answer, signatures).running("grpc") as address:
        vectors = asyncio.run(ask(address))
    np.testing.assert_array_equal(vectors, [[[1, 1], [1, 1]], [[1, 1], [0, 0]]])


def test_parts_of_a_request_that_two_versions_answer_are_not_joined():
    ids = np.ones((256, 4), np.int32)  # two parts

    def answer(_, inputs):
        server.version = 3 if server.requests == 1 else 4
        return {"embedding": np.full((len(inputs["input_word_ids"]), 2), server.version,
                                     np.float32)}

    async def ask(address):
        backend = _backend(address, batch_size=128)
        with pytest.raises(OutdatedError):
            await backend.run(await backend.about(MODEL, None), ("embed_ids",),
                              {"input_word_ids": ids}, None)
        outputs = await backend.run(await backend.about(MODEL, None), ("embed_ids",),
                                    {"input_word_ids": ids}, None)
        await backend.close()
        return outputs["embedding"]

    server = ScriptedServer(answer, {"embed_ids": ({"input_word_ids": (tf.int32, [None, None])},
                                                   {"embedding": (tf.float32, [None, 2])})})
    with server.running("grpc") as address:
        assert (asyncio.run(ask(address)) == 4).all()


@pytest.mark.parametrize(("other", "fits"), [(3, True), (None, True), (4, False)])
def test_signatures_that_two_versions_answer(other, fits):
    class FakeClient:
        async def answered(self, about, signature, part, deadline):
            return [{signature: 1}], {}, {"embed": 3, "other": other}[signature]

    async def ask():
        backend = _backend("localhost:1")
        backend._clients[MODEL] = FakeClient()
        return await backend.run(About(MODEL, 3, {}, {}), ("embed", "other"), {"text": ["a"]}, None)

    if fits:
        assert asyncio.run(ask()) == {"embed": [1], "other": [1]}
    else:
        with pytest.raises(OutdatedError):
            asyncio.run(ask())


@pytest.mark.parametrize(("gone", "status", "kind"), [
    (True, 503, "Unhealthy"), (False, 429, "Overloaded")])
def test_a_server_that_is_gone_is_not_a_busy_one(gone, status, kind):
    def answer(signature, inputs):
        if server.requests > 1:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, 503, "the queue is full")
        return numbers(signature, inputs)

    server = ScriptedServer(answer)
    with contextlib.ExitStack() as running:
        address = running.enter_context(server.running("grpc"))
        with serving(_backend(address), timeout=PATIENCE) as client:
            assert client.post("/embed", json={"inputs": "1"}).status_code == 200
            if gone:
                running.close()
            response = client.post("/embed", json={"inputs": "1"})
    assert (response.status_code, response.json()["error_type"]) == (status, kind)
