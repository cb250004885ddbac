"""Two processes on loopback train as one does, and neither a kill nor a stop is lost on them."""

import json
import pathlib
import signal
import sys

import numpy as np
import pytest
from faults.workers import Loopback, Workers

from bert_tf.errors import UsageError
from bert_tf.training.checkpoint import Checkpoints

PROGRAM = pathlib.Path(__file__).with_name("multi_worker_program.py")
SETTINGS = {"train_steps": 20, "accumulate_steps": 2, "eval_examples": 20, "checkpoint_every": 4}


def start(root, result, **settings):
    words = [sys.executable, str(PROGRAM), str(root), "run", str(root / result),
             json.dumps({**SETTINGS, "strategy": "multi_worker", **settings})]
    return Workers(words, Loopback(2), root, root / "run")


@pytest.mark.long
def test_two_workers_equal_one(tiny):
    """One is killed, then one asked to stop; the third start ends where one process does."""
    run = tiny.root / "run"
    run.mkdir()

    def reached(step):
        lines = run / "metrics.jsonl"
        return lambda: lines.exists() and f'{{"step": {step}, ' in lines.read_text()

    with start(tiny.root, "killed") as workers:
        workers.wait_until(reached(6), "step 6")
        workers.processes[1].kill()
        assert workers.codes() == [1, -signal.SIGKILL], workers.tails()
        address = workers.place.addresses[1]
        assert f"error: lost worker 1 ({address}): ended, hanging or " in workers.said(0)
    with start(tiny.root, "stopped") as workers:
        workers.wait_until(reached(12), "step 12")
        workers.processes[1].terminate()
        assert workers.codes() == [130, 130], workers.tails()
        step = Checkpoints(str(run / "checkpoints")).steps()[-1]
        for index in range(2):
            assert f"stopped: step {step} of 20 is saved in " in workers.said(index)
    with start(tiny.root, "finished") as workers:
        # One process and one replica.
        expected, result = tiny.train("alone", strategy="one_device", schedule=1e-3, **SETTINGS)
        assert workers.codes() == [0, 0], workers.tails()
        assert "held out" in workers.said(0) and "held out" not in workers.said(1)
    start_weights = tiny.train("start", strategy="one_device", train_steps=1, schedule=1e-30)[0]
    for index in range(2):
        folder = tiny.root / "finished" / str(index)
        found = dict(np.load(folder / "weights.npz"))
        assert found.keys() == expected.keys()
        for name, value in found.items():
            np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5, err_msg=name)
        told = json.loads((folder / "told.json").read_text())["evaluation"]
        assert told == pytest.approx(result["evaluation"], abs=1e-4)
    moved = max(abs(expected[name] - start_weights[name]).max() for name in expected)
    assert moved > 1e-3


@pytest.mark.long
def test_other_number_of_replicas(tiny, eager):
    """It is noted; another batch, which would move the position in the data, is refused."""
    whole = tiny.train("whole", "one_device", train_steps=3, schedule=1e-3)[0]
    tiny.train("run", "one_device", train_steps=1, schedule=1e-3)
    for name, value in tiny.train("run", train_steps=3, schedule=1e-3)[0].items():
        np.testing.assert_allclose(value, whole[name], rtol=0, atol=1e-5, err_msg=name)
    mark, *lines = tiny.lines("run")[1:]
    assert mark == {"restart": 1, "note": "resumed with 2 replicas instead of 1; batches and the "
                    "position in the data stay, sums are rounded in another order"}
    assert [line["step"] for line in lines] == [2, 3]
    with pytest.raises(UsageError, match="batch_size=8, but the run in .* has batches of 16"):
        tiny.train("run", "one_device", train_steps=4, batch_size=8)
