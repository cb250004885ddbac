"""Work that nobody waits for, and how much may wait."""

import asyncio
import concurrent.futures
import contextlib
import threading
import time

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from fake_models import (
    Loaded,
    add_version,
    definition_of_x,
    rest_of,
    running,
    settings_of,
    started,
)
from server_harness import PATIENCE, predict_request, wait_until
from tensorflow_serving.apis import prediction_service_pb2_grpc

from bert_tf.serving.server.rest_server import RestSettings
from bert_tf.serving.server.signature import Cancellation, Signature
from bert_tf.serving.wire.request import ServingError, Spec

pytestmark = pytest.mark.usefixtures("fake_versions")


class Counting:
    """A signature that counts up to its input: says so as it begins, and waits until it may.

    Attributes:
        runs, goes: events.
        signature: `Signature`.
    """

    def __init__(self):
        self.runs, self.goes = threading.Event(), threading.Event()
        function = tf.function(self._count).get_concrete_function(
            x=tf.TensorSpec([None], tf.int32, "x"))
        self.signature = Signature("s", definition_of_x(), function)

    def _count(self, x):
        start = tf.reshape(tf.numpy_function(self._begin, [], tf.int32), [])
        done = tf.while_loop(lambda step: step < tf.reduce_max(x), lambda step: (step + 1,),
                             (start,))
        return {"y": done[0] + tf.zeros_like(x)}

    def _begin(self):
        self.runs.set()
        assert self.goes.wait(PATIENCE)
        return np.int32(0)


@pytest.fixture(scope="module")
def one_signature():
    return Counting()


@pytest.fixture
def counting(one_signature):
    one_signature.runs.clear()
    one_signature.goes.clear()
    yield one_signature
    one_signature.goes.set()


FOREVER, SHORT = ({"x": np.array([number], np.int32)} for number in (2**31 - 1, 3))


def test_one_thread_s_call_is_cancelled_and_another_s_is_not(counting):
    """One after the other: TensorFlow may have one thread for the operations of all calls."""
    ours, theirs = Cancellation(), Cancellation()

    def ending(inputs, own, cancelled):
        """How a call in a thread of its own ends, if one is cancelled as it runs."""
        counting.runs.clear()
        counting.goes.clear()
        with concurrent.futures.ThreadPoolExecutor(1) as pool, theirs.around():
            answer = pool.submit(counting.signature.run, inputs, (), own)
            assert counting.runs.wait(PATIENCE)
            cancelled.cancel()
            counting.goes.set()
            try:
                return answer.result(PATIENCE)["y"].tolist()
            except ServingError as problem:
                return problem.code

    assert ending(FOREVER, ours, ours) == "CANCELLED"
    assert ending(SHORT, theirs, ours) == [3]
    assert ending(SHORT, None, ours) == [3]
    assert ending(FOREVER, theirs, theirs) == "CANCELLED"
    assert ending(SHORT, Cancellation(), theirs) == [3]


@pytest.mark.parametrize("merged", [False, True])
def test_what_timed_out_makes_room_for_others(tmp_path, monkeypatch, counting, merged):
    """One thread runs requests: who asks next is answered as the first one's time is over."""
    monkeypatch.setattr(Loaded, "function", staticmethod(counting.signature.function))
    add_version(tmp_path / "m")
    batching = tmp_path / "batching.config"
    batching.write_text("num_batch_threads { value: 1 }")
    settings = settings_of(tmp_path, "--grpc_max_threads=1", *(
        ["--enable_batching", f"--batching_parameters_file={batching}"] if merged else []))

    async def begun(core, **options):
        counting.runs.clear()
        asked = asyncio.ensure_future(core.predict(Spec("m"), FOREVER, **options))
        assert await asyncio.to_thread(counting.runs.wait, PATIENCE)
        return asked

    async def ask(core):
        counting.goes.set()
        late = await begun(core, deadline=time.monotonic() + PATIENCE)
        asyncio.get_running_loop().ahead += PATIENCE
        with pytest.raises(ServingError) as refused:
            await late
        _, outputs = await core.predict(Spec("m"), SHORT)
        gone = await begun(core)
        gone.cancel()  # the client
        await core.predict(Spec("m"), SHORT)
        return refused.value.code, outputs["y"].tolist()

    with running(settings) as (run, core):
        assert run(ask(core)) == ("DEADLINE_EXCEEDED", [3])


