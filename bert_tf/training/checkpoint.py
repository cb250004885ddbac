"""Checkpoints of a run: written whole or not at all, checked when read, the newest few kept.

A checkpoint is a folder `step_00000100` with a TensorFlow checkpoint of all tensors, keyed by our
names, and `state.json` with the rest of the run's state and each file's size and digest.
"""

import contextlib
import errno
import os
import re
import sys
import time

from bert_tf.errors import BertTfError, UnavailableError, UsageError, explain, print_note
from bert_tf.storage import checksums, files, local_copies
from bert_tf.storage.variables import read_variables, write_variables

_STATE = "state.json"
_TENSORS = "variables"
PAUSES = 10, 30, 60  # seconds, in which a disk may be cleared or a store be back


def tried_again(write, *arguments):
    """Return `write(*arguments)`; where a disk or a store is in the way once more after each of
    `PAUSES`, with a note, but for permissions, which time does not change. What another signal than
    the first one raises ends the waiting.

    Raises:
        UnavailableError: of the last attempt.
    """
    for pause in PAUSES:
        try:
            return write(*arguments)
        except UnavailableError as error:
            if getattr(error.__cause__, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            print_note(f"{error}; trying again in {pause} s", file=sys.stderr)
            time.sleep(pause)
    return write(*arguments)


@contextlib.contextmanager
def left_for_later(needed=lambda: False):
    """Go on where what nobody needs any more cannot be deleted now, with a note.

    Args:
        needed: called then; whether the error is raised all the same.
    """
    try:
        yield
    except UnavailableError as error:
        if needed():
            raise
        print_note(f"{error}; it is left for later", file=sys.stderr)


class Checkpoints:
    """The checkpoints in a folder.

    Args:
        folder: made where absent; only the writing process creates files in it.
        keep: number of newest checkpoints that `save` leaves; None for all.
    """

    def __init__(self, folder, keep=3):
        self.folder = folder
        self.keep = keep

    def steps(self):
        """Return the steps that have a checkpoint, sound or not, ascending."""
        matches = (re.fullmatch(r"step_(\d+)", name) for name in files.list_folder(self.folder))
        steps = (int(match[1]) for match in matches if match)
        return sorted(step for step in steps if files.is_whole(self.path(step)))

    def path(self, step):
        """Return the folder of a step's checkpoint."""
        return os.path.join(self.folder, f"step_{step:08d}")

    def save(self, step, tensors, state):
        """Write one checkpoint, as `tried_again` does, and delete the oldest ones but `keep`.

        Args:
            step: finished steps.
            tensors: `{name: tensor}`.
            state: further plain values.

        Raises:
            BertTfError: it cannot be written; earlier ones are kept.
        """
        tried_again(self._write, step, tensors, state)
        with left_for_later():  # the new one is whole
            # A damaged checkpoint that the run went back before is later than `step`: not counted.
            earlier = [old for old in self.steps() if old <= step]
            for old in earlier[:-self.keep] if self.keep else ():
                with left_for_later():
                    self._discard(old)

    def _write(self, step, tensors, state):
        self._discard(step)  # a damaged one, or that of an attempt whose end was not sure
        with files.atomic_path(self.path(step)) as temporary:
            files.make_folder(temporary)
            write_variables(os.path.join(temporary, _TENSORS), tensors)
            facts = checksums.facts(temporary, files.list_folder(temporary))
            checksums.write_sealed(os.path.join(temporary, _STATE),
                                   {"step": step, **state, "files": facts})

    def keep_only(self, step):
        """Delete all checkpoints but that of `step`; of None all, and none where it is missing."""
        steps = self.steps()
        if step is None or step in steps:
            for other in {*steps} - {step}:
                tried_again(self._discard, other)

    def _discard(self, step):
        """Delete a checkpoint, if it is there; what then is none any more may stay for a while."""
        path = self.path(step)
        if files.exists(path):
            with left_for_later(needed=lambda: files.is_whole(path)):
                files.discard(path)

    def load(self, step):
        """Read one checkpoint: `(tensors, state)`.

        Raises:
            BertTfError: a file is missing, truncated or changed.
        """
        with local_copies.staged(self.path(step)) as path:
            return self._load(step, path)

    def _load(self, step, path):
        state = checksums.read_sealed(os.path.join(path, _STATE))
        if state.get("step") != step or not isinstance(state.get("files"), dict):
            raise BertTfError(f"{path}/{_STATE}: invalid checkpoint state")
        checksums.check_files(path, state["files"])
        return read_variables(os.path.join(path, _TENSORS)), state

    def load_newest(self, report):
        """Load the newest sound checkpoint, `(tensors, state)`, or None where there is none at all.

        Args:
            report: called with a line about each damaged one that is passed over.

        Raises:
            BertTfError: there are checkpoints and all of them are damaged.
            UnavailableError: one cannot be read now.
        """
        errors = []
        for step in reversed(self.steps()):
            try:
                return self.load(step)
            except UnavailableError:
                raise  # it may be sound, and later steps are not to be made again
            except BertTfError as error:
                report(f"warning: {error}; falling back to the previous checkpoint")
                errors.append(f"({error})")
        if errors:
            raise BertTfError(explain(
                f"every checkpoint in {self.folder} is damaged {', '.join(errors)}",
                attempt="a copy of the folder, if there is one; as the last resort delete it, "
                        "which restarts the run from step 0"))
        return None


def refuse_loss(folders, attempt="another output folder"):
    """Refuse to delete checkpoints.

    Args:
        folders: those that checkpoints may be in.
        attempt: what keeps them.

    Raises:
        UsageError: some are; it says how many steps would be lost.
    """
    steps = {folder: found[-1] for folder in folders if (found := Checkpoints(folder).steps())}
    if steps:
        raise UsageError(explain(
            f"--overwrite would delete the checkpoints in {', '.join(steps)}: "
            f"{sum(steps.values()):,} steps of training would be lost",
            attempt=f"{attempt}, or --overwrite --discard_checkpoints"))


def run_variables(model, optimizer, average=None):
    """Return the Keras variables that a run must get back, those of its `WeightAverage` among them;
    random generators keep no state in a run.

    Raises:
        ValueError: two of them have one path.
    """
    variables = [*model.weights, *optimizer.variables, *(average.variables if average else ())]
    if len({variable.path for variable in variables}) != len(variables):
        raise ValueError("two variables have one path: name the model's layers apart")
    return variables
