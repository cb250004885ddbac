"""Which whole numbers a kernel's weights become.

Not the nearest ones each: rows are rounded one after the other, and what rounding one of them adds
to the products of usual inputs is taken from those that are still to come (Frantar et al. 2022,
"GPTQ", section 3). Serving costs the same.
"""

import numpy as np

LIMIT = 127  # of whole numbers on either side
_DAMPING = 0.1  # of a column's mean variance, which every column has in addition
_BLOCK = 128  # rows, after which what they left is passed on to all others at once


def round_kernel(kernel, covariance=None):
    """Return a kernel float `[in, out]` as int8, and the float32 `[out]` sizes of a step.

    Args:
        covariance: of the inputs, `[in, in]`; without it each weight is rounded for itself.
    """
    scale = (np.maximum(np.abs(kernel).max(0), 1e-12) / LIMIT).astype(np.float32)
    if covariance is None:
        return np.rint(kernel / scale).astype(np.int8), scale
    order = np.argsort(-np.diag(covariance))  # the widest columns first, while much is to come
    wanted = kernel[order] / scale.astype(np.float64)
    passed_on = _passed_on(covariance[np.ix_(order, order)].astype(np.float64))
    whole = np.empty_like(wanted)
    for start in range(0, len(order), _BLOCK):
        end = min(start + _BLOCK, len(order))
        left = np.empty_like(wanted[start:end])
        for row in range(start, end):
            whole[row] = np.clip(np.rint(wanted[row]), -LIMIT, LIMIT)
            left[row - start] = (wanted[row] - whole[row]) / passed_on[row, row]
            wanted[row + 1:end] -= np.outer(passed_on[row, row + 1:end], left[row - start])
        wanted[end:] -= passed_on[start:end, end:].T @ left
    return whole[np.argsort(order)].astype(np.int8), scale


def _passed_on(covariance):
    """Return the upper Cholesky factor of the inverse, float64 `[in, in]`."""
    variances = np.diag(covariance)
    damped = covariance + np.diag(np.full(len(variances),
                                          max(_DAMPING * variances.mean(), 1e-12)))
    return np.linalg.cholesky(np.linalg.inv(damped)).T
