"""A dense layer as one product of whole numbers.

oneDNN's int8 product is an op that TensorFlow keeps to itself (`_QuantizedMatMul`): its builds for
x86 register it, `tf.raw_ops` leaves it out. It multiplies by AVX512-VNNI, AVX-VNNI or AMX where the
processor has them. Its reordered kernel is kept from the first call on. Scales are those of columns
of the kernel, so that what belongs to a column of the input has to be in the kernel and the bias.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_library

from bert_tf.layers.activations import activation
from bert_tf.saved_model.int8_rounding import LIMIT, round_kernel

_FUSED = {activation("gelu"): "GeluExact", activation("gelu_approximate"): "GeluApproximate",
          activation("relu"): "Relu", activation("tanh"): "Tanh"}
# The defaults, which this way of making an op does not know.
_ATTRIBUTES = {"transpose_a": False, "transpose_b": False, "is_weight_const": True,
               "is_bias_const": True, "input_quant_mode": "SCALED", "output_quant_mode": "SCALED",
               "leakyrelu_alpha": 0.2}
_NARROWEST = 1e-6  # range of a row


@dataclasses.dataclass(frozen=True, eq=False)
class ByColumn:
    """A layer whose inputs become whole numbers by a step and an offset of each column.

    `x kernel + bias` is near `round(x * steps + offset) whole * scale + shifted`, with what is
    rounded kept within ±127. An activation after it costs next to nothing.

    `stretched`, each row is multiplied so that its largest number is 127, and its product divided
    by as much: no number is cut off, and small rows keep their digits. It takes five passes more.

    Attributes:
        whole: int8 `[in, out]`.
        scale: float32 `[out]`.
        steps, offset: float32 `[in]`.
        shifted: float32 `[out]`, the bias without what the offset adds.
        stretched: see above.
    """

    whole: np.ndarray
    scale: np.ndarray
    steps: np.ndarray
    offset: np.ndarray
    shifted: np.ndarray
    stretched: bool = False

    @classmethod
    def of(cls, kernel, bias, steps, offset, stretched=False, covariance=None):
        """Round a kernel `[in, out]` with bias `[out]` for inputs that are brought to ±127 so, and
        that vary together as `covariance` says, see `round_kernel`."""
        if covariance is not None:
            covariance = covariance * np.outer(steps, steps)
        whole, scale = round_kernel(kernel / steps[:, np.newaxis], covariance)
        return cls(*map(np.asarray, (whole, scale, np.float32(steps), np.float32(offset),
                                     np.float32(bias - scale * (offset @ np.float32(whole))))),
                   stretched)

    def restored(self):
        """Return the kernel and the bias, as near as they still are, float32."""
        whole = self.whole.astype(np.float32)
        return (whole * self.scale * self.steps[:, np.newaxis],
                self.shifted + self.scale * (self.offset @ whole))

    def of_rows(self, inputs):
        """Compute what the layer gives for inputs `[K, in]`, in NumPy."""
        numbers = inputs * self.steps + self.offset
        stretch = LIMIT / np.maximum(np.abs(numbers).max(1, keepdims=True), _NARROWEST) if (
            self.stretched) else 1
        return _whole(numbers * stretch) @ (self.whole * self.scale) / stretch + self.shifted


@dataclasses.dataclass(frozen=True, eq=False)
class ByRow:
    """A layer whose inputs become whole numbers by the largest number of each row.

    `round((x - low) * 254 / (max(x) - low) - 127)` are the whole numbers. Finer than `ByColumn`
    where a few tokens have numbers far larger than others; it takes a look at each row before and
    a multiplication after the product.

    Attributes:
        whole, scale: as of `ByColumn`.
        low: float32, the least number that inputs have.
        raised: float32 `[out]`, what whole numbers of -127 lack to 0.
        shifted: float32 `[out]`, the bias with what `low` adds.
    """

    whole: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    raised: np.ndarray
    shifted: np.ndarray

    @classmethod
    def of(cls, kernel, bias, low, covariance=None):
        """Round a kernel `[in, out]` with bias `[out]` for inputs of `low` and more; `covariance`
        as of `ByColumn.of`."""
        whole, scale = round_kernel(kernel, covariance)
        sums = scale * np.float32(whole).sum(0)
        return cls(*map(np.asarray, (whole, scale, np.float32(low), np.float32(LIMIT * sums),
                                     np.float32(bias + low * sums))))

    def restored(self):
        """See `ByColumn.restored`."""
        kernel = self.whole * self.scale
        return kernel, self.shifted - self.low * kernel.sum(0)

    def of_rows(self, inputs):
        """See `ByColumn.of_rows`."""
        width = np.maximum(inputs.max(1, keepdims=True) - self.low, _NARROWEST)
        rounded = _whole((inputs - self.low) * (2 * LIMIT / width) - LIMIT)
        return ((rounded @ (self.whole * self.scale) + self.raised) * (width / (2 * LIMIT))
                + self.shifted)


def _whole(floats):
    return np.clip(np.rint(floats), -LIMIT, LIMIT)


def int8_product(tokens, weights, function=None, stretched=False):
    """Return `function(tokens kernel + bias)`, float32 `[K, out]`, in a graph.

    Args:
        tokens: `[K, in]`.
        weights: `{field of ByColumn or of ByRow: tensor}`, but `limit`, 127 times the scale, for
            `scale`. That buffer is to stay where it is: for every other address oneDNN makes ready
            anew.
        function: of `layers.activations`, or None.
        stretched: of `ByColumn`.
    """
    tokens = tf.cast(tokens, tf.float32)
    if "low" in weights:
        outputs = _by_row(tokens, **weights)
    elif stretched:
        outputs = _stretched(tokens, **weights)
    else:
        fused = _FUSED.get(function)
        outputs = _product(tokens * weights["steps"] + weights["offset"], weights["whole"],
                           weights["limit"], weights["shifted"], *([fused] if fused else []))
        function = None if fused else function
    return outputs if function is None else function(outputs)


def _by_row(tokens, whole, limit, low, raised, shifted):
    width = tf.maximum(tf.reduce_max(tokens, -1, keepdims=True) - low, _NARROWEST)
    steps = 2 * LIMIT / width
    outputs = _product(tokens * steps - (low * steps + LIMIT), whole, limit, raised)
    return tf.nn.bias_add(outputs * (width / (2 * LIMIT)), shifted)


def _stretched(tokens, whole, limit, steps, offset, shifted):
    numbers = tokens * steps + offset
    largest = tf.maximum(tf.reduce_max(numbers, -1, keepdims=True),
                         -tf.reduce_min(numbers, -1, keepdims=True))
    stretch = LIMIT / tf.maximum(largest, _NARROWEST)
    outputs = _product(numbers * stretch, whole, limit, tf.zeros_like(shifted))
    return tf.nn.bias_add(outputs / stretch, shifted)


def _product(floats, whole, limit, bias, *fused):
    """Round `floats [K, in]`, multiply, scale, add a bias and so on."""
    # Saturates and rounds in one pass. Without a narrow range the step is 1 in one kernel and
    # 127 / 127.5 in the other, between which TensorFlow chooses by the way of rounding, too.
    rounded = tf.raw_ops.QuantizeV2(
        input=floats, min_range=-float(LIMIT), max_range=float(LIMIT), T=tf.qint8, mode="SCALED",
        narrow_range=True).output
    inputs = [rounded, tf.bitcast(whole, tf.qint8), bias, *[tf.constant(float(LIMIT))] * 2,
              *[limit] * 2]
    operation = op_def_library._apply_op_helper(
        "_QuantizedMatMul", name="int8_product", device_inputs=inputs, host_inputs=[],
        Tdevice_outputs=[tf.float32], Thost_outputs=[], T1=tf.qint8, T2=tf.qint8, Tbias=tf.float32,
        U=tf.float32, Tout=tf.float32, fused_ops=["BiasAdd", *fused, "Dequantize"],
        **_ATTRIBUTES)[2]
    outputs, = operation.outputs
    outputs.set_shape([None, whole.shape[1]])
    return outputs
