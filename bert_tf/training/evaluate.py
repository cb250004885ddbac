"""Held-out losses and metrics over a whole evaluation split."""

import math

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError
from bert_tf.training.step import make_eval_step, means
from bert_tf.training.strategy import make_batches


class Evaluator:
    """Evaluates a model on a split as often as asked; step and input are traced once.

    Args:
        model: with the accounting methods of `training/step.py`.
        strategy: the `tf.distribute.Strategy` that it was made under.
        data: its `dataset(num_replicas=…, replicas=…)` goes through the split once, every
            replica with the same number of batches.
        seed: of what the model draws in evaluation.
    """

    def __init__(self, model, strategy, data, seed):
        self._strategy = strategy
        self._data = data
        self._scales = model.loss_scales
        self._step = make_eval_step(model, strategy, seed)
        self._dataset = None

    def __call__(self):
        """Return mean losses and metrics over the split, `{"loss": …, "<name>_loss": …,
        <metrics>}`."""
        if self._dataset is None:  # a new one each time would leak graphs
            self._dataset = make_batches(
                self._strategy, lambda num_replicas, replicas: self._data.dataset(
                    num_replicas=num_replicas, replicas=replicas))
        iterator = iter(self._dataset)
        totals = None
        while True:
            try:
                sums = self._step(iterator)
            except (tf.errors.OutOfRangeError, StopIteration):
                break
            sums = tf.nest.map_structure(lambda value: tf.cast(value, tf.float64), sums)
            totals = sums if totals is None else tf.nest.map_structure(tf.add, totals, sums)
        if totals is None:
            raise BertTfError("the evaluation split is empty; try a larger held-out fraction")
        loss_sums, weights, metric_sums = totals
        return {name: float(value)
                for name, value in means(loss_sums, weights, metric_sums, self._scales).items()}


def _counts(labels_and_weights):
    counts = np.zeros(0)
    for labels, weights in labels_and_weights:
        added = np.bincount(np.ravel(labels), np.ravel(weights))
        counts, shorter = (added, counts) if len(added) > len(counts) else (counts, added)
        counts[:len(shorter)] += shorter
    return counts


def unigram_entropy(labels_and_weights):
    """Return the entropy in nats of the labels' own distribution: the loss of knowing frequencies
    only.

    Args:
        labels_and_weights: pairs of integer labels and of their weights, of the same shape; 0
            leaves a label out.
    """
    counts = _counts(labels_and_weights)
    fractions = counts[counts > 0] / counts.sum()
    return -math.fsum(fractions * np.log(fractions))


def majority(labels_and_weights):
    """Return the fraction of the most frequent label: the accuracy of knowing frequencies only.

    Args: as of `unigram_entropy`.
    """
    counts = _counts(labels_and_weights)
    return float(counts.max() / counts.sum())


def binary_entropy(fraction):
    """Return the entropy in nats of a binary label: the loss of knowing only the fraction of
    ones."""
    return -math.fsum(each * math.log(each) for each in (fraction, 1 - fraction) if each)


def wilson_interval(fraction, count, z=1.959964):
    """Return the bounds `[low, high]` of a fraction that was seen in a sample (Wilson 1927).

    Args:
        fraction: of correct predictions among `count` independent ones.
        count: above 0.
        z: standard deviations; 1.96 for 95 %.
    """
    shrink = 1 + z * z / count
    middle = (fraction + z * z / (2 * count)) / shrink
    half = z / shrink * math.sqrt(fraction * (1 - fraction) / count + (z / (2 * count)) ** 2)
    return [middle - half, middle + half]
