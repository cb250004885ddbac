"""create_data: what is made is kept, also after kills, on a full disk, and when asked again."""

import errno
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import types

import pytest
from folders import files_of

from bert_tf.data import create
from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import disk, files


def test_a_killed_run_goes_on(run, tmp_path, make, small_chunks, monkeypatch):
    whole, _ = make(masking="static", dupe_factor=1)
    made = []
    work = create._make

    def killed(chunk, path):
        if len(made) == 2:
            raise KeyboardInterrupt
        work(chunk, path)
        made.append((path, os.stat(path).st_mtime_ns))

    monkeypatch.setattr(create, "_make", killed)
    with pytest.raises(KeyboardInterrupt):
        run(masking="static", dupe_factor=1)
    half = files.temporary_name(str(tmp_path / "train-00009.tfrecord"))
    pathlib.Path(half).write_text("half")
    monkeypatch.setattr(create, "_make", work)
    with pytest.raises(UsageError, match="another run.*seed was 7, now 8"):
        run(masking="static", dupe_factor=1, seed=8)
    run(masking="static", dupe_factor=1)
    assert files_of(tmp_path) == files_of(whole)
    assert len(made) == 2
    for path, written in made:
        assert os.stat(path).st_mtime_ns == written


def test_finished_work_is_reused_and_not_overwritten_unasked(run, tmp_path, capsys):
    made = run()
    before = files_of(tmp_path)
    assert run(progress=True, num_processes=2) == made
    assert "reused" in capsys.readouterr().err
    with pytest.raises(UsageError, match="short_seq_prob was 0.1, now 0.2.*--overwrite"):
        run(short_seq_prob=0.2)
    assert files_of(tmp_path) == before
    run(short_seq_prob=0.2, overwrite=True)
    assert files_of(tmp_path) != before


def test_a_refused_run_leaves_no_text_from_standard_input(run, tmp_path, monkeypatch):
    run()
    before = files_of(tmp_path)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(b"other text\n")))
    with pytest.raises(UsageError, match="another run .the input files changed"):
        run(input=["-"])
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"input": ["-"]}])
def test_shards_of_another_tool_are_kept(run, tmp_path, options):
    (tmp_path / "images-00000.tfrecord").write_bytes(b"of hours")
    with pytest.raises(UsageError, match="already holds images-00000.tfrecord, not written by"):
        run(**options)
    assert os.listdir(tmp_path) == ["images-00000.tfrecord"]


def test_a_full_disk_keeps_what_is_finished(run, tmp_path, small_chunks, monkeypatch):
    room = [6]
    sync = disk.sync

    def full(path):
        if os.path.isfile(path):
            room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(path)

    monkeypatch.setattr(disk, "sync", full)
    with pytest.raises(BertTfError, match="the disk is full"):
        run()
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".tfrecord")) == [
        "train-00000.tfrecord", "train-00001.tfrecord"]


def _die(chunk, path):
    os._exit(9)


@pytest.mark.long
def test_a_dead_worker_is_explained(run, small_chunks, monkeypatch):
    monkeypatch.setattr(create, "_make", _die)
    with pytest.raises(BertTfError, match="a process died.*fewer --num_processes"):
        run(num_processes=2)


@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads /proc")
def test_workers_end_with_a_killed_parent(text, vocab, tmp_path, options):
    program = """
import json, multiprocessing, os, signal, sys
from bert_tf.data import chunks, create

in_order = create.in_order

def killed_after_one(*arguments, **options):
    found = in_order(*arguments, **options)
    yield next(found)
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    chunks.CHUNK_BYTES = 500
    create.in_order = killed_after_one
    create.create_examples(**json.loads(sys.argv[1]))
"""
    script = tmp_path / "killed.py"
    script.write_text(program)
    root = pathlib.Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, str(script), json.dumps({
        **options, "input": text, "vocab": vocab, "output_dir": str(tmp_path / "data"),
        "num_processes": 2})],
                         stdout=subprocess.PIPE, timeout=120, check=False,
                         env={**os.environ, "PYTHONPATH": str(root)})
    # The pipe of standard output is at its end only once every worker has gone.
    assert run.returncode == -signal.SIGKILL
    workers = [int(pid) for pid in run.stdout.split()]
    assert len(workers) >= 1
    assert not any(_is_running(pid) for pid in workers)
    assert any(name.endswith(".tfrecord") for name in os.listdir(tmp_path / "data"))


def _is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_other_dynamic_masks_keep_the_records(run, tmp_path, monkeypatch):
    masks = {"whole_word": False, "max_ngram": 3, "masked_share": 0.3, "max_predictions_per_seq": 9}
    made, before = run(), files_of(tmp_path)
    with pytest.raises(UsageError, match="whole_word was True, now False.*--overwrite"):
        run(**masks)
    monkeypatch.setattr(create, "_make_locally", None)
    again = run(**masks, overwrite=True)
    assert again == run(**masks) == {**made, "fingerprint": again["fingerprint"],
                                     "options": {**made["options"], **masks}}
    after = files_of(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {"manifest.json"}
