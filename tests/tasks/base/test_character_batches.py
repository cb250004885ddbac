"""Which texts share a batch, by their characters or by their number."""

import numpy as np
import pytest
from sentiment import config, tokenizer

from bert_tf import cores
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
    """In a process that trains on a CPU."""
    model = SentenceEmbedder(config(num_hidden_layers=1), seed=1, preprocessor=TextPreprocessor(
        tokenizer(), 16))
    texts = ["fine " * (number % 9) for number in range(60)]
    alone = model.embed(texts, batch_size=4)
    monkeypatch.setattr(cores, "at_once", lambda: 3)
    np.testing.assert_array_equal(model.embed(texts, batch_size=4), alone)


def _rows(batch):
    if isinstance(batch, dict):
        [batch] = batch.values()
    return len(batch[0]) if isinstance(batch, tuple) else len(batch)
