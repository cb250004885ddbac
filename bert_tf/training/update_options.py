"""Options of how weights are updated, for commands that leave it to their users."""

import dataclasses

from bert_tf.options import ABOVE_0, FRACTION, NOT_NEGATIVE, Options, option
from bert_tf.training.config import OPTIMIZERS, SCHEDULES, TrainConfig

_USUAL = TrainConfig()


def _usual(name, help, within):
    """Declare an option that stands in for a `TrainConfig` default; runs from before it go on."""
    return option(None, f"{help} (default: {getattr(_USUAL, name):g})", within, metavar="X")


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateOptions(Options):
    """How weights are updated; fields of `TrainConfig`, None for its defaults."""

    GROUP = ("updates of the weights", None)

    optimizer: str = option("adamw", "optimizer", choices=OPTIMIZERS)
    schedule: str | None = option(
        None, "how the learning rate goes on from the end of the warm-up: linear and cosine fall "
              "to 0, trapezoid stays and falls at the end (default: linear)", choices=SCHEDULES)
    decay_ratio: float | None = _usual(
        "decay_ratio", "last fraction of the steps, in which a trapezoid falls to 0", FRACTION)
    beta_1: float | None = _usual("beta_1", "decay of the mean of gradients", FRACTION)
    beta_2: float | None = _usual("beta_2", "decay of the mean of squared gradients", FRACTION)
    epsilon: float | None = _usual("epsilon", "added to the root of the latter", ABOVE_0)
    weight_decay: float | None = _usual(
        "weight_decay", "decoupled; biases and LayerNorm are excluded", NOT_NEGATIVE)
    clip_norm: float | None = _usual(
        "clip_norm", "largest norm of all gradients together", ABOVE_0)
