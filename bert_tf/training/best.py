"""The best evaluation of a run: which it is, its weights, and for how long none was better."""

import math
import os

from bert_tf.errors import BertTfError, UnavailableError, explain
from bert_tf.storage import files
from bert_tf.training.checkpoint import Checkpoints, left_for_later

BEST = "best"  # folder of the weights of the best evaluation


def is_better(better, figure, best):
    """Return whether `figure` is better than `best` by `min` or `max`; any number is better than
    nan."""
    if math.isnan(figure) or math.isnan(best):
        return math.isnan(best) and not math.isnan(figure)
    return better(best, figure) != best


def best_weights(folder):
    """Load `{path: array}` of the model at its best evaluation, of a run folder with `keep_best`.

    Raises:
        BertTfError: there are none, or they are damaged.
    """
    path = os.path.join(folder, BEST)
    try:
        found = Checkpoints(path).load_newest(print)
    except UnavailableError:
        raise
    except BertTfError as error:
        raise BertTfError(explain(
            f"the weights in {path} are damaged", attempt="deleting it and the folder checkpoints "
            "beside it, which restarts the run from step 0")) from error
    if found is None:
        raise BertTfError(f"{folder} holds no weights of a best evaluation")
    return found[0]


class BestEvaluation:
    """The best evaluation so far.

    Args:
        folder: run folder.
        monitor, patience: as `training.loop.train` takes them.
        keep: keep its weights; of several workers only the chief does.
    """

    def __init__(self, folder, monitor=("loss", min), keep=False, patience=None):
        self._checkpoints = Checkpoints(os.path.join(folder, BEST), keep=None)
        self._monitor = monitor
        self._keep = keep
        self._patience = patience
        self._no_better = 0  # evaluations in a row that were no better
        self.found = None  # the evaluation, with its `step`

    @property
    def is_over(self):
        """Whether too many evaluations were no better than the best."""
        return self._patience is not None and self._no_better >= self._patience

    @property
    def state(self):
        """What a checkpoint of the run holds of it."""
        return {"best": self.found, "no_better": self._no_better}

    def restore(self, state):
        """Go back to the `state` of a checkpoint, or with `{}` to the start."""
        self.found = state.get("best")
        self._no_better = state.get("no_better", 0)
        if self._keep:
            with left_for_later():
                files.clean_temporary(self._checkpoints.folder)
        self.discard_weights()

    def judge(self, step, evaluation, model):
        """Remember an evaluation of `model`, and its weights, where none before it was better.

        Of equals it is the last: labels that are rare have an F1 of 0 for epochs, as for a model
        that has learned nothing.
        """
        name, better = self._monitor
        # A checkpoint of an earlier version may lack the figure that decides now.
        figure, best = evaluation[name], (self.found or {}).get(name, math.nan)
        self._no_better += 1
        if not self.found or is_better(better, figure, best):
            self._no_better = 0
        elif is_better(better, best, figure):
            return
        self.found = {"step": step, **evaluation}
        if self._keep:
            self._checkpoints.save(
                step, {variable.path: variable.value for variable in model.weights}, {})

    def discard_weights(self):
        """Delete the weights of all evaluations but the best that a checkpoint knows, or none: a
        run that goes back to it need not find the same."""
        if self._keep:
            self._checkpoints.keep_only(self.found and self.found["step"])
