"""Text is analysed once; labels of any type that holds numbers; one answer of several replicas."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from harness import mirrored
from text_models import CONFIG, VOCABULARY, classifier, make_preprocessor, pack_words

from bert_tf.errors import UsageError
from bert_tf.tasks.base.numbers_of import numbers_of
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.encoder import TextEncoder
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.ranking.model import Ranker
from bert_tf.tokenization import morphemes
from bert_tf.tokenization.tokenizer import Tokenizer

TEXTS = ["a b c", "d", "e f"]


class OwnSteps(Classifier):
    """Steps that Keras' are not called for."""

    def train_step(self, data):
        return {"loss": self.compute_loss(data[0], data[1], self(data[0], training=True))}

    def test_step(self, data):
        return {"loss": self.compute_loss(data[0], data[1], self(data[0], training=False))}

    def predict_step(self, data):
        return self(data[0], training=False)


@pytest.mark.parametrize(("eagerly", "model_class"), [
    (True, Classifier), (True, OwnSteps), (False, OwnSteps),
    pytest.param(False, Classifier, marks=pytest.mark.long)])
def test_text_is_analysed_once(eagerly, model_class, monkeypatch):
    """Analysing again what was analysed changes some texts."""
    seen = []
    monkeypatch.setattr(morphemes, "analyse", lambda texts, progress: seen.extend(texts) or texts)
    preprocessor = TextPreprocessor(Tokenizer(VOCABULARY, pretokenize="morphemes"), 16)
    model = model_class(CONFIG, ["no", "yes"], preprocessor=preprocessor)
    encoder = TextEncoder(CONFIG, TextPreprocessor(preprocessor.tokenizer, 16))
    for each in (model, encoder):
        each.compile("sgd", run_eagerly=eagerly)
    labels = [0, 1, 0]
    for call in (lambda: model.fit(TEXTS, labels, verbose=0),
                 lambda: model.evaluate(TEXTS, labels, verbose=0),
                 lambda: model.predict(TEXTS, verbose=0), lambda: model.predict_on_batch(TEXTS),
                 lambda: encoder.predict(TEXTS, verbose=0), lambda: model(TEXTS),
                 lambda: encoder(TEXTS)):
        call()
        assert seen == TEXTS
        seen.clear()


def test_numbers_of_any_type():
    for column in (np.array([0, 1, 0], object), pd.Series([0, 1, 0], dtype="category"),
                   pd.Series([np.int64(0), True, 0.0], dtype=object),
                   pd.Series([0, 1, 0], dtype="Int64")):
        found = numbers_of(column)
        assert found.dtype.kind in "if" and found.tolist() == [0, 1, 0]
    assert numbers_of(pd.Series([0.5, 1], dtype="Float32")).dtype == np.float32
    for column in (np.array([0, None], object), pd.Series(["0", "1"], dtype="category")):
        with pytest.raises(UsageError, match="labels such as '(None|0)'; expected numbers"):
            numbers_of(column)


def test_inputs_and_labels_of_another_rank_are_read_anew():
    """TensorFlow made one graph of two ranks, which knew neither."""
    batch = pack_words([["a", "b"], ["c"]] * 2)
    windows = {name: ids.reshape(2, 2, -1) for name, ids in batch.items()}
    ranker, model = Ranker(CONFIG, seed=1), classifier()
    scores = ranker.predict(batch, verbose=0)
    np.testing.assert_allclose(ranker.predict(windows, verbose=0), scores.reshape(2, 2), rtol=1e-5)
    hard = np.array([0, 1, 1, 0], np.float32)
    soft = np.eye(2, dtype="float32")[[0, 1, 1, 0]]
    model.compile("sgd")
    model.fit(batch, hard, validation_data=(batch, soft), verbose=0)
    expected = model.evaluate(batch, soft, verbose=0)
    of_hard = tf.data.Dataset.from_tensor_slices((batch, hard)).batch(4)
    assert model.evaluate(of_hard, verbose=0) == pytest.approx(expected)
    assert model.test_on_batch(batch, soft) == pytest.approx(expected)


def test_a_dataset_of_single_rows_is_told_from_batches():
    """Keras told of ranks, or trained on batches of one."""
    rows, model = tf.data.Dataset.from_tensor_slices((TEXTS, [0, 1, 0])), classifier()
    model.compile("sgd")
    for call in (model.fit, model.evaluate, lambda rows, **options: model.fit(
            rows.batch(3), validation_data=rows, **options)):
        with pytest.raises(UsageError, match=r"the dataset is not batched; try .batch\(32\)"):
            call(rows, verbose=0)


def test_texts_and_ids_in_turn_are_traced_once_each(monkeypatch):
    traced, model = [], classifier()
    step = model.predict_step
    monkeypatch.setattr(model, "predict_step", lambda data: traced.append(1) or step(data))
    ids = pack_words([["a", "b"], ["c"]])
    for _ in range(3):
        model.predict(["a b", "c"], verbose=0)
        model.predict(ids, verbose=0)
    assert len(traced) == 2


def test_ids_in_tables_are_ids():
    ids, model = pack_words([["a", "b"], ["c"]]), classifier()
    tables = {name: pd.DataFrame(values) for name, values in ids.items()}
    np.testing.assert_array_equal(model.predict(tables, verbose=0), model.predict(ids, verbose=0))


def test_no_rows_of_ids_have_no_outputs():
    """Keras ended in an UnboundLocalError."""
    none = {name: ids[:0] for name, ids in pack_words([["a", "b"]]).items()}
    assert classifier().predict(none, verbose=0).shape == (0, 2)
    assert TextEncoder(CONFIG).predict(none)["sequence_output"].shape == (0, 4, 16)


def test_several_replicas_answer_once():
    """Keras has each of them predict the whole batch."""
    found = []
    for replicas in (1, 2):
        with mirrored(replicas).scope():
            model = SentenceEmbedder(CONFIG, seed=1, preprocessor=make_preprocessor(16))
        found.append(model.embed(TEXTS))
        assert tf.shape(model.predict_on_batch(TEXTS))[0] == len(TEXTS)
    np.testing.assert_allclose(*found, atol=1e-6)
