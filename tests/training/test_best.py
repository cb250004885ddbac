"""Which evaluation is the best, what is kept of it, and when a run ends early."""

import os

import numpy as np
import pytest

from bert_tf.errors import BertTfError
from bert_tf.training.best import BestEvaluation, best_weights

pytestmark = pytest.mark.usefixtures("eager")
OPTIONS = {"strategy": "one_device", "eval_every": 1, "log_every": 100}


class Judge:
    """An evaluator that gives figures one after the other, and notes the weights it saw."""

    def __init__(self, *figures):
        self.figures = iter(figures)
        self.seen = []

    def __call__(self, model):
        self.model = model
        return self.evaluate

    def evaluate(self):
        self.seen.append({variable.path: variable.numpy() for variable in self.model.weights})
        return {"f1": next(self.figures), "other": 1.0}


def equal(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one)


def test_the_best_of_an_evaluator_is_kept(tiny):
    """The last of equals; no better than it counts as no better."""
    judge = Judge(0.1, 0.5, 0.5, 0.4)
    _, result = tiny.train("run", judge=judge, train_steps=4, **OPTIONS,
                           judging={"monitor": ("f1", max), "keep_best": True})
    assert result == {"step": 4, "evaluation": {"f1": 0.4, "other": 1.0},
                      "best": {"step": 3, "f1": 0.5, "other": 1.0}}
    kept = best_weights(str(tiny.root / "run"))
    assert equal(kept, judge.seen[2]) and not equal(kept, judge.seen[1])
    assert os.listdir(tiny.root / "run/best") == ["step_00000003"]
    assert tiny.logged("run", "f1", "eval") == [0.1, 0.5, 0.5, 0.4]


@pytest.mark.parametrize("better", [pytest.param(max, marks=pytest.mark.long), min])
def test_no_number_is_never_the_better_one(tiny, better):
    nan = float("nan")
    _, result = tiny.train("run", judge=Judge(nan, nan, 0.5, nan, nan), train_steps=9, **OPTIONS,
                           judging={"monitor": ("f1", better), "patience": 2})
    assert (result["step"], result["best"]["step"]) == (5, 3)
    assert not (tiny.root / "run/best").exists()
    with pytest.raises(BertTfError, match="no weights of a best evaluation"):
        best_weights(str(tiny.root / "run"))


def test_the_best_of_an_earlier_version_may_lack_what_decides(tmp_path):
    best = BestEvaluation(str(tmp_path), ("character_f1", max), patience=1)
    best.restore({"best": {"step": 2, "f1": 50.0}, "no_better": 0})
    best.judge(3, {"f1": 40.0, "character_f1": 60.0}, model=None)
    assert best.found == {"step": 3, "f1": 40.0, "character_f1": 60.0} and not best.is_over
    best.judge(4, {"f1": 70.0, "character_f1": 50.0}, model=None)
    assert best.found["step"] == 3 and best.is_over


def test_the_loss_on_held_out_examples_by_itself(tiny):
    _, result = tiny.train("run", eval_examples=16, train_steps=4, schedule=0.3, **OPTIONS,
                           judging={"keep_best": True})
    losses = tiny.logged("run", "loss", "eval")
    assert len(losses) == 4 and np.argmin(losses) < 3  # so fast that it gets worse
    assert result["best"]["step"] == np.argmin(losses) + 1
    assert result["best"]["loss"] == min(losses)


def test_patience_ends_the_run(tiny):
    """Two evaluations in a row that were no better; a better one between starts anew."""
    figures = 0.2, 0.1, 0.3, 0.3, 0.1, 0.9
    judging = {"monitor": ("f1", max), "keep_best": True, "patience": 2}
    weights, result = tiny.train("run", judge=Judge(*figures), train_steps=9, judging=judging,
                                 **OPTIONS)
    assert result["step"] == 5 and result["best"]["step"] == 4
    # It is saved as it ended, and the same call finds nothing to do.
    again, result_again = tiny.train("run", judge=Judge(), train_steps=9, judging=judging,
                                     **OPTIONS)
    assert result_again == result and equal(again, weights)


@pytest.mark.parametrize("saved", [pytest.param(None, marks=pytest.mark.long), 3])
def test_weights_are_those_of_the_best_that_is_told(tiny, saved):
    """A run that goes back, with other replicas for instance, may not find its best again."""
    options = {**OPTIONS, "train_steps": 5, "checkpoint_every": saved or 9,
               "judging": {"monitor": ("f1", max), "keep_best": True}}
    first = Judge(0.1, 0.5, 0.2, 0.9)
    with pytest.raises(StopIteration):  # the weights of step 4 are kept, a checkpoint is not
        tiny.train("run", judge=first, **options)
    (tiny.root / "run/best/.tmp-step_00000004-0123456789ab").mkdir()  # as a kill leaves it
    again = Judge(*(0.1, 0.5, 0.2)[saved or 0:], 0.3, 0.4)
    _, result = tiny.train("run", judge=again, **options)
    assert result["best"]["step"] == 2
    assert equal(best_weights(str(tiny.root / "run")), first.seen[1])
    assert os.listdir(tiny.root / "run/best") == ["step_00000002"]


def test_what_is_frozen_stays_and_is_kept(tiny):
    def freeze(model):
        model.encoder.backbone.embeddings.trainable = False

    start = {variable.path: variable.numpy() for variable in tiny.model().weights}
    weights, _ = tiny.train("run", prepare=freeze, eval_examples=16, train_steps=2,
                            judging={"keep_best": True}, **OPTIONS)
    frozen = {path for path in start if "/embeddings/" in path}
    assert frozen and all(np.array_equal(weights[path], start[path]) for path in frozen)
    moved = [path for path in start if path.endswith("kernel") and path not in frozen]
    assert moved and all(np.abs(weights[path] - start[path]).max() > 0 for path in moved)
    assert best_weights(str(tiny.root / "run")).keys() == start.keys()
