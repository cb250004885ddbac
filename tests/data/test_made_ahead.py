"""Batches that are made ahead."""

import threading

import tensorflow as tf

from bert_tf import cores
from bert_tf.data.made_ahead import made_ahead


def test_elements_come_in_order_and_no_thread_tunes_them():
    """The thread that tunes would be waited for, up to a minute, whenever an iterator ends."""
    made = made_ahead(tf.data.Dataset.range(40), lambda number: number * 2, 3)
    assert not made.options().autotune.enabled
    assert [*made.as_numpy_iterator()] == [*range(0, 80, 2)]


def test_batches_of_several_devices_are_made_at_once(monkeypatch):
    """As many as are kept, and by half of the cores."""
    monkeypatch.setattr(cores, "usable", lambda: 8)
    together = threading.Barrier(4, timeout=20)

    def make(number):
        return tf.numpy_function(lambda each: (together.wait(), each)[1], [number], tf.int64,
                                 stateful=False)

    made = made_ahead(tf.data.Dataset.range(8), make, 4)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8  # also on a small machine
    assert [*made.with_options(options).as_numpy_iterator()] == [*range(8)]
