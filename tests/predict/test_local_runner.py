"""Processes of a prediction share the cores that there are for them."""

import os

import pytest

from bert_tf import cores
from bert_tf.predict import local_runner


@pytest.mark.parametrize("affinity, usable, groups, is_pinned", [
    ({1, 4, 5, 6}, 4, [[1, 4], [5, 6]], True), (set(range(64)), 4, [[0, 1], [2, 3]], False),
    (set(range(64)), 1, [[0], [0]], False), (None, 4, [[0, 1], [2, 3]], False)])
def test_a_containers_limit_bounds_threads_and_pins_no_process(
        monkeypatch, affinity, usable, groups, is_pinned):
    if affinity is None:  # not on Linux
        monkeypatch.delattr(os, "sched_getaffinity")
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: affinity)
    monkeypatch.setattr(cores, "usable", lambda: usable)
    assert local_runner._core_groups(2)[:2] == (groups, is_pinned)
