"""The training loop: steps, logs, evaluations, checkpoints, and going on where a run stopped."""

import contextlib
import math
import os
import time

import numpy as np
import tensorflow as tf

from bert_tf.errors import DivergedError, UsageError, explain
from bert_tf.storage import files
from bert_tf.storage.variables import assign_variables
from bert_tf.training.best import BestEvaluation
from bert_tf.training.checkpoint import (
    Checkpoints,
    left_for_later,
    run_variables,
    tried_again,
)
from bert_tf.training.evaluate import Evaluator
from bert_tf.training.memory import MODEL, STEP, explained_want_of_memory, let_go
from bert_tf.training.metrics import MetricsLog
from bert_tf.training.signals import StopRequest
from bert_tf.training.step import halves_of_step, initial_loss_scale, make_train_step
from bert_tf.training.strategy import (
    any_worker,
    check_agreement,
    explained_loss_of_workers,
    has_workers,
    is_chief,
    make_batches,
)
from bert_tf.training.weight_average import WeightAverage


def train(model, optimizer, strategy, config, input_data, eval_data, folder, *, evaluator=None,
          monitor=("loss", min), keep_best=False, patience=None, rows=None, finish_now=False):
    """Train `model` to `config.train_steps`, from the newest sound checkpoint in `folder` on.

    The same command gives the same weights, bit by bit, however often the run was killed, given
    `tf.config.experimental.enable_op_determinism()` and the same devices and threads.

    Args:
        model: built in `strategy.scope()`, with the accounting methods of `training/step.py`;
            where `config.ema_decay` is set it ends with the average of its weights.
        optimizer: one of `optimizers.OPTIMIZERS`, made in the same scope.
        strategy: from `make_strategy`.
        config: a `TrainConfig`.
        input_data: `dataset(start_step=…, num_replicas=…, replicas=…)` yields, step after step,
            each replica's batch: a dict of tensors with static shapes `[batch, …]`, among them
            `input_mask`, and the scalar `first_example`, its global position.
        eval_data: the same for the held-out split, gone through once; None for no evaluation.
        folder: run folder; gets `checkpoints/`, `metrics.jsonl` and `logs/`.
        evaluator: called without arguments instead of going through `eval_data`; gives
            `{name: float}`.
        monitor: name of an evaluation's figure, and `min` or `max`, whichever of two is better;
            any number is better than nan.
        keep_best: keep the weights of the best evaluation, see `best.best_weights`.
        patience: end the run after so many evaluations that were no better than the best.
        rows: `TrainedRows` to train instead of the whole table; not with `config.ema_decay`.
        finish_now: train no further than the last checkpoint, which is evaluated.

    Returns:
        `{"step", "evaluation", "best"}`: finished steps, the last evaluation, and the best one
        (the last of equals, with its `step`); the latter two None without evaluations.

    Raises:
        DivergedError: the loss is not finite, or the evaluator says so.
        BertTfError: the machine or the data failed; LostWorkerError: another worker is lost.
        UsageError: the configuration does not fit the devices or the checkpoint.
        ValueError: `rows` with `config.ema_decay`.
        KeyboardInterrupt: after Ctrl-C or SIGTERM; the run is saved, as the message reports.
    """
    check_split(config, strategy)
    average = None
    if rows and config.ema_decay:
        raise ValueError(f"ema_decay={config.ema_decay} with rows: the average is of whole tables")
    with explained_loss_of_workers(), explained_want_of_memory(MODEL), strategy.scope():
        optimizer.build(rows.trained(model.trainable_variables) if rows
                        else model.trainable_variables)
        if config.ema_decay:
            average = WeightAverage(model.trainable_variables, config.ema_decay)
    if evaluator is None and eval_data is not None:
        evaluator = Evaluator(model, strategy, eval_data, config.seed)
    best = BestEvaluation(folder, monitor, keep_best and is_chief(strategy), patience)
    try:
        return _Run(model, optimizer, average, rows, strategy, config, input_data, evaluator, best,
                    folder).finish(finish_now)
    except DivergedError as error:
        error.best = best.found
        raise
    finally:
        if average:
            let_go(strategy, average.variables)


def check_split(config, strategy):
    """Raise UsageError unless a batch divides among the replicas' micro-batches."""
    parts = strategy.num_replicas_in_sync * config.accumulate_steps
    if config.batch_size % parts:
        raise UsageError(explain(
            f"batch_size={config.batch_size} over {strategy.num_replicas_in_sync} replicas in "
            f"accumulate_steps={config.accumulate_steps} micro-batches does not divide evenly",
            attempt=f"batch_size={-(-config.batch_size // parts) * parts}, or where a run goes on "
                    "another number of workers, devices or accumulate_steps"))


