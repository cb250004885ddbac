"""Requests and answers in bytes: large ones are read and made where nobody waits for them."""

import asyncio
import contextlib
import gc
import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from decoder_jobs import breaks, dies, fails, hangs, is_told_to_stop, process, takes_too_much
from server_harness import PATIENCE, predict_request, wait_until
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving.server import codec, grpc_services, rest_server
from bert_tf.serving.server.codec import AT_ONCE, Decoder
from bert_tf.serving.wire import grpc_messages, rest_json, tensor_proto
from bert_tf.serving.wire.request import Limits, ServingError, Spec, TooLargeError

LIMITS = Limits(rows=4, body_bytes=1 << 20, text_bytes=30_000)
SIGNATURES = {"serving_default": {"text": 7}, "ids": {"ids": 3}}


@pytest.fixture
def decode():
    """`decode(function, data, …)` by a `Decoder`."""
    made = Decoder()

    def run(*arguments, **options):
        return asyncio.run(made.run(*arguments, **options))

    yield run
    made.close()


def test_large_requests_are_decoded_in_another_process(decode, monkeypatch):
    assert decode(process, bytes(AT_ONCE)) == os.getpid()
    medium = decode(process, bytes(AT_ONCE + 1))
    large = decode(process, bytes(2 << 20))
    assert len({os.getpid(), medium, large}) == 3
    assert decode(process, bytes(AT_ONCE + 1)) == medium  # which stays
    # Little of what is compressed may be much.
    assert decode(process, b"", True) == large
    with pytest.raises(ServingError, match="20000 bytes") as refused:
        decode(fails, bytes(20_000))
    assert refused.value.code == "OUT_OF_RANGE"
    with pytest.raises(ServingError, match="its log says why") as refused:
        decode(breaks, bytes(20_000))
    with pytest.raises(ServingError, match="too much memory"):
        decode(takes_too_much, bytes(20_000))
    assert decode(process, bytes(AT_ONCE + 1)) == medium

    with pytest.raises(ServingError, match="too much memory"):  # the system ended it, maybe
        decode(dies, bytes(20_000))
    monkeypatch.setattr(codec, "_MOST_SECONDS", 0.5)
    with pytest.raises(ServingError) as refused:
        decode(hangs, bytes(20_000))
    assert refused.value.code == "DEADLINE_EXCEEDED"
    monkeypatch.undo()
    with pytest.raises(ServingError) as refused:
        decode(hangs, bytes(20_000), deadline=time.monotonic() + 0.5)
    assert refused.value.code == "DEADLINE_EXCEEDED"
    assert decode(process, bytes(AT_ONCE + 1)) != medium

    texts = ["네", "b" * 20_000]
    spec, inputs, outputs = decode(
        grpc_messages.read_predict, predict_request("m", text=texts).SerializeToString(), LIMITS)
    assert (spec, outputs) == (Spec("m"), ())
    assert inputs["text"].tolist() == [text.encode() for text in texts]
    with pytest.raises(TooLargeError):
        decode(rest_json.read_predict, gzip.compress(os.urandom(40_000) * 100, 1), True, SIGNATURES,
               LIMITS)


def test_a_process_that_is_told_to_stop_answers_first_and_another_one_goes_on(decode):
    for _ in range(3):
        stopped = decode(is_told_to_stop, bytes(AT_ONCE + 1))
        assert decode(process, bytes(AT_ONCE + 1)) != stopped
    idle = decode(process, bytes(AT_ONCE + 1))
    os.kill(idle, signal.SIGTERM)
    assert decode(process, bytes(AT_ONCE + 1)) != idle


def test_a_process_that_cannot_be_started_is_started_later(decode, monkeypatch):
    def refused(self):
        raise BlockingIOError("no process more")

    with monkeypatch.context() as patch:
        patch.setattr(multiprocessing.get_context("spawn").Process, "start", refused)
        with pytest.raises(BlockingIOError):
            decode(process, bytes(AT_ONCE + 1))
    assert decode(process, bytes(AT_ONCE + 1)) != os.getpid()


