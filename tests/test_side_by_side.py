"""Batches side by side have cores of their own, where nobody else has set TensorFlow's threads."""

import types

import pytest

from bert_tf import side_by_side


@pytest.mark.parametrize("count, asked, gpus, at_work, batches, threads", [
    (1, None, 0, False, 1, 1), (2, "0", 0, False, 2, 1), (8, None, 0, False, 8, 1),
    (3, None, 0, False, 3, 1), (9, None, 0, False, 8, 2), (12, None, 0, False, 8, 4),
    (12, "3", 0, False, 3, 1), (2, "8", 0, False, 2, 1), (8, None, 1, False, 1, None),
    (8, None, 0, True, 1, None)])
def test_batches_have_cores_of_their_own(
        monkeypatch, count, asked, gpus, at_work, batches, threads):
    set_to = fake_threads(monkeypatch, gpus, at_work)
    if asked is None:
        monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    else:
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", asked)
    for _ in range(2):  # a training, and another one
        assert side_by_side.set_threads(count) == side_by_side.at_once() == batches
        assert set_to == [0 if threads is None else threads]


def test_threads_that_a_program_has_set_stay(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    set_to = fake_threads(monkeypatch)
    set_to[0] = 3
    assert side_by_side.set_threads(8) == side_by_side.at_once() == 1 and set_to == [3]


def fake_threads(monkeypatch, gpus=0, at_work=False):
    """A list of the number of threads that TensorFlow has for an operation."""
    import tensorflow as tf

    threads = [0]

    def change(number):
        if at_work:
            raise RuntimeError
        threads[0] = number

    monkeypatch.setattr(tf, "config", types.SimpleNamespace(
        list_physical_devices=lambda kind: [kind] * gpus, threading=types.SimpleNamespace(
            set_intra_op_parallelism_threads=change,
            get_intra_op_parallelism_threads=lambda: threads[0])))
    monkeypatch.setattr(side_by_side, "_at_once", 1)
    monkeypatch.setattr(side_by_side, "_threads", None)
    return threads
