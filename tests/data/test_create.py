"""create_data: the same bytes always, kills, bad input, and readers other than ours."""

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import cli, create_data, files
from bert_tf.config import FORMATS
from bert_tf.data import chunks, create
from bert_tf.errors import BertTfError, UsageError


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "_WINDOW_BYTES", 2000)


def _contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture
def run(text, vocab, tmp_path, options):
    """Function that makes examples in `tmp_path` with some options changed."""
    return lambda **changes: create.create_examples([text], vocab, str(tmp_path),
                                                    **{**options, **changes})


def test_bytes_do_not_depend_on_processes(make, small_chunks):
    one, manifest = make(holdout=0.2)
    two, _ = make(holdout=0.2, num_processes=2)
    assert len(manifest["splits"]["train"]["shards"]) > 3
    assert _contents(one) == _contents(two)


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
    assert _contents(tmp_path) == _contents(whole)
    assert len(made) == 2
    for path, written in made:
        assert os.stat(path).st_mtime_ns == written


def test_finished_work_is_reused_and_not_overwritten_unasked(run, tmp_path, capsys):
    made = run()
    before = _contents(tmp_path)
    assert run(progress=True, num_processes=2) == made
    assert "reused" in capsys.readouterr().err
    with pytest.raises(UsageError, match="short_seq_prob was 0.1, now 0.2.*--overwrite"):
        run(short_seq_prob=0.2)
    assert _contents(tmp_path) == before
    run(short_seq_prob=0.2, overwrite=True)
    assert _contents(tmp_path) != before


@pytest.mark.parametrize("format", FORMATS)
def test_manifest_tells_the_truth(make, format):
    folder, made = make(format=format, holdout=0.2)
    for split, facts in made["splits"].items():
        dataset = tf.data.TFRecordDataset([f"{folder}/{s['name']}" for s in facts["shards"]])
        examples = [tf.train.Example.FromString(record).features.feature
                    for record in dataset.as_numpy_iterator()]
        lengths = [len(e["input_word_ids"].int64_list.value) for e in examples]
        assert facts["num_examples"] == len(examples) > 0, split
        assert facts["num_tokens"] == sum(lengths)
        assert facts["mean_tokens"] == np.mean(lengths)
        if made["pair_labels"]:
            labels = [e["next_sentence_labels"].int64_list.value[0] for e in examples]
            assert facts["random_next"] == np.mean(labels)
            assert abs(np.mean(labels) - 0.5) < 0.1
        else:
            assert "next_sentence_labels" not in examples[0]
    assert sum(facts["num_documents"] for facts in made["splits"].values()) == 30


def test_training_holds_no_held_out_sentence(make):
    folder, made = make(holdout=0.2, format="segment_pair")
    tokens = {}
    for split, facts in made["splits"].items():
        dataset = tf.data.TFRecordDataset([f"{folder}/{s['name']}" for s in facts["shards"]])
        tokens[split] = {
            tuple(part) for record in dataset.as_numpy_iterator()
            for part in _windows(tf.train.Example.FromString(record)
                                 .features.feature["input_word_ids"].int64_list.value)}
    assert len(tokens["eval"]) > 100
    assert not tokens["train"] & tokens["eval"]


def _windows(ids, size=12):
    """Runs of pieces too long to be the same by chance."""
    return [window for start in range(len(ids) - size)
            if not {2, 3} & {*(window := ids[start:start + size])}]


@pytest.mark.parametrize("v2_names", [False, True])
def test_static_records_feed_the_official_loader(make, v2_names):
    from official.nlp.data import pretrain_dataloader

    folder, made = make(masking="static", dupe_factor=3)
    config = pretrain_dataloader.BertPretrainDataConfig(
        input_path=f"{folder}/train-*.tfrecord", global_batch_size=4, is_training=False,
        seq_length=32, max_predictions_per_seq=6, use_v2_feature_names=v2_names,
        drop_remainder=False)
    batches = list(pretrain_dataloader.BertPretrainDataLoader(config).load())
    joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    assert len(joined["input_word_ids"]) == made["splits"]["train"]["num_examples"]
    assert joined["input_mask"].sum() == made["splits"]["train"]["num_tokens"]
    weights = joined["masked_lm_weights"] > 0
    budget = np.maximum(1, np.round(joined["input_mask"].sum(1) * 0.15))
    assert (weights.sum(1) <= np.minimum(6, budget)).all() and weights.sum(1).mean() > 3
    seen = np.take_along_axis(joined["input_word_ids"], joined["masked_lm_positions"], 1)
    assert (joined["masked_lm_ids"][weights] > 4).all() and (seen[weights] >= 4).all()
    assert set(joined["next_sentence_labels"].ravel()) == {0, 1}


