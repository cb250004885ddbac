"""Rows answered in groups of like length are answered as they are alone."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.saved_model.length_groups import apply_by_length


def _weighed(inputs):
    """A function of a row's tokens and of where they stand, and nothing else."""
    ids = tf.cast(inputs["input_word_ids"] * inputs["input_mask"], tf.float32)
    places = tf.cast(tf.range(1, tf.shape(ids)[1] + 1), tf.float32)
    return tf.stack([tf.reduce_sum(ids, axis=1), tf.reduce_sum(ids * places, axis=1)], axis=1)


_GROUPED = tf.function(lambda inputs: apply_by_length(_weighed, inputs, 2), input_signature=[{
    name: tf.TensorSpec([None, None], tf.int32) for name in ("input_word_ids", "input_mask")}])


@settings(deadline=None)  # the first call traces the graph
@given(st.lists(st.lists(st.integers(0, 1), max_size=140), max_size=9))
def test_every_row_keeps_its_answer(masks):
    width = max(map(len, masks), default=1) or 1
    mask = np.zeros([len(masks), width], np.int32)
    for row, values in zip(mask, masks, strict=True):
        row[:len(values)] = values
    ids = np.arange(mask.size, dtype=np.int32).reshape(mask.shape) % 97
    inputs = {"input_word_ids": tf.constant(ids), "input_mask": tf.constant(mask)}
    np.testing.assert_array_equal(_GROUPED(inputs), _weighed(inputs))


@pytest.mark.parametrize("lengths, widths", [
    ([3, 500, 16, 5, 17], [16, 17, 500]), ([7, 7], [7]), ([0, 0], [1]), ([], [1])])
def test_what_is_computed_grows_with_the_tokens(lengths, widths):
    seen = []

    def told(inputs):
        seen.append(inputs["input_mask"].shape[1])
        return _weighed(inputs)

    mask = tf.sequence_mask(lengths, 512, tf.int32)
    apply_by_length(told, {"input_word_ids": mask, "input_mask": mask}, 2)
    assert seen == widths


def test_windows_stay_together():
    mask = tf.ones([2, 3, 4], tf.int32)
    assert apply_by_length(lambda inputs: inputs["input_mask"], {"input_mask": mask}, 4) is mask
