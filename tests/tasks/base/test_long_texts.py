"""Windows of long texts: averaged, and some at a time where nothing is trained."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.families import INPUTS
from bert_tf.tasks.base.long_texts import average_windows


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("graph", [False, True])
def test_windows_are_averaged_some_at_a_time(training, graph):
    generator = np.random.default_rng(1)
    ids = generator.integers(1, 9, [3, 70, 4]).astype(np.int32)
    mask = np.ones_like(ids)
    mask[0, 50:], mask[1] = 0, 0  # a shorter text, and one without a token
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": 0 * mask}
    assert set(inputs) == set(INPUTS)
    sizes = []

    def vectors_of(part):
        numbers = tf.cast(part["input_word_ids"], tf.float32)
        tf.py_function(lambda count: sizes.append(int(count)), [tf.shape(numbers)[0]], [])
        return numbers[:, :2]

    def run(inputs):
        return average_windows(inputs, vectors_of, tf.TensorSpec([None, 2]), training)

    averages = (tf.function(run) if graph else run)(
        {name: tf.constant(value) for name, value in inputs.items()}).numpy()
    np.testing.assert_allclose(averages, [
        ids[0, :50, :2].mean(0), [0, 0], ids[2, :, :2].mean(0)], rtol=1e-6)
    assert sum(sizes) == 120 and (sizes == [120] if training else max(sizes) <= 32)
