"""The log of a run: `metrics.jsonl`, TensorBoard events, the progress bar."""

import contextlib
import json
import math
import os
import sys

import numpy as np
import tensorflow as tf
import tqdm

from bert_tf.errors import BertTfError
from bert_tf.storage import disk, files
from bert_tf.storage.mirror import Mirror
from bert_tf.storage.variables import explained_writing


class MetricsLog:
    """Writes one line a logged step to `metrics.jsonl` and the same numbers to TensorBoard.

    A line is `{"step": …, "split": "train" or "eval", …}`; no step has two lines of one split
    unless a mark `{"restart": step}` stands between them: the run went back to that step. The
    mark's `note` tells what is different from then on.

    Args:
        folder: the run folder; events go to `logs/train` and `logs/eval` in it.
        start_step: finished steps.
        train_steps: steps of the whole run.
        active: False for a process that writes nothing.
        note: a line about what changed at `start_step`, or None.
    """

    def __init__(self, folder, start_step, train_steps, active=True, note=None):
        self._active = active
        self._mirror = Mirror(folder, "metrics.jsonl") if active else None
        self._writers = {}
        terminal = sys.stderr.isatty()
        self.bar = tqdm.tqdm(total=train_steps, initial=start_step, unit="step", desc="training",
                             disable=not active, mininterval=0.2 if terminal else 10.0,
                             dynamic_ncols=terminal)
        if active:
            self._path = self._mirror.path("metrics.jsonl")
            self._mark_restart(start_step, note)
        if note:
            self.print(f"step {start_step}: {note}")

    def _mark_restart(self, step, note):
        files.make_folder(os.path.dirname(self._path))
        if not files.exists(self._path) or not files.size(self._path):
            return
        # The last write may have been truncated, or a power failure have left other bytes.
        lines = list(filter(_is_json, files.read_lines(self._path, "utf-8", errors="replace")))
        lines.append(json.dumps({"restart": step} | ({"note": note} if note else {})))
        files.write_text(self._path, "\n".join(lines) + "\n")

    def write(self, step, split, values):
        """Log `values`, plain numbers by name, at a step; after an error it can be repeated."""
        if not self._active:
            return
        with self._explained():
            if split not in self._writers:
                self._writers[split] = tf.summary.create_file_writer(
                    self._mirror.path("logs", split))
            # From NumPy: TensorFlow keeps every Python number that it made a tensor of, for ever.
            with self._writers[split].as_default(step=tf.constant(np.int64(step))):
                for name, value in values.items():
                    tf.summary.scalar(name, np.float32(value))
        # JSON has no NaN and no infinity. Last: an event may be there twice, a line may not.
        line = {name: value if math.isfinite(value) else None for name, value in values.items()}
        files.append_text(self._path, json.dumps({"step": step, "split": split, **line}) + "\n")
        if split == "train":
            self.bar.set_postfix_str(f"loss {values['loss']:.4f}", refresh=False)

    def flush(self):
        """See to it that what was logged is in the run folder: before the step is saved."""
        if self._active:
            with self._explained():
                for writer in self._writers.values():
                    writer.flush()
            if files.exists(self._path):  # else nothing was logged
                with files.explained("write", self._path):
                    disk.sync(self._path)
            self._mirror.flush()

    @contextlib.contextmanager
    def _explained(self):
        # A full disk is ResourceExhaustedError to TensorFlow, as is a want of memory.
        path = self._mirror.path("logs")
        try:
            with files.explained("write", path), explained_writing(path):
                yield
        except BertTfError:
            # A file of events may end in half of one now: the next attempt begins another.
            self._writers.clear()
            raise

    def print(self, text):
        """Print a line for the user without breaking the bar."""
        if self._active:
            self.bar.write(text, file=sys.stderr)

    def close(self):
        """Flush everything."""
        self.bar.close()
        if self._active:
            with self._explained():
                for writer in self._writers.values():
                    writer.close()
            self._mirror.close()


def _is_json(line):
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
