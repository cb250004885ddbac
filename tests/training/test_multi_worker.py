"""Two processes on loopback train as one process with two replicas does."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

from bert_tf.errors import UsageError
from bert_tf.training.strategy import make_strategy

PROGRAM = pathlib.Path(__file__).with_name("multi_worker_program.py")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def start(folder, workers, index):
    task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    with (folder / f"worker_{index}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, PROGRAM, folder, str(index)], stdout=log,
                                stderr=log, env={**os.environ, "TF_CONFIG": json.dumps(task)})


def test_two_workers_equal_two_replicas(tiny):
    workers = [f"localhost:{port}" for port in free_ports(2)]
    processes = [start(tiny.root, workers, index) for index in range(2)]
    try:
        expected, result = tiny.train("alone", train_steps=4, accumulate_steps=2, dropout=0.1,
                                      eval_examples=20)
        codes = [process.wait(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    logs = [(tiny.root / f"worker_{index}.log").read_text()[-2000:] for index in range(2)]
    assert codes == [0, 0], "\n".join(logs)
    for index in range(2):
        found = dict(np.load(tiny.root / f"worker_{index}.npz"))
        assert found.pop("loss") == pytest.approx(result["evaluation"]["loss"], abs=1e-5)
        assert found.keys() == expected.keys()
        for name, value in found.items():
            np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-6, err_msg=name)
    # One of them writes.
    assert [line["step"] for line in tiny.lines("run")] == [1, 2, 3, 4, 4]
    assert "held out" in logs[0] and "held out" not in logs[1]


@pytest.mark.parametrize("given", [None, "{", '{"cluster": {"worker": ["a:1"]}}',
                                   '{"cluster": {"worker": ["a:1"]}, "task": {"index": 1}}'])
def test_wrong_cluster(monkeypatch, given):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if given:
        monkeypatch.setenv("TF_CONFIG", given)
    with pytest.raises(UsageError, match="TF_CONFIG names no cluster .* TF_CONFIG='{"):
        make_strategy("multi_worker")
