"""Cores that a process may use."""

import os

import pytest

from bert_tf import cores


@pytest.mark.parametrize("files, count", [
    ({}, 5), ({"max": "max 100000\n"}, 5), ({"max": "150000 100000\n"}, 2),
    ({"max": "50000 100000\n"}, 1), ({"max": "0 100000\n"}, 1), ({"max": "900000 100000\n"}, 5),
    ({"max": "\n"}, 5), ({"quota": "-1\n", "period": "100000\n"}, 5),
    ({"quota": "300000\n", "period": "100000\n"}, 3), ({"quota": "300000\n"}, 5)])
def test_cores_are_those_of_the_affinity_within_the_containers_limit(
        tmp_path, monkeypatch, files, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 5, 6})
    for name, constant in (("max", "_LIMIT"), ("quota", "_QUOTA"), ("period", "_PERIOD")):
        monkeypatch.setattr(cores, constant, str(tmp_path / name))
        if name in files:
            (tmp_path / name).write_text(files[name])
    assert cores.usable() == count
