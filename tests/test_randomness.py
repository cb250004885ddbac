"""Bits are a function of key, example and shape; streams are uniform and independent."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.randomness import (
    current_position,
    draw_at,
    example_bits,
    several_rows,
    stream_key,
)


@pytest.mark.parametrize("dtype", [tf.uint32, tf.uint16])
@pytest.mark.parametrize("shape", [(3,), (8,), (5, 7), (4, 16)])
def test_bits_of_an_example_depend_on_its_index_only(dtype, shape):
    key = stream_key(1, "test", 2)
    whole = example_bits(key, 100, [6, *shape], dtype).numpy()
    assert whole.shape == (6, *shape) and whole.dtype == dtype.as_numpy_dtype
    for first, count in ((100, 2), (102, 3), (105, 1)):
        part = example_bits(key, tf.constant(first, tf.int64), tf.constant([count, *shape]), dtype)
        np.testing.assert_array_equal(part, whole[first - 100:first - 100 + count])
    assert len({row.tobytes() for row in whole}) == 6
    free = tf.function(lambda x: example_bits(key, 100, tf.shape(x), dtype),
                       input_signature=[tf.TensorSpec([None] * (len(shape) + 1))])
    np.testing.assert_array_equal(free(tf.zeros((6, *shape))), whole)


def test_bits_are_uniform():
    bits = example_bits(stream_key(3, "test"), 0, [4, 100_000], tf.uint16).numpy()
    counts = np.bincount(bits.ravel() >> 12, minlength=16)
    assert np.all(abs(counts / 25_000 - 1) < 0.05)
    first, second = (example_bits(stream_key(3, "test", step), 0, [1, 100_000]).numpy()
                     for step in (0, 1))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.02


def test_keys_differ():
    keys = {int(stream_key(seed, purpose, step)[0])
            for seed in (0, 1) for purpose in ("a", "b") for step in (0, 1, 2)}
    assert len(keys) == 12


def test_draw_at_nests_and_ends():
    assert current_position() is None
    with draw_at(1, 2, 3):
        with draw_at(4, 5, 6):
            assert current_position().seed == 4
        assert current_position().first_example == 3
    assert current_position() is None


@pytest.mark.parametrize("kind", [int, np.int32, tf.constant])
def test_rows_of_an_example_follow_each_other(kind):
    with draw_at(1, 2, kind(3)), several_rows(5):
        assert int(current_position().first_example) == 15
