"""Finds strings among others inside the graph, without a lookup table, which has state."""

import numpy as np
import tensorflow as tf


class StringTable:
    """Strings, of which each has a number.

    Args:
        strings: string tensor `[n]`, those that are found distinct.
        numbers: int array, the places in `strings` of those that are to be found, at least one.
    """

    def __init__(self, strings, numbers):
        self._strings = strings
        keys = _key(tf.gather(strings, numbers)).numpy()
        order = np.argsort(keys)
        self._numbers = tf.constant(np.asarray(numbers)[order], tf.int32)
        self._keys = tf.constant(keys[order])

    def find(self, words):
        """Numbers of words, string `[m]`: int32 `[m]`, and bool `[m]`, whether each is there."""
        place = tf.searchsorted(self._keys, _key(words))
        numbers = tf.gather(self._numbers, tf.minimum(place, tf.size(self._keys) - 1))
        return numbers, tf.gather(self._strings, numbers) == words


def _key(words):
    """Return int64 `[n]`, of 2^63 numbers one for each word."""
    return tf.strings.to_hash_bucket_fast(words, np.iinfo(np.int64).max)
