"""AdamW."""

import keras
import tensorflow as tf

from bert_tf.training.optimizer_base import MomentOptimizer


@keras.saving.register_keras_serializable(package="bert_tf")
class AdamW(MomentOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay").

    The arguments are those of the shared base; epsilon is added to the root of the
    bias-corrected second moment, as in the paper's algorithm 2. Keras' own adds it to the
    uncorrected root, where it slows the first updates of a small gradient more.
    """

    def _factors(self, learning_rate):
        """Return the learning rate, what decay leaves of a weight, and the kernel's arguments."""
        learning_rate, correction_1, correction_2 = super()._factors(learning_rate)
        root, zero = tf.sqrt(correction_2), tf.constant(0.0)
        beta_1, beta_2 = (tf.constant(beta, tf.float32) for beta in (self.beta_1, self.beta_2))
        # With powers of 0 the kernel corrects nothing itself; its epsilon stands beside the
        # uncorrected root, so both move into its two factors.
        return learning_rate, 1 - learning_rate * (self.weight_decay or 0.0), {
            "beta1_power": zero, "beta2_power": zero, "beta1": beta_1, "beta2": beta_2,
            "lr": learning_rate * root / correction_1, "epsilon": self.epsilon * root}

    def _update(self, gradient, variable, index, learning_rate, kept, factors):
        self._decay(variable, index, kept)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=self._first[index].value.handle,
            v=self._second[index].value.handle, grad=tf.cast(gradient, variable.dtype), **factors)

    def _decay(self, variable, index, kept):
        """Decay a variable, if it is to be."""
        if self.weight_decay and self._decayed[index]:
            # Not assign_sub, which goes through memory once more.
            variable.assign(variable * kept)
