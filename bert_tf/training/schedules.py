"""Learning rate as a function of the number of updates made so far."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="bert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to the peak, then linear decay to 0 (BERT, A.2).

    Of the updates `n = 1 … train_steps`, update `warmup_steps` has the peak, the first one
    `peak / warmup_steps`, and the straight line after the peak meets 0 one update after the
    last, so that no update is lost.

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
        end = self.train_steps + 1
        falling = (end - number) / (end - self.warmup_steps)
        return self.peak * tf.clip_by_value(tf.where(number < self.warmup_steps, rising, falling),
                                            0.0, 1.0)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps,
                "train_steps": self.train_steps}
