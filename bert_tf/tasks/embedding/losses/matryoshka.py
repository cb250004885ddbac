"""A loss of vectors whose first components are vectors of their own."""

import dataclasses

import tensorflow as tf


def matryoshka(loss, batch, options):
    """Compute the sum of a loss at several widths, each times its weight.

    Kusupati et al. 2022, "Matryoshka Representation Learning", section 3, equation 1.
    """
    widths = options.matryoshka_widths
    weights = options.matryoshka_weights or [1.0] * len(widths)
    return tf.add_n([
        weight * loss(dataclasses.replace(batch, vectors=batch.vectors[..., :width]), options)
        for width, weight in zip(widths, weights, strict=True)])
