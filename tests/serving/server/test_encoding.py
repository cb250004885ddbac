"""Answers in bytes: small ones are made at once, large ones in a thread."""

import asyncio
import json
import threading

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving.server import encoding, grpc_server, rest_server
from bert_tf.serving.wire import tensor_proto
from bert_tf.serving.wire.request import Spec

SPEC = Spec("m", 3, signature="s")


class Answers:
    """A core that answers with what it was made of."""

    def __init__(self, outputs):
        self.outputs = outputs

    async def predict(self, *_, **options):
        return SPEC, self.outputs

    def input_types(self, spec):
        return {}


def over_grpc(outputs):
    service = grpc_server._PredictionService(Answers(outputs), False)
    return asyncio.run(service._predict(SPEC, {}, (), None))


def over_rest(outputs):
    api = rest_server.RestApi(None, Answers(outputs), rest_server.RestSettings())

    async def decoded(*_):
        return "", {}, True

    api._decoded = decoded
    return asyncio.run(api._predict(SPEC, {}, None, None))


def read_grpc(data):
    response = predict_pb2.PredictResponse.FromString(data)
    return {name: tensor_proto.read(proto) for name, proto in response.outputs.items()}


def read_rest(data):
    rows = json.loads(data)["predictions"]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("module, writer, ask, read", [
    (tensor_proto, "write", over_grpc, read_grpc),
    (rest_server, "write_predict", over_rest, read_rest)])
def test_large_answers_are_made_in_a_thread(monkeypatch, module, writer, ask, read):
    threads, write = [], getattr(module, writer)

    def noted(*arguments):
        threads.append(threading.current_thread() is threading.main_thread())
        return write(*arguments)

    monkeypatch.setattr(module, writer, noted)
    rng = np.random.default_rng(1)
    for rows, at_once in ((4, True), (2_000, False)):
        outputs = {"x": rng.normal(size=(rows, 128)).astype(np.float32),
                   "n": rng.integers(0, 9, (rows, 16))}
        threads.clear()
        data = ask(outputs)
        assert threads and set(threads) == {at_once}
        found = read(data)
        for name, array in outputs.items():
            np.testing.assert_array_equal(found[name].astype(array.dtype), array)
        monkeypatch.setattr(encoding, "AT_ONCE", 0 if at_once else 1 << 40)
        assert ask(outputs) == data and set(threads) == {True, False}
        monkeypatch.undo()
        monkeypatch.setattr(module, writer, noted)
