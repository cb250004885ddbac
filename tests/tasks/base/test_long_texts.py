"""Windows of long texts: averaged, and some at a time where nothing is trained."""

import numpy as np
import pytest
import tensorflow as tf
from text_models import TINY

from bert_tf.data.task_input import Features, Ragged, TaskInput
from bert_tf.models.families import INPUTS
from bert_tf.randomness import draw_at
from bert_tf.tasks.base.long_texts import average_windows
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.training.step import _part_of


@pytest.mark.parametrize("training, jit_compile", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("graph", [False, True])
def test_windows_are_averaged_some_at_a_time(training, jit_compile, graph):
    """All at once for gradients, and where XLA would compile the graph."""
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
        return average_windows(inputs, vectors_of, tf.TensorSpec([None, 2]), training,
                               jit_compile)

    averages = (tf.function(run) if graph else run)(
        {name: tf.constant(value) for name, value in inputs.items()}).numpy()
    np.testing.assert_allclose(averages, [
        ids[0, :50, :2].mean(0), [0, 0], ids[2, :, :2].mean(0)], rtol=1e-6)
    together = training or jit_compile and graph
    assert sum(sizes) == 120 and (sizes == [120] if together else max(sizes) <= 32)


def test_dropout_of_a_window_does_not_depend_on_the_replica_or_the_micro_batch():
    """Windows of the same tokens, of which no two draw the same."""
    ids = [[7] * length for length in (4, 12, 8, 4, 20, 4, 8, 4)]
    data = TaskInput(Features({
        "input_word_ids": Ragged.of_rows(ids), "label_ids": np.zeros(8, np.int32),
        "input_type_ids": Ragged.of_rows([[0] * len(row) for row in ids])}, np.arange(8), 4), 8, 1)
    model = Classifier(TINY.replace(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3),
                       ["no", "yes"], seed=1)

    def logits(batch):
        with draw_at(7, 2, batch["first_example"]):
            return model(batch, training=True).numpy()

    [whole], replicas = data.dataset().take(1), data.dataset(0, 2, (0, 1)).take(2)
    parts = [logits(_part_of(batch, index, 2)) for batch in replicas for index in (0, 1)]
    expected = logits(whole)
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-6)
    assert len(np.unique(expected.round(4), axis=0)) == 8


@pytest.mark.parametrize("make", [
    lambda: Classifier(TINY, ["no", "yes"], seed=1),
    pytest.param(lambda: SentenceEmbedder(TINY, seed=1), marks=pytest.mark.long)])
def test_xla_computes_windows(make):
    """It knows no open number of parts."""
    mask = np.array([[[1] * 8, [1] * 5 + [0] * 3, [0] * 8], [[1] * 3 + [0] * 5] + [[0] * 8] * 2])
    inputs = {"input_word_ids": 7 * mask, "input_mask": mask, "input_type_ids": 0 * mask}
    model = make()
    expected = model(inputs)
    model.compile("sgd", jit_compile=True)
    np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=1e-6)


def test_xla_is_left_off_where_logits_are_computed_in_parts():
    model = SparseEmbedder(TINY, seed=1)
    with pytest.warns(UserWarning, match="Proceeding with `jit_compile=False`"):
        model.compile("sgd", "mse", jit_compile=True)
    assert not model.jit_compile
