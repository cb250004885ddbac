"""Muon: matrices by an orthogonal update, everything else by AdamW."""

import math
import re

import keras
import tensorflow as tf

from bert_tf.training.adamw import AdamW
from bert_tf.training.optimizer_base import NOT_DECAYED

# The matrices of the blocks. Embeddings and heads are tables of rows that are seldom seen.
ORTHOGONALIZED = (r"/(layer|group)_\d+/.*kernel$",)
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan et al.: largest slope at 0 that stays near 1
_RMS = 0.2  # of an AdamW update in practice


def orthogonalize(matrix, dtype=tf.float32):
    """Replace the singular values of a matrix by values near 1, by five Newton-Schulz iterations.

    Args:
        matrix: float32 `[rows, columns]`.
        dtype: what the iterations are computed in.

    Returns: float32, of the same shape; a matrix of zeros stays as it is.
    """
    a, b, c = _COEFFICIENTS
    rows, columns = matrix.shape
    product = matrix / (tf.norm(matrix) + 1e-7)
    product = tf.cast(tf.transpose(product) if rows > columns else product, dtype)
    for _ in range(5):
        gram = tf.matmul(product, product, transpose_b=True)
        product = a * product + tf.matmul(b * gram + c * tf.matmul(gram, gram), product)
    product = tf.cast(product, matrix.dtype)
    return tf.transpose(product) if rows > columns else product


@keras.saving.register_keras_serializable(package="bert_tf")
class Muon(AdamW):
    """Muon (Jordan et al. 2024) with the scale and decay of Liu et al. 2025, "Muon is Scalable".

    A matrix goes along its momentum made orthogonal, times `0.2 * sqrt(max(rows, columns))`
    (equation 4), so that an AdamW's learning rate and decay suit it, too. All other variables are
    AdamW's.

    Args:
        learning_rate, beta_1, beta_2, epsilon, weight_decay, not_decayed, rates, name, kwargs: as
            of `AdamW`.
        adamw_rate: factor of the learning rate of the variables that AdamW updates.
        dtype: what the iterations are computed in; float32 unless it is bfloat16, which takes
            little more than half the time.
        momentum: decay of the sum of gradients that is made orthogonal, with Nesterov's step.
        orthogonalized: regular expressions; a variable of two or more axes with a match in its path
            is a matrix, the axes before the last one taken together.
    """

    OPTIONS = (*AdamW.OPTIONS, "adamw_rate", "dtype")

    def __init__(self, learning_rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-6,
                 weight_decay=0.01, not_decayed=NOT_DECAYED, rates=(), name=None, adamw_rate=1.0,
                 dtype="float32", momentum=0.95, orthogonalized=ORTHOGONALIZED, **kwargs):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, weight_decay, not_decayed, rates,
                         name, **kwargs)
        self.adamw_rate = adamw_rate
        self.dtype = dtype
        self.momentum = momentum
        self.orthogonalized = tuple(orthogonalized)

    def add_state(self, variables):
        """Create the momentum of each matrix, both moments of every other variable."""
        self._is_matrix = [len(variable.shape) > 1 and any(
            re.search(pattern, variable.path) for pattern in self.orthogonalized)
            for variable in variables]
        self._first = self.add_optimizer_variables(variables, "m")
        self._second = [None if matrix else self.add_variable_from_reference(variable, "v")
                        for matrix, variable in zip(self._is_matrix, variables, strict=True)]

    def build(self, variables):
        """See the base."""
        if not self.built:
            super().build(variables)
            self._rates = [rate if matrix else rate * self.adamw_rate for rate, matrix in zip(
                self._rates, self._is_matrix, strict=True)]

    def _update(self, gradient, variable, index, learning_rate, kept, factors):
        if not self._is_matrix[index]:
            super()._update(gradient, variable, index, learning_rate, kept, factors)
            return
        self._decay(variable, index, kept)
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        total = self._first[index].value
        momentum = total.assign(self.momentum * total + gradient)
        matrix = tf.reshape(gradient + self.momentum * momentum, [-1, variable.shape[-1]])
        scale = _RMS * math.sqrt(max(matrix.shape))
        update = orthogonalize(
            matrix, dtype=tf.bfloat16 if self.dtype == "bfloat16" else tf.float32)
        variable.assign_sub(learning_rate * scale * tf.reshape(update, variable.shape))

    def get_config(self):
        return {**super().get_config(), "momentum": self.momentum,
                "orthogonalized": list(self.orthogonalized)}
