"""Strategies by name."""

import pytest
import tensorflow as tf

from bert_tf.errors import UsageError
from bert_tf.training.strategy import make_strategy


def test_devices_are_made_before_tensorflow_works_or_not_at_all():
    tf.zeros([]) + 1
    count = len(tf.config.list_logical_devices("CPU"))
    assert make_strategy("mirrored", count).num_replicas_in_sync == count
    with pytest.raises(UsageError, match=f"num_devices={count + 1} after TensorFlow started "
                                         f"with {count}; try it first in a new process"):
        make_strategy("mirrored", count + 1)
