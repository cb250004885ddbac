"""LAMB."""

import keras
import tensorflow as tf

from bert_tf.training.optimizer_base import MomentOptimizer


@keras.saving.register_keras_serializable(package="bert_tf")
class Lamb(MomentOptimizer):
    """LAMB (You et al. 2020, "Large Batch Optimization", algorithm 2, phi the identity).

    The arguments are those of the shared base. As in the official code, a variable that is not
    decayed is not scaled by its trust ratio either.
    """

    def _update(self, gradient, variable, index, learning_rate, correction_1, correction_2):
        gradient = tf.cast(gradient, variable.dtype)
        first, second = self._first[index].value, self._second[index].value
        mean = first.assign_add((gradient - first) * (1 - self.beta_1))
        square = second.assign_add((tf.square(gradient) - second) * (1 - self.beta_2))
        update = (mean / correction_1) / (tf.sqrt(square / correction_2) + self.epsilon)
        ratio = 1.0
        if self._decayed[index]:
            update += (self.weight_decay or 0.0) * variable
            weight_norm, update_norm = tf.norm(variable), tf.norm(update)
            ratio = tf.where((weight_norm > 0) & (update_norm > 0),
                             tf.math.divide_no_nan(weight_norm, update_norm), 1.0)
        variable.assign_sub(learning_rate * ratio * update)
