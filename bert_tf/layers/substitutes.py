"""Weights that stand in for a layer's variables, while a graph is traced.

A layer asks here first. Who exports a model says what is stored instead of some of its variables
and how to compute with it; who trains one, of which rows of its table there is anything to learn.
"""

import contextlib
import contextvars


class Substitutes:
    """What layers compute with instead of their variables: nothing, which is what None says."""

    def product(self, layer, inputs, activation):
        """Compute a `Dense` layer's output float `[K, units]`, its bias included.

        Args:
            layer: the layer.
            inputs: `[…, in]`.
            activation: a function of `activations`, which is applied, too; or None.
        """

    def rows(self, layer, ids):
        """Look up rows of the word embeddings of an `Embeddings` layer: float32 `[…, width]` for
        integers `[…]`."""

    def table(self, layer):
        """Return all word embeddings of an `Embeddings` layer, float32 `[vocab, width]`."""


_substitutes = contextvars.ContextVar("substitutes", default=Substitutes())  # noqa: B039 — no state


@contextlib.contextmanager
def computed_with(substitutes):
    """Within, layers compute with a `Substitutes`; with their variables for None."""
    token = _substitutes.set(substitutes or Substitutes())
    try:
        yield
    finally:
        _substitutes.reset(token)


def substitutes():
    """Return the `Substitutes` at hand."""
    return _substitutes.get()
