"""What our optimizers share: Keras optimizers with few operations a variable.

They decay weights directly, biases and LayerNorm excepted. `apply_reduced` is for a loop that
reduces and clips gradients itself: Keras' own `apply` would sum them over the replicas once more.
"""

import math
import re

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain

# google-research/bert's optimization.py; `beta` and `gamma` lie under LayerNorm.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


class DecoupledOptimizer(keras.optimizers.Optimizer):
    """Common base: decoupled decay, learning rates by variable.

    A subclass has `add_state(variables)`, which makes the variables of its state, and
    `_update(gradient, variable, index, *factors)` with what `_factors` returns: computed once for
    all variables of one rate.

    Args:
        learning_rate: number or schedule.
        weight_decay: fraction of a weight, times the learning rate, taken off at each update; None
            or 0 for none.
        not_decayed: regular expressions; a variable with a match in its path is not decayed, nor
            is what `exclude_from_weight_decay` names.
        rates: `(regular expression, factor)` pairs: of the first that matches a variable's path
            the factor multiplies its learning rate, and with it the decay; 1 without a match.
        name: of the optimizer.
        kwargs: of `keras.optimizers.Optimizer`, for use with `compile` and `fit`.
    """

    OPTIONS = ()  # further arguments, which are fields of `TrainConfig`, too

    def __init__(self, learning_rate=1e-4, weight_decay=0.01, not_decayed=NOT_DECAYED, rates=(),
                 name=None, **kwargs):
        # Keras would number the names, and with them the variables' paths in a checkpoint.
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay,
                         name=name or type(self).__name__.lower(), **kwargs)
        self.not_decayed = tuple(not_decayed)
        self.rates = tuple((pattern, float(factor)) for pattern, factor in rates)

    def build(self, variables):
        """Create the state of each of the Keras `variables`, float32 zeros.

        Raises:
            UsageError: a variable is not float32.
        """
        if self.built:
            return
        for variable in variables:
            if variable.dtype != "float32":
                raise UsageError(explain(
                    f"{variable.path} is {variable.dtype}", "float32",
                    "a model of dtype='mixed_bfloat16', which computes in half precision alone"))
        super().build(variables)
        self.add_state(variables)
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
        index = self._get_variable_index(variable)
        self._update_after(gradient, variable, index, *self._factors(
            tf.cast(learning_rate, tf.float32) * self._rates[index]))

    def apply_reduced(self, strategy, gradients, variables):
        """Update `variables` once from gradients that are already summed and clipped.

        To be called in the cross-replica context, for instance in a `tf.function` after
        `strategy.run`.

        Args:
            strategy: the `tf.distribute.Strategy` that the variables were made under.
            gradients: dense, as `strategy.run` returned them, the same on every replica.
            variables: the Keras variables that `build` was called with, in the same order.
        """
        learning_rate = tf.cast(self.learning_rate, tf.float32)
        factors = {rate: self._factors(learning_rate * rate) for rate in set(self._rates)}
        for index, (gradient, variable, rate) in enumerate(
                zip(gradients, variables, self._rates, strict=True)):
            strategy.extended.update(
                variable.value,
                lambda local, gradient, *factors, index=index: self._update_after(
                    gradient, local, index, *factors),
                args=(gradient, *factors[rate]), group=False)
        self.iterations.assign_add(1)

    def _update_after(self, gradient, variable, index, *factors):
        """Update a variable, computing nothing of it before its gradient is there: TensorFlow would
        decay all weights as a step begins, and hold them beside the old ones until it ends."""
        with tf.control_dependencies([gradient]):
            self._update(gradient, variable, index, *factors)

    def _apply_weight_decay(self, variables):
        """Do nothing: Keras would decay here by its own exclusions; `_update` does it by ours."""

    def _factors(self, learning_rate):
        """Return what is the same for all variables of a learning rate, float32, in this update."""
        return (learning_rate,)

    def get_config(self):
        return {**super().get_config(), **{name: getattr(self, name) for name in self.OPTIONS},
                "not_decayed": list(self.not_decayed), "rates": [list(pair) for pair in self.rates]}


class MomentOptimizer(DecoupledOptimizer):
    """The same with two moments of the gradient and their bias correction.

    Args:
        learning_rate, weight_decay, not_decayed, rates, name, kwargs: as of the base.
        beta_1, beta_2: decay of the means of the gradient and of its square.
        epsilon: added to the root of the bias-corrected second moment.
    """

    OPTIONS = ("beta_1", "beta_2", "epsilon")

    def __init__(self, learning_rate=1e-4, beta_1=0.9, beta_2=0.999, epsilon=1e-6,
                 weight_decay=0.01, not_decayed=NOT_DECAYED, rates=(), name=None, **kwargs):
        super().__init__(learning_rate, weight_decay, not_decayed, rates, name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def add_state(self, variables):
        """Create both moments of each variable."""
        self._first, self._second = self.add_optimizer_variables(variables, ["m", "v"])

    def _factors(self, learning_rate):
        """Return the learning rate and both bias corrections, `1 - beta ** n` of update n."""
        number = tf.cast(self.iterations + 1, tf.float32)
        # expm1 keeps the digits that 1 - 0.999 loses.
        corrections = [-tf.math.expm1(number * math.log(beta)) if beta else tf.ones_like(number)
                       for beta in (self.beta_1, self.beta_2)]
        return *super()._factors(learning_rate), *corrections
