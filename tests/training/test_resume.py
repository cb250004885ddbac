"""A run that was stopped, killed or damaged ends with the bytes of an undisturbed one."""

import contextlib
import errno
import itertools
import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from faults.kill_and_resume import read_metrics

from bert_tf import side_by_side
from bert_tf.errors import BertTfError, UnavailableError, UsageError
from bert_tf.storage import disk, files
from bert_tf.training import checkpoint, loop
from bert_tf.training.best import best_weights
from bert_tf.training.checkpoint import Checkpoints
from bert_tf.training.config import TrainConfig
from bert_tf.training.signals import StopRequest
from bert_tf.training.step import halves_of_step

# The first evaluation of a falling loss is the "best": patience ends the run after step 6.
OPTIONS = {"train_steps": 8, "checkpoint_every": 3, "dropout": 0.1, "accumulate_steps": 2,
           "eval_examples": 12, "eval_every": 2,
           "judging": {"monitor": ("loss", max), "keep_best": True, "patience": 2}}


def equal(one, other):
    return one.keys() == other.keys() and all(
        one[name].tobytes() == other[name].tobytes() for name in one)


class StoppingInput:
    """Input that stops the run when it is asked for the batch of a step."""

    def __init__(self, data, step):
        self.data, self.step = data, step

    def dataset(self, start_step=0, num_replicas=1, replicas=(0,)):
        counter = itertools.count(start_step * len(replicas))

        def check(batch):
            if next(counter) == self.step * len(replicas):
                stop()
            return batch

        dataset = self.data.dataset(start_step, num_replicas, replicas)
        return tf.data.Dataset.from_generator(lambda: map(check, dataset),
                                              output_signature=dataset.element_spec)


def stop():
    os.kill(os.getpid(), signal.SIGTERM)


def judge_and_stop(model):
    return lambda: stop() or {"loss": 1.0}


@pytest.mark.parametrize("more", [
    {"strategy": "one_device", "accumulate_steps": 1},
    pytest.param({"strategy": "one_device", "accumulate_steps": 1, "halves": True},
                 marks=pytest.mark.long),
    pytest.param({"optimizer": "muon", "ema_decay": 0.9}, marks=pytest.mark.long),
    pytest.param({"dtype": "bfloat16", "task": "replaced_tokens"}, marks=pytest.mark.long)])
def test_stopped_run_equals_the_undisturbed_one(tiny, more, request, monkeypatch):
    """SIGTERM saves and says so; the same call goes on to the same bytes, logs included; the best
    evaluation, its weights and patience are the same, too. So it is in halves side by side."""
    options = {**OPTIONS, **more}
    halves = options.pop("halves", False)
    if halves:
        monkeypatch.setattr(side_by_side, "at_once", lambda: 2)
        assert halves_of_step(tf.distribute.get_strategy(), TrainConfig(batch_size=16)) == 2
    elif "strategy" in more:
        request.getfixturevalue("eager")
    whole, result = tiny.train("whole", **options)
    assert (result["step"], result["best"]["step"]) == (6, 2)
    stopping = StoppingInput(tiny.input(), 2)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="is saved in .*step_0000000.; the same command"):
        tiny.train("stopped", data=stopping, **options)
    assert signal.getsignal(signal.SIGTERM) is before
    assert 1 <= Checkpoints(str(tiny.root / "stopped/checkpoints")).steps()[-1] < 6
    weights, resumed = tiny.train("stopped", **options)
    assert equal(weights, whole) and resumed == result
    assert equal(*(best_weights(str(tiny.root / name)) for name in ("whole", "stopped")))
    assert read_metrics(tiny.root / "stopped/metrics.jsonl") == read_metrics(
        tiny.root / "whole/metrics.jsonl")
    assert tiny.train("stopped", **options)[1] == result  # finished: nothing to do
    assert sum("restart" in line for line in tiny.lines("stopped")) == 1


