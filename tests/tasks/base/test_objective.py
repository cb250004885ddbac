"""Callbacks of Keras know the models' own metrics; half precision takes ids as they are."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import mirrored
from text_models import TINY, classifier, pack_words

from bert_tf.errors import UsageError
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tasks.token_classification.model import TokenClassifier

ROWS = pack_words([["a", "b"], ["c"]])


@pytest.mark.parametrize(("options", "metric", "way"), [
    ({}, "classifier_accuracy", "max"),
    ({"labels": ["score"], "problem": "regression"}, "classifier_error", "min")])
def test_callbacks_find_out_the_way_of_metrics(options, metric, way, eager, tmp_path):
    """After the first epoch Keras asked for a `mode`."""
    model = classifier(preprocessor=None, **options)
    model.compile("sgd")
    callbacks = [
        keras.callbacks.EarlyStopping(f"val_{metric}"), keras.callbacks.ReduceLROnPlateau(metric),
        keras.callbacks.ModelCheckpoint(tmp_path / "a.weights.h5", metric, save_best_only=True,
                                        save_weights_only=True)]
    model.fit(ROWS, [0, 1], validation_data=(ROWS, [0, 1]), callbacks=callbacks, verbose=0)
    other = {"max": "min", "min": "max"}[way]
    own = keras.callbacks.EarlyStopping(f"val_{metric}", mode=other)
    model.fit(ROWS, [0, 1], validation_data=(ROWS, [0, 1]), callbacks=own, verbose=0)
    assert [each.mode for each in (*callbacks, own)] == [way] * 3 + [other]


def test_several_workers_are_refused(monkeypatch):
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy",
                        tf.distribute.MirroredStrategy)
    with mirrored(1).scope():
        model = classifier(preprocessor=None)
        model.compile("sgd")
    for loop in (model.fit, model.evaluate):
        with pytest.raises(UsageError, match="MultiWorker.* try MirroredStrategy, or .*pretrain"):
            loop(ROWS, np.array([0, 1]), verbose=0)


class _Adds(Classifier):
    def call(self, batch, training=False):
        self.add_loss(tf.constant(2.0, tf.bfloat16))  # as of a layer in half precision
        return super().call(batch, training)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_own_loss_has_what_is_added_to_it(replicas):
    found = []
    for make in (Classifier, _Adds):
        with mirrored(replicas).scope():
            model = make(TINY.replace(vocab_size=50), ["no", "yes"], seed=1)
            model.compile("sgd", run_eagerly=replicas == 1)
        model.fit(ROWS, np.array([0, 1]), batch_size=2, shuffle=False, verbose=0)
        found.append(model.history.history["loss"][0])
        found.append(model.evaluate(ROWS, np.array([0, 1]), verbose=0)[0])
    np.testing.assert_allclose(found[2:], np.add(found[:2], 2), rtol=1e-5)


@pytest.mark.parametrize("make", [
    lambda config, **options: Classifier(config, ["no", "yes"], **options),
    lambda config, **options: TokenClassifier(config, ["no", "yes"], **options),
    lambda config, **options: SparseEmbedder(config, **options), Pretrainer,
    lambda config, **options: Classifier(config, ["no", "yes"], **options).backbone])
def test_ids_that_are_floats_are_not_rounded(make):
    """bfloat16 made 1040 of 1037."""
    model = make(TINY.replace(vocab_size=1100), seed=1, dtype="mixed_bfloat16")
    ids = np.array([[1037, 1033]], "int32")
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids),
              "input_type_ids": np.zeros_like(ids), "masked_lm_positions": ids % 2}
    floats = {**inputs, "input_word_ids": ids.astype("float32")}
    tf.nest.map_structure(np.testing.assert_array_equal, model(floats), model(inputs))
