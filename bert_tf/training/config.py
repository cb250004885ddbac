"""Options of a training run: one frozen set of fields, saved as `train_config.json`."""

import dataclasses
import math

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.fields import Config

OPTIMIZERS = ("adamw", "lamb", "lion", "muon")
# What an optimizer's paper recommends instead of the defaults below.
RECOMMENDED = {"lion": {"beta_2": 0.99, "weight_decay": 0.1}}
RATES = {"lion": 0.1}  # learning rate beside that of AdamW
SCHEDULES = ("linear", "cosine", "trapezoid")
STRATEGIES = ("mirrored", "one_device", "multi_worker")
DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """Hyperparameters of a run; the defaults are the BERT paper's (A.2) where small models allow.

    Raises:
        UsageError: a value is out of range or two values contradict each other.
    """

    train_steps: int = 1000  # optimizer steps of the whole run
    batch_size: int = 32  # examples a step, over all replicas and micro-batches
    learning_rate: float = 1e-4  # peak, reached at the end of the warm-up
    warmup_steps: int = 0  # steps of linear warm-up
    schedule: str = "linear"  # how the learning rate falls to 0 after the warm-up
    decay_ratio: float = 0.2  # last fraction of the steps, in which a trapezoid falls
    optimizer: str = "adamw"  # of OPTIMIZERS
    beta_1: float = 0.9  # decay of the mean of gradients
    beta_2: float = 0.999  # decay of the mean of squared gradients
    epsilon: float = 1e-6  # added to the root of the latter
    weight_decay: float = 0.01  # decoupled; biases and LayerNorm are excluded
    adamw_rate: float = 1.0  # muon: factor of the learning rate of all but matrices
    clip_norm: float = 1.0  # largest global norm of the reduced gradients
    ema_decay: float = 0.0  # of the average of weights that is evaluated and saved; 0 for none
    accumulate_steps: int = 1  # micro-batches that a replica's part of a batch is split into
    dtype: str = "float32"  # what layers compute in; weights are float32 always
    padding_free: bool = False  # real tokens only; dropout depends on the parts of a batch
    gradient_checkpointing: bool = False  # keep the layers' inputs alone for the backward pass
    strategy: str = "mirrored"  # one of STRATEGIES
    seed: int = 12345  # of every random draw
    log_every: int = 10  # steps between lines of metrics.jsonl
    eval_every: int = 500  # steps between held-out evaluations; the last step has one always
    checkpoint_every: int = 500  # steps between checkpoints; the last step has one always
    checkpoint_minutes: float = 10.0  # after which there is one in any case, of one worker; 0: none
    keep_checkpoints: int = 3  # newest checkpoints that are kept

    def __post_init__(self):
        super().__post_init__()
        self._refuse(("train_steps", "batch_size", "accumulate_steps", "log_every", "eval_every",
                      "checkpoint_every", "keep_checkpoints"),
                     lambda value: value >= 1, "at least 1")
        self._refuse(("learning_rate", "epsilon", "adamw_rate", "clip_norm"),
                     lambda value: 0 < value < math.inf, "above 0")
        self._refuse(("beta_1", "beta_2", "decay_ratio", "ema_decay"),
                     lambda value: 0 <= value < 1, "in [0, 1)")
        self._refuse(("weight_decay", "checkpoint_minutes"), lambda value: 0 <= value < math.inf,
                     "at least 0")
        self._refuse(("seed",), lambda value: 0 <= value < 2**31, "in [0, 2**31)")
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("dtype", self.dtype, DTYPES)
        if not 0 <= self.warmup_steps <= self.train_steps:
            raise UsageError(explain(f"warmup_steps={self.warmup_steps}",
                                     f"0 to train_steps={self.train_steps}",
                                     f"warmup_steps={self.train_steps // 10}"))
        if self.schedule == "trapezoid" and self.warmup_steps + self.decay_steps > self.train_steps:
            raise UsageError(explain(
                f"schedule='trapezoid' with warmup_steps={self.warmup_steps} and decay_ratio="
                f"{self.decay_ratio}, {self.decay_steps} steps, exceeds train_steps="
                f"{self.train_steps}", attempt="fewer warmup_steps or a lower decay_ratio"))
        if self.batch_size % self.accumulate_steps:
            near = -(-self.batch_size // self.accumulate_steps) * self.accumulate_steps
            raise UsageError(explain(
                f"batch_size={self.batch_size} in accumulate_steps={self.accumulate_steps} "
                "micro-batches does not divide evenly", attempt=f"batch_size={near}"))

    @property
    def decay_steps(self):
        """Last steps, in which a trapezoid falls."""
        return round(self.decay_ratio * self.train_steps)

    @property
    def policy(self):
        """The Keras policy of `dtype`, to build the model with."""
        return keras_policy(self.dtype)


def keras_policy(dtype):
    """Return the name of the Keras policy of one of `DTYPES`, whose weights are float32."""
    return dtype if dtype == "float32" else f"mixed_{dtype}"
