"""Losses of distillation against their papers' formulas in NumPy."""

import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial import distance

from bert_tf.distill import objectives

RANDOM = np.random.default_rng(3)


def normal(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def test_vectors_and_soft_labels():
    taught, learned = normal(5, 8), normal(5, 8)
    np.testing.assert_allclose(objectives.vectors(taught, learned),
                               ((taught - learned)**2).sum(1), rtol=1e-5)
    expected = [9 * stats.entropy(special.softmax(a / 3), special.softmax(b / 3))
                for a, b in zip(taught, learned, strict=True)]
    np.testing.assert_allclose(objectives.probabilities(taught, learned, 3.0), expected, rtol=1e-4)
    np.testing.assert_allclose(objectives.probabilities(taught, taught, 3.0), 0, atol=1e-6)
    p, q = special.expit(taught / 3), special.expit(learned / 3)
    expected = 9 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum(1)
    np.testing.assert_allclose(objectives.independent_probabilities(taught, learned, 3.0), expected,
                               rtol=1e-3, atol=1e-5)


def test_directions_leave_lengths_out():
    taught, learned = normal(5, 8), normal(5, 8)
    np.testing.assert_allclose(
        objectives.directions(taught, 7 * learned),
        [distance.cosine(a, b) for a, b in zip(taught, learned, strict=True)], rtol=1e-5)


def test_similarities_are_to_the_texts_of_the_batch():
    taught, learned, weights = normal(5, 8), normal(5, 8), np.float32([1, 1, 0, 1, 1])
    old, new = (20 * (each / np.linalg.norm(each, axis=1, keepdims=True))
                @ (taught / np.linalg.norm(taught, axis=1, keepdims=True)).T
                for each in (taught, learned))
    there = weights > 0
    expected = stats.entropy(special.softmax(old[:, there], 1), special.softmax(new[:, there], 1),
                             axis=1)
    found = objectives.similarities(taught, learned, taught, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    # How long vectors are is left to other objectives.
    np.testing.assert_allclose(objectives.similarities(taught, 3 * learned, taught, weights), found,
                               rtol=1e-4)


@pytest.mark.parametrize("width", [12, 8])
def test_states_and_relations_leave_padding_out(width):
    lengths, heads = [4, 2], 4
    mask = np.arange(4) < np.array(lengths)[:, None]
    taught, learned = normal(2, 4, 12), normal(2, 4, width)
    if width == 12:
        found = objectives.states(taught, learned, mask).numpy()
        np.testing.assert_allclose(found, mask * ((taught - learned)**2).mean(-1), rtol=1e-5)
    found = objectives.relations(taught, learned, mask, heads).numpy()
    expected = np.zeros((2, 4))
    for row, length in enumerate(lengths):
        for head in range(heads):
            both = []
            for values in (taught, learned):
                size = values.shape[-1] // heads
                part = values[row, :length, head * size:(head + 1) * size]
                both.append(special.softmax(part @ part.T / np.sqrt(size), axis=-1))
            expected[row, :length] += stats.entropy(*both, axis=-1) / heads
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