def _written(number):
    return f"{float(number):g}".replace("nan", "NaN")


class _Run:
    """The state of a run in memory and on disk."""

    def __init__(self, model, optimizer, average, rows, strategy, config, input_data, evaluator,
                 best, folder):
        self.config = config
        self.model = model
        self.strategy = strategy
        self.has_workers = has_workers(strategy)
        self.input_data = input_data
        self.average = average
        self.rows = rows
        self.variables = run_variables(model, optimizer, average)
        self.train_step = make_train_step(model, optimizer, strategy, config, average, rows)
        self.evaluator = evaluator
        self.best = best
        self.checkpoints = Checkpoints(os.path.join(folder, "checkpoints"),
                                       config.keep_checkpoints)
        self.folder = folder
        self.step = 0
        self.loss_scale = initial_loss_scale(config)
        self.evaluation = None
        self.saved_step = None
        self.saved_at = time.monotonic()
        self.unlogged_tokens = []
        self.log = None
        self.clock = None
        self.note = None  # what is different from the run so far
        self.parts = {"replicas": strategy.num_replicas_in_sync,  # of a batch
                      "micro-batches": config.accumulate_steps,  # of a replica's part
                      "parts side by side": halves_of_step(strategy, config)}

    def finish(self, finish_now):
        """Restore, train the steps that are missing, and return what `train` returns."""
        with explained_want_of_memory(MODEL):
            self.restore()
        if finish_now:
            self.end_here()
        elif self.step < self.config.train_steps and not self.best.is_over:
            self.log = MetricsLog(self.folder, self.step, self.config.train_steps,
                                  is_chief(self.strategy), self.note)
            when = "within two more steps" if self.has_workers else "at the end of this step"
            if self.evaluator:
                when += ", after an evaluation if one is due"
            try:
                with (StopRequest(when) as stop, explained_loss_of_workers(),
                      explained_want_of_memory(STEP)):
                    self.run_steps(stop)
            finally:
                self.log.close()
        if self.average:
            self.average.put()
        return {"step": self.step, "evaluation": self.evaluation, "best": self.best.found}

    def end_here(self):
        """Evaluate what the last checkpoint holds, as if it were that of the last step."""
        if not self.step:
            raise UsageError(explain(f"finish_now, but no step of {self.folder} is saved",
                                     attempt="leaving it out"))
        if is_chief(self.strategy):
            print(f"finished after step {self.step} of {self.config.train_steps}")
        if self.evaluator and self.step < self.config.train_steps:
            with (explained_loss_of_workers(), explained_want_of_memory(STEP),
                  self.average.in_place() if self.average else contextlib.nullcontext()):
                self.evaluation = self.evaluator()

    def run_steps(self, stop):
        """Train until the last step or until a process is asked to stop."""
        iterator = iter(make_batches(
            self.strategy, lambda num_replicas, replicas: self.input_data.dataset(
                start_step=self.step, num_replicas=num_replicas, replicas=replicas)))
        previous = None
        self.restart_clock()
        while self.step < self.config.train_steps and not self.best.is_over:
            # From NumPy: TensorFlow keeps every Python number that it made a tensor of, for ever.
            results, self.loss_scale = self.train_step(
                iterator, tf.constant(np.int64(self.step)), tf.constant(stop.requested),
                self.loss_scale)
            self.step += 1
            self.unlogged_tokens.append(results["tokens"])
            # The step before this one: its scalars are there without waiting for the device.
            stopping = previous is not None and self.check(self.step - 1, previous)
            stopping |= self.heeds(stop)
            first, previous = previous is None, results
            due = [name for name in ("log", "eval", "checkpoint") if self.is_due(name)]
            if due or stopping:
                self.check(self.step, results)
            if "log" in due:
                self.write_metrics(results)
            if "eval" in due and self.evaluator:
                with self.average.in_place() if self.average else contextlib.nullcontext():
                    self.evaluate()
            if due:  # which may have taken long
                stopping |= self.heeds(stop)
            if "checkpoint" in due or stopping or self.best.is_over:
                self.save()
            if due or first:  # the first step's time is that of building its graph
                self.restart_clock()
            self.log.bar.update()
            if stopping:
                break
        # Whoever asked during the last step or its evaluation means what comes after it, too.
        if any_worker(self.strategy, stop.requested):  # all are here before the first one ends
            raise KeyboardInterrupt(
                f"step {self.step} of {self.config.train_steps} is saved in "
                f"{self.checkpoints.path(self.step)}; the same command resumes from there")

    def heeds(self, stop):
        """Return whether to stop here; workers stop by what a step has told them all."""
        return stop.requested and not self.has_workers

    def is_due(self, name):
        """Return whether a finished step is one of every `<name>_every`, or the last; or whether
        the last checkpoint is too long ago, of one worker: the clocks of several differ."""
        minutes = 0 if self.has_workers else self.config.checkpoint_minutes
        overdue = minutes and time.monotonic() - self.saved_at >= 60 * minutes
        return bool(self.step % getattr(self.config, f"{name}_every") == 0
                    or self.step == self.config.train_steps or (name == "checkpoint" and overdue))

    def restart_clock(self):
        """Measure the rate of the steps from here on."""
        self.clock = time.perf_counter()
        self.unlogged_tokens.clear()

    def check(self, step, results):
        """Return whether a process was asked to stop at `step`; BertTfError if its loss is not
        finite."""
        finite = math.isfinite(results["loss"]) and math.isfinite(results["gradient_norm"])
        if not finite and not results.get("loss_scale", 0) >= 1:
            last = (f"the last good checkpoint is {self.checkpoints.path(self.saved_step)}"
                    if self.saved_step is not None else "there is no checkpoint yet")
            hint = (f"a lower learning_rate (now {self.config.learning_rate:g}) or more "
                    f"warmup_steps (now {self.config.warmup_steps})")
            if self.config.dtype == "float16":
                hint += " or dtype=bfloat16"
            raise DivergedError(
                f"train loss is {_written(results['loss'])} at step {step}, gradient norm "
                f"{_written(results['gradient_norm'])}", f"; {explain(last, attempt=hint)}")
        return bool(results["stop"] > 0)

    def write_metrics(self, results):
        """Log the step that has just been made."""
        values = {name: float(value) for name, value in results.items()
                  if name not in ("tokens", "stop", "good_steps")}
        tokens = float(tf.add_n(self.unlogged_tokens))
        values["tokens_per_second"] = tokens / (time.perf_counter() - self.clock)
        tried_again(self.log.write, self.step, "train", values)

    def evaluate(self):
        """Evaluate, log, and remember the best."""
        self.complete_table()
        self.evaluation = self.evaluator()
        tried_again(self.log.write, self.step, "eval", self.evaluation)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.evaluation.items())
        self.log.print(f"step {self.step}, held out: {shown}")
        self.best.judge(self.step, self.evaluation, self.model)

    def complete_table(self):
        """Bring the rows that are trained into the model's table."""
        if self.rows:
            self.rows.put()

    def save(self):
        """Write a checkpoint of everything; the data position is the step."""
        # The run will not go back before what is saved, to write it again.
        tried_again(self.log.flush)
        self.complete_table()
        if is_chief(self.strategy):
            self.checkpoints.save(
                self.step,
                {variable.path: variable.value for variable in self.variables},
                {"loss_scale": {name: value.numpy().item()
                                for name, value in self.loss_scale.items()},
                 "evaluation": self.evaluation, **self.best.state,
                 "batch_size": self.config.batch_size, **self.parts})
        self.saved_step, self.saved_at = self.step, time.monotonic()
        self.best.discard_weights()

    def compare(self, state):
        """Note what changed since a checkpoint; the data position is a number of batches."""
        before = state.get("batch_size", self.config.batch_size)
        if before != self.config.batch_size:
            raise UsageError(explain(
                f"batch_size={self.config.batch_size}, but the run in {self.folder} has batches "
                f"of {before}: it would resume at another example",
                attempt=f"batch_size={before}"))
        state = {"parts side by side": 1, **state}  # which older ones do not say
        changed = [f"{now} {name} instead of {state[name]}"
                   for name, now in self.parts.items() if state.get(name, now) != now]
        if changed:
            self.note = (f"resumed with {', '.join(changed)}; batches and the position in the data "
                         "stay, sums are rounded in another order")
            if self.config.padding_free:
                self.note += ", and dropout draws other masks"

    def restore(self):
        """Go back to the newest sound checkpoint, if there is one."""
        if is_chief(self.strategy):
            with left_for_later():
                files.clean_temporary(self.checkpoints.folder)
        found = self.checkpoints.load_newest(print)
        check_agreement(self.strategy, found[1]["step"] if found else -1,
                        f"the step of the newest checkpoint in {self.checkpoints.folder}",
                        "a run folder on a file system that all workers share")
        if found is None:
            self.best.restore({})
            return
        tensors, state = found
        self.compare(state)
        self.step = self.saved_step = state["step"]
        if self.rows:
            tensors = self.rows.of_rows(self.variables, tensors)
        assign_variables(self.variables, tensors, self.checkpoints.path(self.step))
        if self.rows:
            self.rows.take()
        self.loss_scale = {name: tf.constant(state["loss_scale"][name], value.dtype)
                           for name, value in self.loss_scale.items()}
        self.evaluation = state["evaluation"]
        self.best.restore(state)
