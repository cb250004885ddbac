"""A loss of vectors whose first components are vectors of their own."""

import dataclasses

import tensorflow as tf


def matryoshka(loss, batch, options):
    """Compute the sum of a loss at several widths, each times its weight.

    Kusupati et al. 2022, "Matryoshka Representation Learning", section 3, equation 1. As there the
    whole vector is always among them, with weight 1 where its width is not named.
    """
    widths = options.matryoshka_widths
    weights = dict(zip(widths, options.matryoshka_weights or [1.0] * len(widths), strict=True))
    weights.setdefault(batch.vectors.shape[-1], 1.0)
    return tf.add_n([
        weight * loss(dataclasses.replace(batch, vectors=batch.vectors[..., :width]), options)
        for width, weight in weights.items()])
