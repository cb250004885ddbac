"""gRPC calls that are made to cost much, or to be no calls at all."""

import gc
import sys

import grpc
import pytest
import tensorflow as tf
from fake_models import add_version, running, settings_of, started
from server_harness import PATIENCE, refused, wait_until
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving.server import codec
from bert_tf.serving.wire import protocol
from bert_tf.serving.wire.request import ServingError

pytestmark = pytest.mark.usefixtures("fake_versions")


def message(values):
    request = predict_pb2.PredictRequest(model_spec={"name": "m"})
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(values))
    return request.SerializeToString()


@pytest.fixture
def channel(tmp_path):
    """To a server of the model `m`."""
    add_version(tmp_path / "m")
    path = tmp_path / "socket"
    settings = settings_of(tmp_path, "--port=0", f"--grpc_socket_path={path}")
    with running(settings) as (run, core):
        made = run(started(core, settings))
        try:
            with grpc.insecure_channel(f"unix:{path}") as channel:
                yield channel
        finally:
            run(made.stop(0))


@pytest.mark.parametrize("failure", [ServingError("OUT_OF_RANGE", "no"), ZeroDivisionError()])
def test_a_refused_message_is_not_kept(channel, monkeypatch, failure):
    """Nor what it was decoded to: gRPC keeps the error of every call that ends with one."""
    seen, run = [], codec.Decoder.run

    async def noted(self, function, data, *arguments, **options):
        seen.append(data)
        decoded = await run(self, function, data, *arguments, **options)
        seen.append(decoded[1]["x"])
        if len(seen) == 2:
            raise failure
        return decoded

    monkeypatch.setattr(codec.Decoder, "run", noted)
    call = channel.unary_unary(protocol.PREDICT)
    gc.collect()
    gc.disable()
    try:
        with refused("OUT_OF_RANGE" if isinstance(failure, ServingError) else "INTERNAL"):
            call(message([1, 2]), timeout=PATIENCE)
        with refused("INVALID_ARGUMENT", "type"):
            call(message([0.5]), timeout=PATIENCE)
        wait_until(lambda: {sys.getrefcount(each) for each in seen} == {3}, "all are released")
    finally:
        gc.enable()


def test_calls_without_a_message_and_with_two(channel):
    call = channel.stream_unary(protocol.PREDICT)
    with refused("INVALID_ARGUMENT", "no message"):
        call(iter([]), timeout=PATIENCE)
    answer = predict_pb2.PredictResponse.FromString(
        call(iter([message([1]), message([2])]), timeout=PATIENCE))
    assert tf.make_ndarray(answer.outputs["y"]).tolist() == [2]
