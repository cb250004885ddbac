"""A prediction on this machine: the cores of its processes, and what it makes again."""

import os

import pytest
from predicted import bytes_of, run

from bert_tf import cores
from bert_tf.predict import local_runner
from bert_tf.predict.work import Work


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


@pytest.mark.parametrize(("form", "name"), [("jsonl", "predictions/part-00001.jsonl"),
                                            ("npy", "predictions/part-00001.ids.json")])
def test_what_is_missing_or_damaged_alone_is_made_again(
        model, table, tmp_path, monkeypatch, capsys, same_predictor, form, name):
    words = (model, table, tmp_path / "out", "--format", form, "--task", "embed")
    assert run(*words) == 0
    before, manifest, done = bytes_of(tmp_path / "out"), tmp_path / "out/manifest.json", []
    about, do = manifest.read_bytes(), Work.do
    monkeypatch.setattr(Work, "do", lambda work, block, *others: (
        done.append(block.number), do(work, block, *others)))
    path = tmp_path / "out" / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2"))  # of as many rows
    assert run(*words, "--overwrite") == 0
    assert f"{path} is damaged: its content changed" in capsys.readouterr().out
    path.unlink()
    (tmp_path / "out/bad_rows.jsonl").unlink()
    assert run(*words) == 0
    assert "bad_rows.jsonl is missing; it is made again" in capsys.readouterr().out
    assert done == [1, 1] and bytes_of(tmp_path / "out") == before
    assert manifest.read_bytes() == about
