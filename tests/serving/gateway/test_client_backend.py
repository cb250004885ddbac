"""What the gateway's backend makes of the answers of a server."""

import asyncio

import numpy as np
import tensorflow as tf
from scripted_server import MODEL, ScriptedServer

from bert_tf.serving.gateway.client_backend import ClientBackend
from bert_tf.serving.server.codec import Decoder
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.wire.request import Limits


def test_vectors_of_tokens_are_padded_to_the_most_of_all_batches():
    def answer(_, inputs):
        return {"vectors": np.ones((1, len(inputs["text"][0].split()), 2), np.float32)}

    async def ask(address):
        backend = ClientBackend(address, [MODEL], Decoder(), Limits(100, 1 << 20, 1000), Metrics(),
                                batch_size=1)
        outputs = await backend.run(await backend.about(MODEL, None), ("query_vectors",),
                                    {"text": ["quick fox", "fox"]}, None)
        await backend.close()
        return outputs["vectors"]

    signatures = {"query_vectors": ({"text": (tf.string, [None])},
                                    {"vectors": (tf.float32, [None, None, 2])})}
    with ScriptedServer(answer, signatures).running("grpc") as address:
        vectors = asyncio.run(ask(address))
    np.testing.assert_array_equal(vectors, [[[1, 1], [1, 1]], [[1, 1], [0, 0]]])
