"""The whole batch decides a step, however it is spread over replicas and micro-batches."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import side_by_side
from bert_tf.errors import BertTfError, LostWorkerError, UsageError
from bert_tf.training import step as step_module
from bert_tf.training import strategy
from bert_tf.training.optimizers import AdamW


def distance(one, other):
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


def leave_padding_out(model):
    """Examples of the tiny data differ widely in length."""
    model.encoder.backbone.padding_free = True


def compute_again(model):
    model.encoder.backbone.gradient_checkpointing = True


RUNS = {"two": {}, "four": {"accumulate_steps": 2}, "free": {"prepare": leave_padding_out},
        "again": {"accumulate_steps": 2, "prepare": compute_again}}


@pytest.mark.parametrize(("more", "runs"), [
    ({"train_steps": 3, "dropout": 0.1}, ["four", "again"]),
    *(pytest.param({"train_steps": 5, **more}, runs, marks=pytest.mark.long) for more, runs in (
        ({}, ["two", "four", "free"]), ({"task": "replaced_tokens"}, ["two"]),
        ({"task": "language_model"}, ["two"]), ({"dropout": 0.1, "optimizer": "muon"}, ["four"]),
        ({"dropout": 0.1, "optimizer": "lamb"}, ["four"])))], ids=str)
def test_replicas_micro_batches_and_padding_change_nothing(tiny, more, runs, request):
    """2 replicas x 8, and 2 x 2 micro-batches of 4, equal 1 x 16; padding may be left out; each
    example has its own dropout, in whatever replica and micro-batch it is."""
    if more["train_steps"] < 5:
        request.getfixturevalue("eager")
    options = {"schedule": 1e-3, **more}
    one, _ = tiny.train("one", "one_device", **options)
    if "optimizer" not in more:
        start = {v.path: v.numpy()
                 for v in tiny.model(0.0, "float32", more.get("task", "pretraining")).weights}
        for name in one:  # a bias of the keys cancels in the softmax
            assert name.endswith("bias") or np.abs(one[name] - start[name]).max() >= 1e-3, name
    for name in runs:
        weights, _ = tiny.train(name, "mirrored", **RUNS[name], **options)
        check_same(tiny, weights, one, name)


@pytest.mark.parametrize("more", [
    {}, *(pytest.param(more, marks=pytest.mark.long) for more in (
        {"task": "replaced_tokens"}, {"task": "language_model", "optimizer": "muon"}))], ids=str)
def test_halves_side_by_side_change_nothing(tiny, more, monkeypatch, request):
    """Each example has its own dropout, in whatever half it is, and each is evaluated once; not so
    where memory is to be saved."""
    if not more:
        request.getfixturevalue("eager")
    options = {"train_steps": 2, "dropout": 0.1, "eval_examples": 40, "schedule": 1e-3, **more}
    one, whole = tiny.train("one", "one_device", **options)
    monkeypatch.setattr(side_by_side, "at_once", lambda: 8)
    sizes, part_of = [], step_module._part_of
    monkeypatch.setattr(step_module, "_part_of", lambda batch, index, size: sizes.append(
        (index, size)) or part_of(batch, index, size))
    weights, halves = tiny.train("halves", "one_device", **options)
    assert sizes and sizes == len(sizes) // 2 * [(0, 8), (1, 8)]
    check_same(tiny, weights, one, "halves")
    assert halves["evaluation"] == pytest.approx(whole["evaluation"], rel=1e-5)
    sizes.clear()
    tiny.train("less", "one_device", train_steps=1, accumulate_steps=4)
    assert {size for _, size in sizes} == {4}


def test_parts_of_an_odd_batch_have_all_its_rows():
    batch = {"input_mask": tf.range(5), "first_example": tf.constant(40, tf.int64)}
    found = step_module._of_each_part(
        batch, 2, lambda part, more: (part["first_example"], part["input_mask"] + more), 7)
    first, values = zip(*found, strict=True)
    assert [each.numpy() for each in first] == [40, 43]
    assert step_module._joined(values).numpy().tolist() == [7, 8, 9, 10, 11]


def check_same(tiny, weights, one, name):
    assert distance(weights, one) <= 1e-5
    keys = {key for key in tiny.lines("one")[0] if key.endswith(("loss", "accuracy", "rate"))}
    assert len(keys) >= 4
    for key in keys | {"gradient_norm"}:
        np.testing.assert_allclose(tiny.logged(name, key), tiny.logged("one", key), rtol=1e-5,
                                   atol=1e-5, err_msg=key)


def test_predicted_tokens_differ_between_replicas(tiny):
    """Else the test above would pass with a mean of means."""
    batches = list(tiny.input().dataset(num_replicas=2, replicas=(0, 1)).take(10))
    counts = [batch["masked_lm_weights"].numpy().sum() for batch in batches]
    assert all(first != second for first, second in zip(counts[::2], counts[1::2], strict=True))


def test_evaluation_counts_every_held_out_example_once(tiny, eager):
    """40 examples in 3 steps of 16 over 2 replicas; padding rows weigh nothing."""
    weights, result = tiny.train("run", train_steps=1, eval_examples=40)
    model = tiny.model()
    for variable in model.weights:
        variable.assign(weights[variable.path])
    batches = list(tiny.input(40).dataset())
    batch = {name: tf.concat([batch[name] for batch in batches], 0)[:40]
             for name in batches[0] if name != "first_example"}
    outputs = model(batch)
    sums, counts = model.loss_sums(outputs, batch), model.loss_weights(batch)
    for name in ("masked_lm", "next_sentence"):
        assert result["evaluation"][f"{name}_loss"] == pytest.approx(
            float(sums[name] / counts[name]), abs=1e-5)
    right, weight = model.metric_sums(outputs, batch)["masked_lm_accuracy"]
    assert result["evaluation"]["masked_lm_accuracy"] == pytest.approx(float(right / weight))
    assert result["best"] == {"step": 1, **result["evaluation"]}
    assert tiny.logged("run", "loss", "eval") == [result["evaluation"]["loss"]]


def test_non_finite_loss_stops_the_run(tiny, eager):
    with pytest.raises(BertTfError) as caught:
        tiny.train("run", "one_device", train_steps=20, checkpoint_every=1, schedule=1e30)
    message = str(caught.value)
    assert message.startswith("train loss is NaN at step 2")
    assert "step_00000001" in message and "learning_rate" in message
    assert tiny.logged("run", "step") == [1]


@pytest.mark.parametrize("strategy", [
    "one_device", pytest.param("mirrored", marks=pytest.mark.long)])
def test_float16_skips_steps_until_the_scale_fits(tiny, monkeypatch, strategy):
    monkeypatch.setattr(step_module, "INITIAL_LOSS_SCALE", 2.0**21)
    monkeypatch.setattr(step_module, "GROWTH_INTERVAL", 3)
    weights, result = tiny.train("run", strategy, dtype="float16", train_steps=12)
    scales = tiny.logged("run", "loss_scale")
    norms = tiny.logged("run", "gradient_norm")
    rates = tiny.logged("run", "learning_rate")
    assert norms[0] is None and norms[-1] is not None
    assert scales[0] == 2.0**20 and max(np.diff(np.log2(scales))) == 1
    # A skipped step does not count as an update, for the schedule either.
    assert rates[0] == rates[1]
    assert all(np.isfinite(value).all() for value in weights.values())


def test_batch_must_divide(tiny):
    with pytest.raises(UsageError, match="batch_size=18 over 2 replicas .* try batch_size=20, "
                                         "or where a run goes on another number of workers"):
        tiny.train("run", batch_size=18, accumulate_steps=2, train_steps=1)


def test_a_model_without_memory_is_told(tiny, monkeypatch):
    def build(self, variables):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(AdamW, "build", build)
    told = "out of memory: the model with the optimizer's state does not fit .*try a smaller model"
    with pytest.raises(BertTfError, match=told):
        tiny.train("run", train_steps=1)


def test_a_worker_that_is_lost_while_the_optimizer_is_made_is_named(tiny, monkeypatch):
    """The chief sends its variables to all others."""
    def build(self, variables):
        raise tf.errors.UnavailableError(None, None, "worker 1 (b:1) does not answer")

    monkeypatch.setattr(AdamW, "build", build)
    monkeypatch.setattr(strategy, "_peers", types.SimpleNamespace(lost=lambda: ["worker 1 (b:1)"]))
    with pytest.raises(LostWorkerError, match=r"lost worker 1 \(b:1\): ended, hanging"):
        tiny.train("run", train_steps=1)
