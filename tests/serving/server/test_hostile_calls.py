"""gRPC calls that are made to cost much, or to be no calls at all."""

import asyncio
import gc
import sys
import threading

import grpc
import pytest
import tensorflow as tf
from fake_models import add_version, running, settings_of, started
from server_harness import PATIENCE, predict_request, refused, wait_until
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving.server import codec
from bert_tf.serving.wire import protocol
from bert_tf.serving.wire.request import ServingError

pytestmark = pytest.mark.usefixtures("fake_versions")


def message(values):
    return predict_request("m", x=values).SerializeToString()


@pytest.fixture
def served(tmp_path):
    """A channel to a server of the model `m`, and what runs coroutines in the server's loop."""
    add_version(tmp_path / "m")
    path = tmp_path / "socket"
    settings = settings_of(tmp_path, "--port=0", f"--grpc_socket_path={path}")
    with running(settings) as (run, core):
        made = run(started(core, settings))
        try:
            with grpc.insecure_channel(f"unix:{path}") as channel:
                yield channel, run
        finally:
            run(made.stop(0))


@pytest.fixture
def channel(served):
    return served[0]


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


def test_a_message_that_does_not_arrive_is_given_up(served):
    channel, run = served
    call, never = channel.stream_unary(protocol.PREDICT), threading.Event()

    def nothing():
        never.wait(PATIENCE)
        yield from ()

    async def let_time_pass():
        asyncio.get_running_loop().ahead += 121

    async def go_back():  # the next call ends by a clock that did not run ahead
        asyncio.get_running_loop().ahead = 0

    slow = call.future(nothing(), timeout=PATIENCE)
    try:
        wait_until(lambda: (run(let_time_pass()), slow.done())[1], "the slow call is ended")
        with refused("DEADLINE_EXCEEDED", "time ended"):
            slow.result()
        run(go_back())
        assert call(iter([message([1])]), timeout=PATIENCE)
    finally:
        never.set()
