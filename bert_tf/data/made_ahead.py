"""Batches that are made while the step before them runs."""

import tensorflow as tf

from bert_tf import cores


def made_ahead(dataset, make, count):
    """Return `make(*element)` of each element of a dataset, in order, up to `count` ahead.

    TensorFlow does not tune it. The thread that would do so wakes up ever more seldom, up to once
    a minute, and whoever ends an iterator may wait for it.

    Args:
        dataset: tf.data.Dataset.
        make: of TensorFlow operations; autograph does not read it.
        count: how many are kept; as many are made at once, where half of the cores are so many.
    """
    threads = max(2, min(cores.usable() // 2, count))  # for several devices two would not do
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.map(
        tf.autograph.experimental.do_not_convert(make), num_parallel_calls=threads,
        deterministic=True).prefetch(count).with_options(options)
