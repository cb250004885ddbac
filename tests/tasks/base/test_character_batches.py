"""Which texts share a batch, by their characters or by their number."""

import threading

import numpy as np
import pytest
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from sentiment import config, tokenizer

from bert_tf import side_by_side
from bert_tf.tasks.base import character_batches
from bert_tf.tasks.base.character_batches import batches_by_length, sizes_of
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.ranking.model import Ranker

CALLS = {
    "embed": (SentenceEmbedder, lambda model, texts, **size: model.embed(texts, **size)),
    "queries": (MultiVectorEmbedder,
                lambda model, texts, **size: model.vectors(texts, "query", **size)),
    "sparse": (SparseEmbedder, lambda model, texts, **size: model.sparse(texts, **size)),
    "scores": (Ranker, lambda model, texts, **size: model.scores(texts, texts[::-1], **size))}


def test_a_number_of_texts_or_so_many_characters():
    sizes = sizes_of([["a" * 6000, "b", "c" * 7000, "d" * 16]])
    assert [rows.tolist() for rows in batches_by_length(sizes, 3)] == [[1, 3, 0], [2]]
    assert [rows.tolist() for rows in batches_by_length(sizes)] == [[1, 3], [0, 2]]


def test_what_is_truncated_does_not_count():
    columns = [["a" * 1000, "b"], ["c", "d" * 1000]]
    assert sizes_of(columns, 16).tolist() == [129, 129]
    assert sizes_of(columns).tolist() == [1001, 1001]


def test_tokens_that_come_to_texts_count():
    assert sizes_of([["", "a" * 30]], added=2).tolist() == [8, 38]
    assert sizes_of([["", "a" * 30]], added=2, least=5).tolist() == [20, 38]


@pytest.mark.parametrize("name, batches, rows", [
    ("embed", 3, 14), ("queries", 10, 4), ("sparse", 2, 32), ("scores", 5, 8)])
def test_models_read_by_characters(name, batches, rows, monkeypatch, eager):
    """And by special tokens; but of weights of all tokens 32 texts. Queries of a letter count for
    all they are filled to."""
    monkeypatch.setattr(character_batches, "BATCH_CHARACTERS", 154)
    make, call = CALLS[name]
    model = make(config(num_hidden_layers=1), seed=1, preprocessor=TextPreprocessor(
        tokenizer(), 16, pair=name == "scores"), **(
            {"dim": 8, "query_length": 8} if name == "queries" else {}))
    texts = ["fun"] * 39 + ["a"]
    sizes, read = [], model.predict_on_batch
    monkeypatch.setattr(model, "predict_on_batch", lambda batch: sizes.append(_rows(batch)) or
                        read(batch))
    by_characters = call(model, texts)
    assert sum(sizes) == 40 and (len(sizes), max(sizes)) == (batches, rows)
    for one, other in zip(by_characters, call(model, texts, batch_size=3), strict=True):
        if isinstance(one, dict):
            assert one == pytest.approx(other, abs=1e-5)
        else:
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_batches_side_by_side_give_the_same(monkeypatch):
    """In a process that trains on a CPU; and none by the graph of how texts were read before."""
    reads = [TextPreprocessor(tokenizer(), length) for length in (16, 6)]
    model = SentenceEmbedder(config(num_hidden_layers=1), seed=1, preprocessor=reads[0])
    texts, alone = ["fine " * (number % 9) for number in range(60)], []
    for model.preprocessor in reads:
        alone.append(model.embed(texts, batch_size=30))
    assert np.abs(alone[0] - alone[1]).max() > 0.01
    predict, make = model.predict_on_batch, TensorFlowTrainer.make_predict_function
    asked, making, answered = [], threading.Event(), threading.Event()

    def after_the_first(batch):
        asked.append(threading.get_ident())
        if len(asked) % 2:
            return predict(batch)
        making.wait(60)
        found = predict(batch)
        answered.set()
        return found

    def make_late(trainer, force=False):
        if force:  # while the second thread asks for the function; it cannot have it yet
            making.set()
            assert not answered.wait(0.2)
        return make(trainer, force)

    monkeypatch.setattr(side_by_side, "at_once", lambda: 2)
    monkeypatch.setattr(model, "predict_on_batch", after_the_first)
    monkeypatch.setattr(TensorFlowTrainer, "make_predict_function", make_late)
    for model.preprocessor, expected in zip(reads, alone, strict=True):
        making.clear(), answered.clear()
        np.testing.assert_allclose(model.embed(texts, batch_size=30), expected, atol=1e-6)
    assert len(asked) == 4 and len(set(asked[:2])) == len(set(asked[2:])) == 2


def _rows(batch):
    if isinstance(batch, dict):
        [batch] = batch.values()
    return len(batch[0]) if isinstance(batch, tuple) else len(batch)
