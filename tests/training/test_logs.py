import json
import math
import resource

import pytest
import tensorflow as tf

from bert_tf.errors import BertTfError
from bert_tf.storage import disk
from bert_tf.training.metrics import MetricsLog


def test_events_and_lines_say_the_same(tmp_path):
    log = MetricsLog(str(tmp_path), 0, 3)
    log.write(1, "train", {"loss": 2.5, "gradient_norm": math.inf})
    log.close()
    with (tmp_path / "metrics.jsonl").open("ab") as stream:
        # As a power failure and then one of a disk leave it: zeros, other bytes, cut short.
        stream.write(b'\0\0\n\xff\xfe\0\n{"step": 2, "spl')
    log = MetricsLog(str(tmp_path), 1, 3)
    log.write(2, "eval", {"loss": 2.25})
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1, "split": "train", "loss": 2.5, "gradient_norm": None},
                     {"restart": 1}, {"step": 2, "split": "eval", "loss": 2.25}]
    for split, step, value in (("train", 1, 2.5), ("eval", 2, 2.25)):
        (path,) = (tmp_path / "logs" / split).iterdir()
        found = {each.tag: (event.step, tf.make_ndarray(each.tensor).item())
                 for event in tf.compat.v1.train.summary_iterator(str(path))
                 for each in event.summary.value}
        assert found["loss"] == (step, value)


def test_lines_are_on_the_disk_before_the_step_is_saved(tmp_path, monkeypatch):
    synced, sync = [], disk.sync
    monkeypatch.setattr(disk, "sync", lambda path: (synced.append(path), sync(path)))
    log = MetricsLog(str(tmp_path), 0, 3)
    log.flush()
    assert not synced  # nothing is there
    log.write(1, "train", {"loss": 2.5})
    log.flush()
    assert synced == [str(tmp_path / "metrics.jsonl")]
    log.close()


def test_events_go_on_in_another_file_after_a_full_disk(tmp_path):
    log = MetricsLog(str(tmp_path), 0, 300)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
        with pytest.raises(BertTfError, match="cannot write .*logs"):
            for step in range(1, 100):
                log.write(step, "train", {"loss": 2.5})
                log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for again in (step, step + 1):
        log.write(again, "train", {"loss": 2.5})
    log.close()
    # By their last number, that of the writer in this process: as text 10 comes before 9.
    files = sorted((tmp_path / "logs" / "train").iterdir(),
                   key=lambda file: int(file.name.split(".")[-2]))
    assert len(files) == 2
    steps = [event.step for event in tf.compat.v1.train.summary_iterator(str(files[-1]))
             if event.summary.value]
    assert steps == [step, step + 1]


def test_a_full_disk_is_no_want_of_memory(tmp_path):
    log = MetricsLog(str(tmp_path), 0, 3)
    log.write(1, "train", {"loss": 2.5})

    class Full:
        def flush(self):
            raise tf.errors.ResourceExhaustedError(None, None, "a.v2; No space left on device")

        close = flush

    for end in (log.flush, log.close):
        log._writers["train"] = Full()
        with pytest.raises(BertTfError, match="cannot write .*logs: the disk is full"):
            end()


def test_a_process_that_is_not_the_chief_writes_nothing(tmp_path):
    log = MetricsLog(str(tmp_path), 0, 3, active=False)
    log.write(1, "train", {"loss": 2.5})
    log.print("held out")
    log.close()
    assert not list(tmp_path.iterdir())
