"""Work that nobody waits for, and how much may wait."""

import asyncio
import concurrent.futures
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from fake_models import Loaded, add_version, definition_of_x, running, settings_of
from server_harness import PATIENCE

from bert_tf.serving.server import config
from bert_tf.serving.server.cancelling import Cancellation
from bert_tf.serving.server.loaded_version import Signature
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


@pytest.mark.parametrize("batching", [(), ("--enable_batching",)])
def test_what_timed_out_makes_room_for_others(tmp_path, monkeypatch, counting, batching):
    """One thread runs requests: who asks next is answered as the first one's time is over."""
    monkeypatch.setattr(Loaded, "function", staticmethod(counting.signature.function))
    monkeypatch.setattr(config, "_CPUS", 1)
    add_version(tmp_path / "m")
    settings = settings_of(tmp_path, "--grpc_max_threads=1", *batching)

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


def test_batches_that_wait_are_bounded_whatever_their_outputs(tmp_path, monkeypatch):
    goes, runs = threading.Event(), threading.Event()

    def hold(x):
        runs.set()
        assert goes.wait(PATIENCE)
        return {"y": x}

    monkeypatch.setattr(Loaded, "function", staticmethod(hold))
    monkeypatch.setattr(config, "_CPUS", 1)
    add_version(tmp_path / "m")
    batching = tmp_path / "batching.config"
    batching.write_text("max_batch_size { value: 2 } max_enqueued_batches { value: 2 } "
                        "num_batch_threads { value: 1 }")
    settings = settings_of(tmp_path, "--enable_batching", f"--batching_parameters_file={batching}")

    async def ask(core):
        def asked(rows, outputs=()):
            return asyncio.ensure_future(
                core.predict(Spec("m"), {"x": np.zeros(rows, np.int32)}, outputs))

        sent = [asked(1)]
        await asyncio.to_thread(runs.wait, PATIENCE)
        sent += [asked(2), asked(1, ("y",))]
        await asyncio.sleep(0)
        for outputs in ((), ("y",)):
            with pytest.raises(ServingError) as refused:
                await asked(2, outputs)
            assert refused.value.code == "UNAVAILABLE"
        sent.append(asked(1, ("y",)))  # into the batch that is open
        await asyncio.sleep(0)
        goes.set()
        return [outputs["y"].shape for _, outputs in await asyncio.gather(*sent)]

    with running(settings) as (run, core):
        assert run(ask(core)) == [(1,), (2,), (1,), (1,)]
