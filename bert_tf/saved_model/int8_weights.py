"""An encoder's weights as whole numbers: those of its layers' products, and its table of tokens.

Heads, LayerNorm, the other embeddings and what attention computes of them stay float32.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from bert_tf.layers.dense import Dense
from bert_tf.layers.substitutes import Substitutes
from bert_tf.saved_model.int8_product import ByColumn, ByRow, int8_product
from bert_tf.saved_model.int8_rounding import LIMIT, round_kernel
from bert_tf.saved_model.int8_scales import best_int8

_SCALE = "_scale"  # after the name of a kernel or a table in a version's `variables/`
# What else is there of a dense layer, by the fields.
_NAMES = {"whole": "kernel", "limit": "kernel" + _SCALE, "steps": "kernel_input_steps",
          "offset": "kernel_input_offset", "low": "kernel_input_low", "raised": "kernel_raised",
          "shifted": "bias"}


def dense_layers(encoder):
    """Return the `Dense` layers of an encoder's stack that have nothing added to their kernels."""
    return [layer for layer in encoder.backbone.encoder._flatten_layers()
            if type(layer) is Dense and layer.quantization_mode is None
            and not layer.lora_enabled]


class Int8Weights(Substitutes):
    """An encoder's layers and table as whole numbers, by what the layers are given.

    Args:
        encoder: the Keras encoder.
        inputs: `{path of a dense layer: LayerInputs}`, of those that were given something.

    Attributes:
        errors: `{path: how far each product is from the exact one, as a fraction of it}`.
        kinds: `{path: "columns", "rows" or "both"}`, by what inputs become whole numbers.
        kept: paths of layers that stay float32; may be set.
    """

    def __init__(self, encoder, inputs):
        embeddings = encoder.backbone.embeddings
        self.kept, self.errors, self.kinds = (), {}, {}
        self._tensors, self._products = {}, {}
        self._table = embeddings.path
        table = embeddings.word_embeddings.path
        columns, scales = round_kernel(embeddings.word_embeddings.numpy().T)  # a scale a row
        self._rows = (tf.Variable(columns.T, trainable=False, name=table),
                      tf.Variable(scales, trainable=False, name=table + _SCALE))
        for layer in dense_layers(encoder):
            if layer.path not in inputs:
                continue
            bias = layer.bias.numpy() if layer.use_bias else np.zeros(layer.units, np.float32)
            dense, self.errors[layer.path] = best_int8(bias, inputs[layer.path])
            self.kinds[layer.path] = "rows" if isinstance(dense, ByRow) else (
                "both" if dense.stretched else "columns")
            self._tensors[layer.path] = _variables(layer, dense)

    def product(self, layer, inputs, activation):
        """See `Substitutes`."""
        if layer.path not in self._tensors or layer.path in self.kept:
            return None
        tokens = tf.reshape(inputs, [-1, inputs.shape[-1]])
        stretched = self.kinds[layer.path] == "both"
        if not tf.executing_eagerly():
            return int8_product(tokens, self._tensors[layer.path], activation, stretched)
        # The op is there for graphs alone.
        key = layer.path, activation
        if key not in self._products:
            self._products[key] = tf.function(functools.partial(
                int8_product, weights=self._tensors[layer.path], function=activation,
                stretched=stretched), autograph=False, reduce_retracing=True)
        return self._products[key](tokens)

    def rows(self, layer, ids):
        """See `Substitutes`."""
        if layer.path != self._table:
            return None
        whole, scales = (tf.gather(part, ids) for part in self._rows)
        return tf.cast(whole, tf.float32) * scales[..., tf.newaxis]

    def table(self, layer):
        """See `Substitutes`."""
        if layer.path != self._table:
            return None
        whole, scales = self._rows
        return tf.cast(whole, tf.float32) * scales[:, tf.newaxis]

    def stored(self, weights):
        """Return the variables to write of a model with the Keras variables `weights`."""
        own = {path: tensors for path, tensors in self._tensors.items() if path not in self.kept}
        replaced = {f"{path}/{part}" for path in own for part in ("kernel", "bias")}
        replaced.add(self._rows[0].name.partition(":")[0])
        return [*(variable.value for variable in weights if variable.path not in replaced),
                *self._rows, *(each for tensors in own.values() for each in tensors.values())]


def _variables(layer, dense):
    values = {**dataclasses.asdict(dense), "limit": dense.scale * LIMIT}
    del values["scale"]
    values.pop("stretched", None)
    return {key: tf.Variable(value, trainable=False, name=f"{layer.path}/{_NAMES[key]}")
            for key, value in values.items()}


def restored(tensors):
    """Return `{path: array}` of an export's variables with float32 in place of whole numbers."""
    tensors = dict(tensors)
    for path in [path for path, value in tensors.items() if value.dtype == np.int8]:
        layer, _, last = path.rpartition("/")
        if last != "kernel":
            tensors[path] = tensors[path] * tensors.pop(path + _SCALE)[:, np.newaxis]
            continue
        fields = {field: tensors.pop(f"{layer}/{name}") for field, name in _NAMES.items()
                  if f"{layer}/{name}" in tensors}
        kind = ByRow if "low" in fields else ByColumn
        tensors[path], tensors[f"{layer}/bias"] = kind(
            scale=fields.pop("limit") / LIMIT, **fields).restored()
    return tensors