def test_a_stopped_run_can_be_finished_where_it_is(tiny, capsys, eager):
    """With the weights and the evaluation of a run that had no more steps, but for its schedule."""
    options = {"strategy": "one_device", "checkpoint_every": 2, "eval_every": 9,
               "eval_examples": 20, "schedule": 1e-3}
    short, expected = tiny.train("short", train_steps=2, **options)
    stopping = StoppingInput(tiny.input(), 2)
    with pytest.raises(KeyboardInterrupt):
        tiny.train("long", train_steps=9, data=stopping, **options)
    steps = Checkpoints(str(tiny.root / "long/checkpoints")).steps()
    for step in steps[1:]:  # of the stop itself
        shutil.rmtree(tiny.root / f"long/checkpoints/step_{step:08d}")
    weights, found = tiny.train("long", train_steps=9, judging={"finish_now": True}, **options)
    assert equal(weights, short)
    assert (found["step"], found["evaluation"]) == (2, expected["evaluation"])
    assert f"finished after step {found['step']} of 9" in capsys.readouterr().out
    with pytest.raises(UsageError, match="finish_now, but no step of .*new is saved"):
        tiny.train("new", train_steps=9, judging={"finish_now": True}, **options)


@pytest.mark.parametrize("workers", [False, True])
def test_one_process_stops_at_the_end_of_the_step(tiny, monkeypatch, capfd, workers, eager):
    """Several agree on one, by what a step has told them all."""
    make, calls = loop.make_train_step, itertools.count(1)

    def making(*arguments):
        step = make(*arguments)

        def train_step(*arguments):
            if next(calls) == 3:
                stop()
            return step(*arguments)
        return train_step

    monkeypatch.setattr(loop, "make_train_step", making)
    monkeypatch.setattr(loop, "has_workers", lambda strategy: workers)
    with pytest.raises(KeyboardInterrupt):
        tiny.train("run", "one_device", train_steps=9, checkpoint_every=99)
    assert Checkpoints(str(tiny.root / "run/checkpoints")).steps() == [5 if workers else 3]
    when = "within two more steps" if workers else "at the end of this step"
    assert f"stopping {when}; once more" in capfd.readouterr().err


def test_a_stop_during_an_evaluation_does_without_another_step(tiny, capfd, eager):
    with pytest.raises(KeyboardInterrupt, match="step 2 of 9 is saved"):
        tiny.train("run", "one_device", train_steps=9, eval_every=2, checkpoint_every=99,
                   judge=judge_and_stop)
    assert "at the end of this step, after an evaluation if one is due" in capfd.readouterr().err


def test_steps_that_take_long_are_saved_between_those_that_are_counted(tiny, eager):
    """However often that is, the bytes are the same."""
    options = {"strategy": "one_device", "train_steps": 2, "checkpoint_every": 9}
    weights = {}
    for minutes, steps in ((0.0, [2]), (60.0, [2]), (1e-9, [1, 2])):
        weights[minutes], _ = tiny.train(str(minutes), checkpoint_minutes=minutes, **options)
        assert Checkpoints(str(tiny.root / str(minutes) / "checkpoints")).steps() == steps
    assert equal(weights[0.0], weights[1e-9])


def test_other_micro_batches_are_noted(tiny, eager):
    """Without padding they are what dropout's draws are numbered in."""
    options = {"strategy": "one_device", "padding_free": True}
    tiny.train("run", train_steps=1, **options)
    tiny.train("run", train_steps=2, accumulate_steps=4, **options)
    assert tiny.lines("run")[1] == {
        "restart": 1, "note": "resumed with 4 micro-batches instead of 1; batches and the position "
        "in the data stay, sums are rounded in another order, and dropout draws other masks"}


def test_a_stop_during_the_last_evaluation_is_heeded(tiny, eager):
    """What comes after the steps, as an export or the next of several trainings, is not begun."""
    options = {"train_steps": 2, "strategy": "one_device", "judge": judge_and_stop}
    with pytest.raises(KeyboardInterrupt, match="step 2 of 2 is saved in .*step_00000002; the"):
        tiny.train("last", **options)
    assert tiny.train("last", **options)[1]["evaluation"] == {"loss": 1.0}


