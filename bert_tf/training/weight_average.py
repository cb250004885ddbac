"""An exponential average of weights, which is what a run with one evaluates and saves."""

import contextlib

import keras
import tensorflow as tf


class WeightAverage:
    """The exponential average of variables over the updates so far.

    The n-th update moves it `1 - min(decay, (1 + n) / (10 + n))` of the way, so that it forgets
    the initial weights soon (as `tf.train.ExponentialMovingAverage` with `num_updates`).

    Args:
        weights: Keras variables; to be called in the scope of their strategy.
        decay: in (0, 1).

    Attributes:
        variables: the averages, Keras variables in the order of `weights`.
    """

    def __init__(self, weights, decay):
        self.weights = weights
        self.decay = decay
        with keras.name_scope("average"):
            self.variables = [
                keras.Variable(weight.numpy(), trainable=False, name=weight.path.replace("/", "_"))
                for weight in weights]

    def update(self, strategy, number):
        """Take in the weights after update `number`, counted from 1, in the cross-replica context.

        Args:
            strategy: the `tf.distribute.Strategy`.
            number: scalar tensor.
        """
        number = tf.cast(number, tf.float32)
        step = 1 - tf.minimum(self.decay, (1 + number) / (10 + number))
        for average, weight in zip(self.variables, self.weights, strict=True):
            strategy.extended.update(
                average.value,
                lambda local, weight, step: local.assign_add(step * (weight - local)),
                args=(weight.value, step), group=False)

    def put(self):
        """Give the weights the averages' values, for good."""
        for average, weight in zip(self.variables, self.weights, strict=True):
            weight.assign(average.numpy())

    @contextlib.contextmanager
    def in_place(self):
        """Give the weights the averages' values for a while."""
        kept = [weight.numpy() for weight in self.weights]
        self.put()
        try:
            yield
        finally:
            for weight, value in zip(self.weights, kept, strict=True):
                weight.assign(value)
