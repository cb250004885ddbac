"""Weights that are stored smaller than as a layer's variables, in graphs that are served.

A layer asks here first. Who exports a model says, while its graph is traced, what is stored instead
of some of its variables and how to compute with it.
"""

import contextlib
import contextvars

_weights = contextvars.ContextVar("weights", default=None)


@contextlib.contextmanager
def computed_with(weights):
    """Within, layers compute with `weights` where it has something of theirs; None for nothing.

    Args:
        weights: has `product(layer, inputs, activation)`, of a `Dense`, its input `[…, in]` and
            None or a function of `activations` -> `[K, units]`; and `table(layer)`, of an
            `Embeddings` -> int8 `[vocab, width]` and the float32 scale of each row. Both return
            None where the layer's variables stay.
    """
    token = _weights.set(weights)
    try:
        yield
    finally:
        _weights.reset(token)


def product(layer, inputs, activation=None):
    """What takes the place of a dense layer's product, bias and activation included, or None."""
    weights = _weights.get()
    return None if weights is None else weights.product(layer, inputs, activation)


def table(layer):
    """What takes the place of the word embeddings: whole numbers and scales; or None."""
    weights = _weights.get()
    return None if weights is None else weights.table(layer)