def test_damaged_newest_checkpoint_is_passed_over(tiny, capsys, eager):
    options = {"strategy": "one_device", "train_steps": 3, "checkpoint_every": 1}
    whole, _ = tiny.train("run", **options)
    folder = tiny.root / "run/checkpoints"
    assert sorted(os.listdir(folder)) == ["step_00000001", "step_00000002", "step_00000003"]
    data = folder / "step_00000003/variables.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    os.truncate(folder / "step_00000002/variables.index", 10)
    (folder / ".tmp-step_00000004-0123456789ab").mkdir()
    weights, _ = tiny.train("run", **options)
    assert equal(weights, whole)
    told = capsys.readouterr().out
    assert "step_00000003/variables.data-00000-of-00001 is damaged" in told
    assert "step_00000002/variables.index is damaged" in told
    assert not (folder / ".tmp-step_00000004-0123456789ab").exists()
    for step in (1, 2, 3):
        os.truncate(folder / f"step_{step:08d}/variables.index", 10)
    with pytest.raises(BertTfError, match=r"every checkpoint in \S* is damaged \(\S*_00000003/\S* "
                       r"is .*, \(\S*_00000001/\S* is damaged.*\); try a copy.* last resort"):
        tiny.train("run", **options)


def test_an_old_checkpoint_that_cannot_be_deleted_ends_no_run(tiny, monkeypatch, capsys, eager):
    """As where another machine reads it from the same network file system."""
    def fails(path):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    options = {"strategy": "one_device", "train_steps": 3, "checkpoint_every": 1,
               "keep_checkpoints": 1}
    whole, _ = tiny.train("whole", **options)
    with monkeypatch.context() as patched:
        patched.setattr(disk, "remove", fails)
        for _ in range(2):  # the second goes back to the last checkpoint
            assert equal(tiny.train("run", **options)[0], whole)
    assert "Directory not empty; it is left for later" in capsys.readouterr().err
    tiny.train("run", **options)
    assert not [name for name in os.listdir(tiny.root / "run/checkpoints") if "tmp" in name]


def test_a_failed_write_keeps_the_earlier_checkpoints(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), keep=2)
    for step in (1, 2, 3):
        checkpoints.save(step, {"x": np.float32(step)}, {})
    assert checkpoints.steps() == [2, 3]
    with pytest.raises(TypeError):
        checkpoints.save(4, {"x": np.float32(4)}, {"unwritable": object()})
    assert sorted(os.listdir(tmp_path)) == ["step_00000002", "step_00000003"]
    tensors, state = checkpoints.load_newest(print)
    assert tensors == {"x": 3.0} and state["step"] == 3


def fails_first(function, times, code, of=lambda *arguments: True):
    """A function that raises an OSError the first `times` that it is called with such arguments."""
    left = itertools.repeat(code, times)

    def failing(*arguments, **more):
        if of(*arguments) and next(left, None):
            raise OSError(code, os.strerror(code))
        return function(*arguments, **more)
    return failing


