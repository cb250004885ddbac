"""All poolings of all layers, against one sentence at a time."""

import numpy as np
import pytest
from tiny_encoder import CONFIG, SENTENCES, encoder, sentence_vectors, tokenizer

from bert_tf.errors import UsageError
from bert_tf.visualization import vectors


def test_every_vector_is_that_of_the_sentence_alone():
    expected = sentence_vectors(SENTENCES)
    wanted = vectors.choices(CONFIG)
    assert set(wanted) == set(expected) and len(wanted) == 7 * 3 + 1
    found = vectors.embed(encoder(), tokenizer(), SENTENCES, wanted, batch_size=4)
    assert list(found) == wanted
    for choice, rows in expected.items():
        np.testing.assert_allclose(found[choice], rows, atol=2e-5, err_msg=str(choice))


def test_one_run_of_the_encoder_a_batch_serves_all(monkeypatch):
    runs = []
    backbone = encoder().backbone.__class__
    call = backbone.call
    monkeypatch.setattr(backbone, "call", lambda self, *args, **options: (
        runs.append(1), call(self, *args, **options))[1])
    monkeypatch.setattr("tensorflow.function", lambda **_: lambda function: function)
    vectors.embed(encoder(), tokenizer(), SENTENCES, vectors.choices(CONFIG), batch_size=4)
    assert len(runs) == 2  # of 6 sentences


def test_choices():
    assert vectors.choices(CONFIG, ["cls", "cls_pooled"], [0, -1]) == [
        ("cls", 0), ("cls", 2), ("cls_pooled", 2)]
    bare = CONFIG.replace(pooling="first")
    assert not any(name == "cls_pooled" for name, _ in vectors.choices(bare))
    for poolings, layers, message in ((["cls_pooled"], [0], "without the topmost layer"),
                                      (["clss"], None, "try pooling='cls'"),
                                      (None, [3], "layer 3 of an encoder with 2")):
        with pytest.raises(UsageError, match=message):
            vectors.choices(CONFIG, poolings, layers)


def test_long_sentences_are_cut_and_told():
    assert vectors.window(CONFIG) == 12
    with pytest.raises(UsageError, match="seq_length=13 of a model with 12 positions"):
        vectors.window(CONFIG, 13)
    texts = ["the river bank", "the river", "the river bank rate"]
    note = vectors.truncation_note(tokenizer(), texts, 4)
    assert note == ["truncated at 4 tokens: 2 of 3 sentences"]
    assert vectors.truncation_note(tokenizer(), texts, 6) == []
    found = vectors.embed(encoder(), tokenizer(), texts, [("mean", 2)], 4)["mean", 2]
    np.testing.assert_allclose(found[[0, 2]], found[[1, 1]], atol=1e-6)


def test_cosines():
    table = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(vectors.cosines(table), [[1, half, 0], [half, 1, 0], [0, 0, 0]])
