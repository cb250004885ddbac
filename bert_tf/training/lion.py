"""Lion."""

import keras
import tensorflow as tf

from bert_tf.training.optimizer_base import NOT_DECAYED, DecoupledOptimizer


@keras.saving.register_keras_serializable(package="bert_tf")
class Lion(DecoupledOptimizer):
    """Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2).

    Every weight goes a learning rate up or down, so that the rate should be 3 to 10 times lower
    than AdamW's and the decay as much higher (section 5); the state is half of AdamW's. A gradient
    that is nothing but rounding has a sign, too, which another number of replicas may change.

    Args:
        learning_rate, weight_decay, not_decayed, rates, name, kwargs: as of the shared base.
        beta_1: weight of the mean of gradients, beside the gradient, in the sign of the update.
        beta_2: decay of that mean.
    """

    OPTIONS = ("beta_1", "beta_2")

    def __init__(self, learning_rate=1e-5, beta_1=0.9, beta_2=0.99, weight_decay=0.1,
                 not_decayed=NOT_DECAYED, rates=(), name=None, **kwargs):
        super().__init__(learning_rate, weight_decay, not_decayed, rates, name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def add_state(self, variables):
        """Create the mean of each variable's gradients."""
        self._mean = self.add_optimizer_variables(variables, "m")

    def _update(self, gradient, variable, index, learning_rate):
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        mean = self._mean[index].value
        update = tf.sign(self.beta_1 * mean + (1 - self.beta_1) * gradient)
        if self.weight_decay and self._decayed[index]:
            update += self.weight_decay * variable
        variable.assign_sub(learning_rate * update)
        mean.assign(self.beta_2 * mean + (1 - self.beta_2) * gradient)
