"""Strategies by name."""

import json
import pathlib
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import cores, side_by_side
from bert_tf.errors import BertTfError, UsageError
from bert_tf.training import peers, strategy
from bert_tf.training.strategy import make_batches, make_strategy, next_batches


def test_devices_are_made_before_tensorflow_works_or_not_at_all():
    tf.zeros([]) + 1
    count = len(tf.config.list_logical_devices("CPU"))
    assert make_strategy("mirrored", count).num_replicas_in_sync == count
    with pytest.raises(UsageError, match=f"num_devices={count + 1} after TensorFlow started "
                                         f"with {count}; try it first in a new process"):
        make_strategy("mirrored", count + 1)


@pytest.mark.parametrize("there, listed, hidden, noted", [
    (True, [], None, True), (True, [], "0", True), (True, ["GPU"], None, False),
    (True, [], "-1", False), (True, [], "", False), (False, [], None, False)])
def test_a_command_tells_what_trains_and_of_gpus_that_tensorflow_does_not_find(
        there, listed, hidden, noted, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(strategy, "_NVIDIA", str(tmp_path if there else tmp_path / "none"))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: listed)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    made = strategy.command_strategy(types.SimpleNamespace(strategy="one_device", num_devices=1))
    assert made.num_replicas_in_sync == 1
    first, *notes = capsys.readouterr().out.splitlines()
    assert first == f"devices: {strategy.devices(made)}"
    assert [line.startswith("note: this machine has an NVIDIA GPU") for line in notes] == (
        [True] if noted else [])


@pytest.mark.parametrize("options, asked", [
    ({}, [(3, 2)]), ({"strategy": "one_device", "accumulate_steps": None}, [(3, 2)]),
    ({"num_devices": 2}, []), ({"strategy": "multi_worker"}, []), ({"accumulate_steps": 2}, []),
    ({"gradient_checkpointing": True}, [])])
def test_halves_of_a_batch_are_for_one_replica_on_this_machine(options, asked, monkeypatch):
    """Nor where memory is to be saved."""
    calls = []
    monkeypatch.setattr(cores, "usable", lambda: 3)
    monkeypatch.setattr(side_by_side, "set_threads", lambda *given: calls.append(given))
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    monkeypatch.setattr(strategy, "make_strategy", lambda *given: one)
    strategy.command_strategy(types.SimpleNamespace(**{
        "strategy": "mirrored", "num_devices": 1, **options}))
    assert calls == asked


def test_the_note_says_what_the_page_on_gpus_says(monkeypatch, capsys):
    monkeypatch.setattr(strategy, "_misses_gpus", lambda: True)
    strategy.command_strategy(types.SimpleNamespace(strategy="one_device", num_devices=1))
    (wanted,) = re.findall(r"tensorflow\[and-cuda\][^'\"]+", capsys.readouterr().out)
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "performance.md"
    assert wanted in page.read_text()


def test_several_workers_take_no_devices_that_they_would_leave_idle():
    with pytest.raises(UsageError, match="num_devices=2 with strategy=multi_worker.*try more work"):
        make_strategy("multi_worker", 2)


def test_a_worker_has_a_replica_on_each_of_its_gpus(monkeypatch):
    made, met = [], []

    class Peers:
        def __init__(self, cluster):
            self.meet = met.append

        @staticmethod
        def prepare():
            """Do nothing."""

    monkeypatch.setattr(peers, "Peers", Peers)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [kind] * 3)
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", made.append)
    monkeypatch.setattr(strategy, "_peers", None)
    monkeypatch.setenv("TF_CONFIG", json.dumps({
        "cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}))
    make_strategy("multi_worker")
    assert made[0].num_accelerators() == {"GPU": 3} and made[0].task_id == 1 and met == [3]


def test_a_process_reads_for_its_own_replicas(monkeypatch):
    """As the second of two, with two replicas each."""
    cluster = tf.train.ClusterSpec({"worker": ["a:1", "b:2"]})
    workers = types.SimpleNamespace(
        num_replicas_in_sync=4, cluster_resolver=types.SimpleNamespace(
            cluster_spec=lambda: cluster, task_id=1))
    monkeypatch.setattr(strategy, "has_workers", lambda _: True)
    assert make_batches(workers, lambda *replicas: replicas) == (4, range(2, 4))


def test_each_replica_takes_the_next_batch():
    two = tf.distribute.MirroredStrategy(
        [device.name for device in tf.config.list_logical_devices("CPU")][:2])
    count = two.num_replicas_in_sync
    batches = iter(make_batches(two, lambda *_: tf.data.Dataset.range(2 * count)))

    @tf.function
    def step():
        return two.experimental_local_results(
            two.run(lambda batch: batch, (next_batches(two, batches),)))

    assert [[int(value) for value in step()] for _ in range(2)] == [
        [*range(count)], [*range(count, 2 * count)]]
    with pytest.raises(tf.errors.OutOfRangeError):
        step()


def test_large_numbers_agree_where_they_are_equal(monkeypatch):
    three = types.SimpleNamespace(num_replicas_in_sync=3)
    monkeypatch.setattr(strategy, "has_workers", lambda _: True)
    for value in (0, -1, 99_999_999, 2**40 + 12345):
        others = np.float64([value >> 20, value % 2**20])
        others = 2 * np.concatenate([others, others**2])
        monkeypatch.setattr(strategy, "sum_over_workers", lambda _, own, o=others: np.add(own, o))
        strategy.check_agreement(three, value, "eval_every", "the same")
        with pytest.raises(BertTfError, match="eval_every is .* here but differs"):
            strategy.check_agreement(three, value + 1, "eval_every", "the same")