class Holding:
    """Versions of the model `m` whose signature waits in a server's only batch thread.

    Attributes:
        runs, goes: events: a batch runs; it may go on.
        settings: of the server: batches of two rows at most, of which two may wait.
    """

    def __init__(self, folder):
        self.runs, self.goes = threading.Event(), threading.Event()
        add_version(folder / "m")
        batching = folder / "batching.config"
        batching.write_text("max_batch_size { value: 2 } max_enqueued_batches { value: 2 } "
                            "num_batch_threads { value: 1 }")
        self.settings = settings_of(folder, "--port=0", f"--grpc_socket_path={folder / 'socket'}",
                                    "--enable_batching", f"--batching_parameters_file={batching}")

    def function(self, x):
        self.runs.set()
        assert self.goes.wait(PATIENCE)
        return {"y": x}


@pytest.fixture
def holding(tmp_path, monkeypatch):
    made = Holding(tmp_path)
    monkeypatch.setattr(Loaded, "function", staticmethod(made.function))
    return made


def rows(number):
    return {"x": np.zeros(number, np.int32)}


def test_batches_that_wait_are_bounded_whatever_their_outputs(holding):
    async def ask(core):
        def asked(number, outputs=()):
            return asyncio.ensure_future(core.predict(Spec("m"), rows(number), outputs))

        sent = [asked(1)]
        assert await asyncio.to_thread(holding.runs.wait, PATIENCE)
        sent += [asked(2), asked(1, ("y",))]
        await asyncio.sleep(0)
        for outputs in ((), ("y",)):
            with pytest.raises(ServingError) as refused:
                await asked(2, outputs)
            assert refused.value.code == "UNAVAILABLE"
        sent.append(asked(1, ("y",)))  # into the batch that is open
        await asyncio.sleep(0)
        holding.goes.set()
        return [outputs["y"].shape for _, outputs in await asyncio.gather(*sent)]

    with running(holding.settings) as (run, core):
        assert run(ask(core)) == [(1,), (2,), (1,), (1,)]


def test_of_a_large_request_that_is_refused_nothing_runs(holding, tmp_path, monkeypatch):
    ran = []

    def function(x):
        ran.append(len(x))
        return holding.function(x)

    monkeypatch.setattr(Loaded, "function", staticmethod(function))
    (tmp_path / "batching.config").write_text(
        "max_batch_size { value: 8 } max_execution_batch_size { value: 2 } "
        "enable_large_batch_splitting { value: true } max_enqueued_batches { value: 2 } "
        "num_batch_threads { value: 1 }")
    settings = settings_of(
        tmp_path, "--port=0", f"--grpc_socket_path={tmp_path / 'socket'}", "--enable_batching",
        f"--batching_parameters_file={tmp_path / 'batching.config'}")

    async def ask(core):
        first = asyncio.ensure_future(core.predict(Spec("m"), rows(1)))
        assert await asyncio.to_thread(holding.runs.wait, PATIENCE)
        with pytest.raises(ServingError) as refused:
            await core.predict(Spec("m"), rows(8))  # four batches
        assert refused.value.code == "UNAVAILABLE"
        holding.goes.set()
        await first
        while True:
            with contextlib.suppress(ServingError):  # the queue may not be empty yet
                return await core.predict(Spec("m"), rows(2))
            await asyncio.sleep(0)

    with running(settings) as (run, core):
        run(ask(core))
    assert ran == [1, 2]


def _by_grpc(holding, address):
    with grpc.insecure_channel(f"unix:{holding.settings.flags.grpc_socket_path}") as channel:
        try:
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(
                predict_request("m", x=[1, 2]), timeout=PATIENCE)
        except grpc.RpcError as problem:
            return problem.code().name
        return "OK"


def _by_rest(holding, address):
    return httpx.post(f"{address}/v1/models/m:predict", json={"instances": [1, 2]},
                      timeout=PATIENCE).status_code


@pytest.mark.parametrize("ask, full, late, late_running", [
    (_by_grpc, "UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"),
    (_by_rest, 503, 429, 504)])
def test_what_a_full_queue_and_requests_whose_time_is_over_are_told(
        holding, ask, full, late, late_running):
    async def let_time_pass():
        asyncio.get_running_loop().ahead += PATIENCE

    async def batches_that_wait(core):
        return sum(queue.batches for queue in core._batcher._queues.values())

    with (running(holding.settings) as (run, core),
          rest_of(core, run, RestSettings(timeout_ms=PATIENCE * 1000)) as address,
          concurrent.futures.ThreadPoolExecutor() as clients):
        made = run(started(core, holding.settings))
        try:
            first = clients.submit(ask, holding, address)
            assert holding.runs.wait(PATIENCE)
            waiting = [clients.submit(ask, holding, address) for _ in range(2)]
            wait_until(lambda: run(batches_that_wait(core)) == 2, "two batches wait")
            assert ask(holding, address) == full
            run(let_time_pass())
            assert [one.result(PATIENCE) for one in waiting] == [late] * 2
            assert first.result(PATIENCE) == late_running
        finally:
            holding.goes.set()
            run(made.stop(0))