@pytest.mark.parametrize("change, message", [
    ({"seq_length": 7}, "seq_length=7; expected at least 8"),
    ({"short_seq_prob": 1.5}, "short_seq_prob=1.5"),
    ({"format": "segment_pairs"}, "try format='segment_pair'"),
])
def test_options_out_of_range(run, change, message):
    with pytest.raises(UsageError, match=message):
        run(**change)


def _refused(*flags):
    """Exit code of `create_data` run in this process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        return cli.run(create_data.main, [*flags, "--num_processes", "1"])
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("content, code, message", [
    ("", 1, "holds no text"),
    ("one\ntwo\nthree\n", 1, "the text is a single document"),
    ("one\n\ntwo\n\nthree\n", 1, "no document has two sentences"),
    ("one\ntwo\n\n\x01\n\x02\n", 1, "fewer than two documents that hold words"),
])
def test_bad_text_is_one_line(tmp_path, vocab, capsys, content, code, message):
    path = tmp_path / "bad.txt"
    path.write_text(content)
    assert _refused("--input", str(path), "--vocab", vocab,
                    "--output_dir", str(tmp_path / "data")) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert len(error) == 1 and message in error[0]


def test_bad_vocabulary_and_casing(tmp_path, text, vocab, capsys):
    bad = tmp_path / "vocab.txt"
    bad.write_text("[PAD]\na\n")
    arguments = ["--input", text, "--output_dir", str(tmp_path / "data")]
    assert _refused(*arguments, "--vocab", str(bad)) == 2
    assert "has no [UNK] [CLS] [SEP] [MASK]" in capsys.readouterr().err
    bad.write_text(pathlib.Path(vocab).read_text())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"lower_case": True, "strip_accents": False}))
    assert _refused(*arguments, "--vocab", str(bad), "--no-lower_case") == 2
    assert "lower_case" in capsys.readouterr().err
    assert _refused(*arguments, "--vocab", str(bad)) == 0
    assert files.read_json(str(tmp_path / "data/manifest.json"))["options"]["lower_case"]


def test_a_full_disk_keeps_what_is_finished(run, tmp_path, small_chunks, monkeypatch):
    room = [6]
    sync = files._sync

    def full(path):
        if os.path.isfile(path):
            room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(path)

    monkeypatch.setattr(files, "_sync", full)
    with pytest.raises(BertTfError, match="the disk is full"):
        run()
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".tfrecord")) == [
        "train-00000.tfrecord", "train-00001.tfrecord"]


def _die(chunk, path):
    os._exit(9)


def test_a_dead_worker_is_explained(run, small_chunks, monkeypatch):
    monkeypatch.setattr(create, "_make", _die)
    with pytest.raises(BertTfError, match="a process died.*fewer --num_processes"):
        run(num_processes=2)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads /proc")
def test_workers_end_with_a_killed_parent(text, vocab, tmp_path, options):
    program = """
import json, os, signal, sys
from bert_tf.data import chunks, create

finished = create._finished

def kill_after(chunk, path, future):
    finished(chunk, path, future)
    print(*[child.pid for child in create.multiprocessing.active_children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    chunks.CHUNK_BYTES = 500
    create._finished = kill_after
    create.create_examples(sys.argv[1:2], *sys.argv[2:4], **json.loads(sys.argv[4]))
"""
    script = tmp_path / "killed.py"
    script.write_text(program)
    root = pathlib.Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, str(script), text, vocab, str(tmp_path / "data"),
                          json.dumps({**options, "num_processes": 2})],
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
