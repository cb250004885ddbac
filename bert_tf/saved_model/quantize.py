"""Make a served model's weights int8, and find out what that loses.

Half of some texts says what the layers are given, the other half what is lost: how far the vectors
of texts turn, those that the signature `embed` gives. While that is more than allowed, the layers
whose products are furthest off stay float32.
"""

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.layers.substitutes import Substitutes, computed_with
from bert_tf.saved_model.int8_inputs import LayerInputs
from bert_tf.saved_model.int8_weights import Int8Weights, dense_layers
from bert_tf.tasks.embedding.signature import vectors_of

MAX_LOSS = 0.01
_BATCH = 16  # texts at a time
_FEWEST = 8  # texts
_MOST_KEPT = 0.5  # of the layers


def int8_weights(served, texts, max_loss=MAX_LOSS):
    """Return a served model's `Int8Weights` and what there is to report of them.

    Args:
        served: a `ServedModel` in float32.
        texts: list of str like those to be served.
        max_loss: most that 1 minus the cosine of a text's vector to that in float32 may be.

    Returns: `(Int8Weights, report)`: the report a dict of plain values.

    Raises:
        UsageError: the model takes no text or has no layers, or there are too few texts.
        BertTfError: more is lost, with half of the layers in float32 even.
    """
    _check(served, texts)
    calibration, held_out = texts[::2], texts[1::2]
    weights = Int8Weights(served.encoder, layer_inputs(
        served.encoder, lambda: _vectors(served, calibration, eager=True)))
    exact = _vectors(served, held_out)
    worst = sorted(weights.errors, key=weights.errors.get, reverse=True)
    kept, most = 0, int(_MOST_KEPT * len(worst))
    while True:
        weights.kept = frozenset(worst[:kept])
        with computed_with(weights):
            lost = losses(_vectors(served, held_out), exact)
        if lost.max(initial=0) <= max_loss:
            break
        if kept == most:
            raise BertTfError(explain(
                f"int8 loses {lost.max(initial=0):.4f} of a vector's cosine with "
                f"{len(weights.kept)} of {len(worst)} layers in float32, --max_loss {max_loss}",
                attempt="--calibration with texts like those to be served, or --dtype bfloat16"))
        kept = min(max(1, 2 * kept), most)
    return weights, {
        "texts": len(texts), "max_loss": max_loss, "loss": float(lost.max(initial=0)),
        "mean_loss": float(lost.mean()),
        "layers": {path: {"loss": error, "scales": weights.kinds[path],
                          "dtype": "float32" if path in weights.kept else "int8"}
                   for path, error in weights.errors.items()}}


def layer_inputs(encoder, compute):
    """Return `{path: LayerInputs}` of the dense layers of an encoder that are given something while
    `compute()` runs, eagerly."""
    found = {layer.path: LayerInputs(layer.kernel.numpy()) for layer in dense_layers(encoder)}
    with computed_with(_Recorder(found)):
        compute()
    return {path: inputs for path, inputs in found.items() if inputs.least is not None}


class _Recorder(Substitutes):
    """Notes what layers are given, and leaves the computing to them."""

    def __init__(self, inputs):
        self._inputs = inputs

    def product(self, layer, inputs, activation):
        if activation is None and layer.path in self._inputs:
            self._inputs[layer.path].add(np.reshape(inputs, [-1, inputs.shape[-1]]))


def _check(served, texts):
    if served.tokenizer is None:
        raise UsageError(explain("--dtype int8 of a model that takes no text",
                                 "one whose ranges texts can tell", "--dtype bfloat16"))
    if not dense_layers(served.encoder):
        raise UsageError(explain("--dtype int8 of a model without dense layers",
                                 attempt="--dtype float32"))
    if len(texts or ()) < _FEWEST:
        raise UsageError(explain(f"--dtype int8 with {len(texts or ())} texts to calibrate it by",
                                 f"at least {_FEWEST}",
                                 "--calibration with texts like those to be served"))


def _vectors(served, texts, eager=False):
    """Return the vectors of texts float32 `[n, W]`, of a model without pooling of all tokens; of
    vectors that are stored shorter, the components that are."""
    def compute(texts):
        return vectors_of(served, {"text": texts})[..., :served.code.dimensions]

    if not eager:
        compute = tf.function(compute, autograph=False, input_signature=[
            tf.TensorSpec([None], tf.string)]).get_concrete_function()
    found = [compute(tf.constant(texts[start:start + _BATCH])).numpy()
             for start in range(0, len(texts), _BATCH)]
    return np.concatenate([each.reshape([-1, each.shape[-1]]) for each in found])


def losses(vectors, exact):
    """Return 1 minus the cosines of rows that are not 0, as those of padding; 1 of a vector that
    became 0 or NaN."""
    lengths = np.linalg.norm(exact, axis=1)
    vectors, exact, lengths = vectors[lengths > 0], exact[lengths > 0], lengths[lengths > 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = (vectors * exact).sum(1) / (np.linalg.norm(vectors, axis=1) * lengths)
    return 1 - np.nan_to_num(cosines)
