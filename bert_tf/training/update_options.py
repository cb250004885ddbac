"""Options of how weights are updated, for commands that leave it to their users."""

import dataclasses

from bert_tf.options import ABOVE_0, FRACTION, NOT_NEGATIVE, Options, option
from bert_tf.training.config import OPTIMIZERS, RECOMMENDED, SCHEDULES, TrainConfig

_USUAL = TrainConfig()
# Options that only some have.
_OF_SOME = (("decay_ratio", "schedule", ("trapezoid",)), ("adamw_rate", "optimizer", ("muon",)),
            ("epsilon", "optimizer", ("adamw", "lamb", "muon")))


def _usual(name, help, within):
    """Declare an option that stands in for a `TrainConfig` default; runs from before it go on."""
    defaults = [f"{getattr(_USUAL, name):g}"] + [
        f"{values[name]:g} of {optimizer}" for optimizer, values in RECOMMENDED.items()
        if name in values]
    return option(None, f"{help} (default: {', '.join(defaults)})", within, metavar="X")


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateOptions(Options):
    """How weights are updated; fields of `TrainConfig`, None for its defaults."""

    GROUP = ("updates of the weights", None)

    optimizer: str = option(
        "adamw", "muon: matrices of the blocks by orthogonal updates, the rest by AdamW",
        choices=OPTIMIZERS)
    schedule: str | None = option(
        None, "how the learning rate goes on from the end of the warm-up: linear and cosine fall "
              "to 0, trapezoid stays and falls at the end (default: linear)", choices=SCHEDULES)
    decay_ratio: float | None = _usual(
        "decay_ratio", "last fraction of the steps, in which a trapezoid falls to 0", FRACTION)
    beta_1: float | None = _usual("beta_1", "decay of the mean of gradients", FRACTION)
    beta_2: float | None = _usual(
        "beta_2", "decay of the mean of squared gradients; of lion of the mean that it keeps",
        FRACTION)
    epsilon: float | None = _usual("epsilon", "added to the root of the latter", ABOVE_0)
    weight_decay: float | None = _usual(
        "weight_decay", "decoupled; biases and LayerNorm are excluded", NOT_NEGATIVE)
    adamw_rate: float | None = _usual(
        "adamw_rate", "of muon, factor of the learning rate of what AdamW updates", ABOVE_0)
    clip_norm: float | None = _usual(
        "clip_norm", "largest norm of all gradients together", ABOVE_0)
    ema_decay: float = option(
        0.0, "decay of an exponential average of the weights, which is evaluated, saved and "
             "exported in their place; 0: none", FRACTION, metavar="X")

    def without_meaning(self):
        """The options that are given and that the chosen optimizer or schedule does not have.

        Returns: `(name, what has it)` of each.
        """
        return [(name, f"--{choice} {' or '.join(values)}")
                for name, choice, values in _OF_SOME
                if getattr(self, name) is not None
                and (getattr(self, choice) or getattr(_USUAL, choice)) not in values]