def test_a_write_is_tried_again_when_the_disk_may_have_been_cleared(tmp_path, monkeypatch):
    waited, checkpoints = [], Checkpoints(str(tmp_path))
    monkeypatch.setattr(checkpoint.time, "sleep", waited.append)
    write = checkpoint.write_variables
    monkeypatch.setattr(checkpoint, "write_variables", fails_first(write, 2, errno.ENOSPC))
    checkpoints.save(1, {"x": np.float32(1)}, {})
    assert waited == [10, 30] and checkpoints.load_newest(print)[0] == {"x": 1.0}
    monkeypatch.setattr(checkpoint, "write_variables", fails_first(write, 4, errno.ENOSPC))
    with pytest.raises(UnavailableError, match="step_00000002: the disk is full"):
        checkpoints.save(2, {}, {})
    assert waited[2:] == [10, 30, 60] and os.listdir(tmp_path) == ["step_00000001"]
    monkeypatch.setattr(checkpoint.time, "sleep", lambda _: [
        os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)])
    monkeypatch.setattr(checkpoint, "write_variables", fails_first(write, 1, errno.ENOSPC))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as commands have it
    try:
        with pytest.raises(KeyboardInterrupt), StopRequest("soon"):
            checkpoints.save(2, {}, {})
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_is_no_checkpoint_any_more_may_stay_for_a_while(tmp_path, monkeypatch, capsys):
    """Also where a first attempt put one in place whose end was not sure."""
    checkpoints = Checkpoints(str(tmp_path))
    monkeypatch.setattr(checkpoint, "PAUSES", (0,))
    monkeypatch.setattr(disk, "remove", fails_first(disk.remove, 9, errno.ENOTEMPTY,
                                                    of=lambda path: "step_" in path))
    monkeypatch.setattr(disk, "sync", fails_first(disk.sync, 1, errno.EIO,
                                                  of=lambda path: path == str(tmp_path)))
    for step in (1, 2):
        checkpoints.save(step, {"x": np.float32(step)}, {})
    assert checkpoints.load_newest(pytest.fail)[0] == {"x": 2.0}
    checkpoints.keep_only(1)
    assert checkpoints.steps() == [1]
    assert capsys.readouterr().err.count("it is left for later") == 2
    monkeypatch.setattr(disk, "discard", fails_first(disk.discard, 2, errno.EIO))
    with pytest.raises(UnavailableError, match="cannot delete .*step_00000001"):
        checkpoints.keep_only(None)  # as it is whole, it would be found


def test_a_full_disk_takes_no_line_of_the_log(tiny, monkeypatch, capsys, eager):
    fails = fails_first(lambda: None, 1, errno.ENOSPC)

    @contextlib.contextmanager
    def with_room_for_half(path, mode, **more):
        with open(path, mode, **more) as stream:
            yield stream
        if mode == "a":
            try:
                fails()
            except OSError:
                os.truncate(path, os.path.getsize(path) // 2)
                raise

    monkeypatch.setattr(checkpoint, "PAUSES", (0,))
    monkeypatch.setattr(files, "open", with_room_for_half, raising=False)
    monkeypatch.setattr(disk, "sync", fails_first(
        disk.sync, 1, errno.ENOSPC, of=lambda path: path.endswith("metrics.jsonl")))
    tiny.train("run", "one_device", train_steps=2, checkpoint_every=1)
    assert [line["step"] for line in tiny.lines("run")] == [1, 2]
    assert capsys.readouterr().err.count("trying again") == 2


def test_a_checkpoint_that_cannot_be_read_now_is_not_passed_over(tmp_path, monkeypatch):
    checkpoints = Checkpoints(str(tmp_path), keep=2)
    for step in (1, 2):
        checkpoints.save(step, {"x": np.float32(step)}, {})

    def denied(path):
        with files.explained("read", path):
            raise PermissionError(13, "denied", path)

    stat = os.stat
    for of in (lambda path: path == checkpoints.path(2), lambda path: "step_" in str(path),
               lambda path: str(path).endswith("variables.index")):
        with monkeypatch.context() as patched:
            patched.setattr(disk.os, "stat", fails_first(stat, 9, errno.ESTALE, of))
            with pytest.raises(UnavailableError, match="cannot read .*step_0000000[12].*: Stale"):
                checkpoints.load_newest(print)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "read_variables", denied)
        with pytest.raises(BertTfError, match="permission denied"):
            checkpoints.load_newest(print)
    assert checkpoints.load_newest(print)[1]["step"] == 2


def test_a_signal_that_is_ignored_stays_so(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest("soon") as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert not stop.requested and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)  # as of a handler in C
    monkeypatch.setattr(signal, "signal", None)
    with StopRequest("soon"):
        pass


def test_second_signal_interrupts_at_once():
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), StopRequest("soon") as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.requested
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
