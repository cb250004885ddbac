"""AdamW and LAMB as Keras optimizers with few operations a variable.

Both keep two moments of the gradient and decay the weights directly, biases and LayerNorm
excepted. `apply_reduced` is for a loop that reduces and clips gradients itself: Keras' own
`apply` would sum them over the replicas once more.
"""

import math
import re

import keras
import tensorflow as tf

from bert_tf.training.schedules import build_schedule

# google-research/bert's optimization.py; `beta` and `gamma` lie under LayerNorm.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


class _MomentOptimizer(keras.optimizers.Optimizer):
    """Common base of AdamW and LAMB: two moments, bias correction, decoupled decay.

    Args:
        learning_rate: number or schedule.
        beta_1, beta_2: decay of the means of the gradient and of its square.
        epsilon: added to the root of the bias-corrected second moment.
        weight_decay: fraction of a weight, times the learning rate, taken off at each update; None
            or 0 for none.
        not_decayed: regular expressions; a variable with a match in its path is not decayed, nor
            is what `exclude_from_weight_decay` names.
        rates: `(regular expression, factor)` pairs: of the first that matches a variable's path
            the factor multiplies its learning rate, and with it the decay; 1 without a match.
        name: of the optimizer.
        kwargs: of `keras.optimizers.Optimizer`, for use with `compile` and `fit`.
    """

    def __init__(self, learning_rate=1e-4, beta_1=0.9, beta_2=0.999, epsilon=1e-6,
                 weight_decay=0.01, not_decayed=NOT_DECAYED, rates=(), name=None,
                 **kwargs):
        # Keras would number the names, and with them the variables' paths in a checkpoint.
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay,
                         name=name or type(self).__name__.lower(), **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.not_decayed = tuple(not_decayed)
        self.rates = tuple((pattern, float(factor)) for pattern, factor in rates)

    def build(self, variables):
        """Create both moments of each of the Keras `variables`, float32 zeros."""
        if self.built:
            return
        super().build(variables)
        self._first, self._second = self.add_optimizer_variables(variables, ["m", "v"])
        self._decayed = [self._use_weight_decay(variable.value)
                         and not any(re.search(pattern, variable.path)
                                     for pattern in self.not_decayed) for variable in variables]
        self._rates = [next((factor for pattern, factor in self.rates
                             if re.search(pattern, variable.path)), 1.0) for variable in variables]

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """See Keras; called before `build`, which settles what is decayed.

        Raises:
            ValueError: the optimizer is built.
        """
        if self.built:
            raise ValueError("exclude_from_weight_decay after build has no effect; expected "
                             "it before the first update")
        super().exclude_from_weight_decay(var_list, var_names)

    def update_step(self, gradient, variable, learning_rate):
        """Update one variable from its reduced gradient. See Keras."""
        self._update(gradient, variable, *self._factors(learning_rate))

    def apply_reduced(self, strategy, gradients, variables):
        """Update `variables` once from gradients that are already summed and clipped.

        To be called in the cross-replica context, for instance in a `tf.function` after
        `strategy.run`.

        Args:
            strategy: the `tf.distribute.Strategy` that the variables were made under.
            gradients: dense, as `strategy.run` returned them, the same on every replica.
            variables: the Keras variables that `build` was called with.
        """
        factors = self._factors(self.learning_rate)
        for gradient, variable in zip(gradients, variables, strict=True):
            strategy.extended.update(
                variable.value,
                lambda local, gradient, *factors: self._update(gradient, local, *factors),
                args=(gradient, *factors), group=False)
        self.iterations.assign_add(1)

    def _apply_weight_decay(self, variables):
        """Do nothing: Keras would decay here by its own exclusions; `_update` does it by ours."""

    def _factors(self, learning_rate):
        """Return the learning rate and both bias corrections `1 - beta ** n` of this update,
        float32."""
        number = tf.cast(self.iterations + 1, tf.float32)
        # expm1 keeps the digits that 1 - 0.999 loses.
        corrections = [-tf.math.expm1(number * math.log(beta)) if beta else tf.ones_like(number)
                       for beta in (self.beta_1, self.beta_2)]
        return tf.cast(learning_rate, tf.float32), *corrections

    def get_config(self):
        return {**super().get_config(), "beta_1": self.beta_1, "beta_2": self.beta_2,
                "epsilon": self.epsilon, "not_decayed": list(self.not_decayed),
                "rates": [list(pair) for pair in self.rates]}


@keras.saving.register_keras_serializable(package="bert_tf")
class AdamW(_MomentOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay").

    The arguments are those of the shared base; epsilon is added to the root of the
    bias-corrected second moment, as in the paper's algorithm 2.
    """

    def _update(self, gradient, variable, learning_rate, correction_1, correction_2):
        index = self._get_variable_index(variable)
        learning_rate *= self._rates[index]
        if self.weight_decay and self._decayed[index]:
            # Not assign_sub, which goes through memory once more.
            variable.assign(variable * (1 - learning_rate * self.weight_decay))
        root = tf.sqrt(correction_2)
        # With powers of 0 the kernel corrects nothing itself; its epsilon stands beside the
        # uncorrected root, so both move into its two factors.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=self._first[index].value.handle,
            v=self._second[index].value.handle, beta1_power=0.0, beta2_power=0.0,
            lr=learning_rate * root / correction_1, beta1=self.beta_1, beta2=self.beta_2,
            epsilon=self.epsilon * root, grad=tf.cast(gradient, variable.dtype))


@keras.saving.register_keras_serializable(package="bert_tf")
class Lamb(_MomentOptimizer):
    """LAMB (You et al. 2020, "Large Batch Optimization", algorithm 2, phi the identity).

    The arguments are those of the shared base. As in the official code, a variable that is not
    decayed is not scaled by its trust ratio either.
    """

    def _update(self, gradient, variable, learning_rate, correction_1, correction_2):
        index = self._get_variable_index(variable)
        learning_rate *= self._rates[index]
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


OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


def build_optimizer(config, rates=()):
    """Build the optimizer and schedule that a `TrainConfig` names; call it in the strategy's scope.

    Args:
        config: the `TrainConfig`.
        rates: factors of the learning rate by variable, as of `AdamW`.
    """
    return OPTIMIZERS[config.optimizer](
        build_schedule(config), beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon,
        weight_decay=config.weight_decay, rates=rates)
