"""Batches that are made ahead."""

import tensorflow as tf

from bert_tf.data.made_ahead import made_ahead


def test_elements_come_in_order_and_no_thread_tunes_them():
    """The thread that tunes would be waited for, up to a minute, whenever an iterator ends."""
    made = made_ahead(tf.data.Dataset.range(40), lambda number: number * 2, 3)
    assert not made.options().autotune.enabled
    assert [*made.as_numpy_iterator()] == [*range(0, 80, 2)]
