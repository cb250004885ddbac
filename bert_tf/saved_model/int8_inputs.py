"""What a layer is given by texts like those to be served."""

import numpy as np

_ROWS = 32  # of a batch, by which scales are compared


class LayerInputs:
    """The range of each column, some rows, and how columns vary together.

    Args:
        kernel: of the layer, float32 `[in, out]`. A row counts by the inverse of the square of its
            product: a few tokens, such as `[SEP]`, have products many times as large as others.
    """

    def __init__(self, kernel):
        self.kernel = kernel
        self.least = self.most = self._origin = None
        self._rows, self._random = [], np.random.default_rng(0)
        self._weight, self._sum, self._products = 0.0, 0.0, 0.0

    def add(self, inputs):
        """Take in inputs float `[K, in]`."""
        if not len(inputs):
            return
        least, most = inputs.min(0), inputs.max(0)
        if self.least is None:
            self._origin = inputs.mean(0)
        else:
            least, most = np.minimum(least, self.least), np.maximum(most, self.most)
        self.least, self.most = least, most
        self._rows.append(inputs[self._random.permutation(len(inputs))[:_ROWS]])
        weights = 1 / np.maximum(np.square(inputs @ self.kernel).sum(1), 1e-12)
        # Of a column far from 0 that hardly varies squares would leave nothing of the variance.
        moved = inputs - self._origin
        self._weight += weights.sum()
        self._sum += weights @ moved
        self._products += (moved * weights[:, np.newaxis]).T @ moved

    @property
    def rows(self):
        """Some of the inputs, float `[R, in]`."""
        return np.concatenate(self._rows)

    @property
    def mean(self):
        """Of the columns, float `[in]`."""
        return self._origin + self._sum / self._weight

    @property
    def covariance(self):
        """Of the columns, float `[in, in]`."""
        mean = self._sum / self._weight
        return self._products / self._weight - np.outer(mean, mean)
