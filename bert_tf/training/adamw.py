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

    def _update(self, gradient, variable, learning_rate, correction_1, correction_2):
        index = self._get_variable_index(variable)
        learning_rate *= self._rates[index]
        self._decay(index, variable, learning_rate)
        root = tf.sqrt(correction_2)
        # With powers of 0 the kernel corrects nothing itself; its epsilon stands beside the
        # uncorrected root, so both move into its two factors.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=self._first[index].value.handle,
            v=self._second[index].value.handle, beta1_power=0.0, beta2_power=0.0,
            lr=learning_rate * root / correction_1, beta1=self.beta_1, beta2=self.beta_2,
            epsilon=self.epsilon * root, grad=tf.cast(gradient, variable.dtype))