def test_a_process_that_ends_before_it_begins_is_no_request_s_fault(decode, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(codec, "_work", dies)
        with pytest.raises(ServingError, match="its log says why"):
            decode(process, bytes(AT_ONCE + 1))
    assert "exit code 1 " in caplog.text
    assert decode(process, bytes(AT_ONCE + 1)) != os.getpid()


@pytest.mark.parametrize("lose", [
    "os.rmdir(os.getcwd())", "os.chmod('.', 0)"])  # root enters the second one all the same
def test_a_server_in_a_folder_that_it_cannot_enter(tmp_path, lose):
    program = f"""
import asyncio, os
from decoder_jobs import process
from bert_tf.serving.server.codec import AT_ONCE, Decoder
{lose}
made = Decoder()
print(asyncio.run(made.run(process, bytes(AT_ONCE + 1))) not in (None, os.getpid()))
made.close()"""
    (tmp_path / "folder").mkdir()
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "folder", text=True,
                         capture_output=True, timeout=PATIENCE,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ran.stdout == "True\n", ran.stderr


def test_a_refused_request_is_not_kept():
    """Without a garbage collector: it comes by seldom, and requests are large."""
    made, data = Decoder(), bytes(20_000)

    async def refuse(function):
        with contextlib.suppress(ServingError):
            await made.run(function, data)

    before = sys.getrefcount(data)
    gc.disable()
    try:
        for function in (fails, dies):
            asyncio.run(refuse(function))
            wait_until(lambda: sys.getrefcount(data) == before, "the lane's thread has let go")
    finally:
        gc.enable()
        made.close()


def test_a_small_request_passes_larger_ones_that_wait():
    """In place of the process functions of this one, which tell when they run."""
    begun, goes, order = threading.Event(), threading.Event(), []

    def hold(data):
        begun.set()
        assert goes.wait(PATIENCE)

    def note(data):
        order.append(len(data) >> 20)

    async def run():
        made = Decoder()
        made._large.call = lambda function, data, arguments, deadline: (function(data), None)
        try:
            held = asyncio.ensure_future(made.run(hold, bytes(9 << 20)))
            await asyncio.to_thread(begun.wait, PATIENCE)
            waiting = [asyncio.ensure_future(made.run(note, bytes(size << 20)))
                       for size in (8, 3, 5, 3, 2)]
            await asyncio.sleep(0)  # all of them wait now
            waiting[2].cancel()
            await asyncio.wait([waiting[2]])  # before the thread may take it
            goes.set()
            await asyncio.gather(held, *waiting, return_exceptions=True)
        finally:
            goes.set()
            made.close()

    asyncio.run(run())
    assert order == [2, 3, 3, 8]


def test_what_waits_ends_with_the_decoder():
    begun, goes = threading.Event(), threading.Event()

    def hold(data):
        begun.set()
        assert goes.wait(PATIENCE)

    async def run():
        made = Decoder()
        made._large.call = lambda function, data, arguments, deadline: (function(data), None)
        both = [asyncio.ensure_future(made.run(hold, bytes(size << 20))) for size in (2, 3)]
        await asyncio.to_thread(begun.wait, PATIENCE)
        made.close()
        goes.set()
        return await asyncio.gather(*both, return_exceptions=True)

    first, second = asyncio.run(run())
    assert first is None and isinstance(second, asyncio.CancelledError)


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
    service = grpc_services.PredictionService(Answers(outputs), False)
    return asyncio.run(service._predict(SPEC, {}, (), None))


def over_rest(outputs):
    api = rest_server.RestApi(None, Answers(outputs), rest_server.RestSettings())

    async def decoded(*_):
        return "", {}, True

    api._decoded = decoded
    return asyncio.run(api._predict(SPEC, {}, None, None))


def read_grpc(data):
    response = predict_pb2.PredictResponse.FromString(data)
    return tensor_proto.read_all(response.outputs)


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
        monkeypatch.setattr(codec, "ENCODED_AT_ONCE", 0 if at_once else 1 << 40)
        assert ask(outputs) == data and set(threads) == {True, False}
        monkeypatch.undo()
        monkeypatch.setattr(module, writer, noted)
