"""Initial weights depend on seed and path alone; what is assigned afterwards is not drawn."""

import numpy as np

from bert_tf.layers.dense import Dense
from bert_tf.layers.initializers import assigned_later


def kernel(name="head", paths=()):
    with assigned_later(paths):
        layer = Dense(64, seed=7, name=name)
        layer.build((None, 32))
    return layer.kernel.numpy()


def test_what_is_assigned_later_is_not_drawn():
    drawn = kernel()
    assert 0.01 < drawn.std() < 0.03 and np.abs(drawn).max() <= 0.04
    np.testing.assert_array_equal(kernel(paths=["other/kernel"]), drawn)
    assert not kernel(paths=["head/kernel"]).any()
    np.testing.assert_array_equal(kernel(), drawn)  # nothing is left of it
    assert (kernel("other") != drawn).any()
