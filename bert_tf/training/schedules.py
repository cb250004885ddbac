"""Learning rate as a function of the number of updates made so far."""

import math

import keras
import tensorflow as tf


class _Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Common base: linear warm-up to the peak, then what a subclass says.

    Of the updates `n = 1 … train_steps`, update `warmup_steps` has the peak, the first one
    `peak / warmup_steps`, and what falls after the peak meets 0 one update after the last, so
    that no update is lost. Of an optimizer with `gradient_accumulation_steps` Keras counts batches
    for a schedule, not updates: `warmup_steps` and `train_steps` are numbers of batches then.

    Args:
        peak: learning rate at the end of the warm-up.
        warmup_steps: updates of the warm-up; 0 for none.
        train_steps: updates of the whole run.
    """

    def __init__(self, peak, warmup_steps, train_steps):
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.train_steps = train_steps

    def __call__(self, step):
        """Return the learning rate (float32) of the update after `step` earlier ones."""
        number = tf.cast(step, tf.float32) + 1.0
        rising = number / max(self.warmup_steps, 1)
        return self.peak * tf.clip_by_value(
            tf.where(number < self.warmup_steps, rising, self._after(number)), 0.0, 1.0)

    def _left(self, number, since):
        """Return what is left, 1 to 0, of the way from update `since` to the end."""
        end = self.train_steps + 1
        return (end - number) / (end - since)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps,
                "train_steps": self.train_steps}


@keras.saving.register_keras_serializable(package="bert_tf")
class WarmupLinearDecay(_Warmup):
    """Linear warm-up to the peak, then linear decay to 0 (BERT, A.2).

    The arguments are those of the shared base.
    """

    def _after(self, number):
        return self._left(number, self.warmup_steps)


@keras.saving.register_keras_serializable(package="bert_tf")
class WarmupCosineDecay(_Warmup):
    """Linear warm-up to the peak, then half a wave of a cosine down to 0.

    Loshchilov and Hutter 2017, "SGDR", equation 5 without restarts. The arguments are those of the
    shared base.
    """

    def _after(self, number):
        left = tf.clip_by_value(self._left(number, self.warmup_steps), 0.0, 1.0)
        return 0.5 - 0.5 * tf.cos(math.pi * left)


@keras.saving.register_keras_serializable(package="bert_tf")
class WarmupStableDecay(_Warmup):
    """Linear warm-up to the peak, which stays, and linear decay to 0 at the end.

    A trapezoid (Zhai et al. 2022, "Scaling Vision Transformers", section 3.5; Hu et al. 2024,
    "MiniCPM", section 4). Where it falls right after the warm-up it is `WarmupLinearDecay`.

    Args:
        peak, warmup_steps, train_steps: as of the shared base.
        decay_steps: last updates, that are below the peak.
    """

    def __init__(self, peak, warmup_steps, train_steps, decay_steps):
        super().__init__(peak, warmup_steps, train_steps)
        self.decay_steps = decay_steps

    def _after(self, number):
        return self._left(number, self.train_steps - self.decay_steps)

    def get_config(self):
        return {**super().get_config(), "decay_steps": self.decay_steps}


SCHEDULES = {"linear": WarmupLinearDecay, "cosine": WarmupCosineDecay,
             "trapezoid": WarmupStableDecay}


def build_schedule(config):
    """Build the schedule that a `TrainConfig` names."""
    decay = {"decay_steps": config.decay_steps} if config.schedule == "trapezoid" else {}
    return SCHEDULES[config.schedule](config.learning_rate, config.warmup_steps,
                                      config.train_steps, **decay)
