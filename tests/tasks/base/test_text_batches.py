"""`text_batches`: every text once a pass, beside its label, with texts of its length."""

import numpy as np
import pytest

import bert_tf
from bert_tf.errors import UsageError
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LENGTHS = np.random.default_rng(0).integers(1, 28, 45)
TEXTS = [" ".join("abc"[place % 3] for place in range(length)) for length in LENGTHS]


@pytest.fixture(scope="module")
def preprocessor():
    return TextPreprocessor(Tokenizer(Vocabulary([*SPECIAL_TOKENS, *"abc"])), 32)


def batches(preprocessor, **options):
    data = bert_tf.text_batches(TEXTS, np.arange(45), preprocessor, 8, **{"seed": 1, **options})
    return data, [([text.decode() for text in texts], labels.tolist())
                  for texts, labels in data.as_numpy_iterator()]


def test_every_text_once_a_pass(preprocessor):
    data, passes = batches(preprocessor, epochs=2)
    assert len(data) == len(passes) == 12
    assert [len(texts) for texts, _ in passes] == 2 * [8, 8, 8, 8, 8, 5]
    first, second = passes[:6], passes[6:]
    for part in (first, second):
        assert sorted(label for _, labels in part for label in labels) == list(range(45))
    assert first != second
    for texts, labels in passes:
        assert texts == [TEXTS[label] for label in labels]
    assert batches(preprocessor, epochs=2)[1] == passes and batches(preprocessor,
                                                                    seed=2)[1] != first


@pytest.mark.parametrize("seq_length", [None, 8])
def test_texts_of_a_full_batch_are_of_like_length(preprocessor, seq_length):
    """Those of a tagger, too, that are read in several windows."""
    if seq_length:
        preprocessor = WordPreprocessor(preprocessor.tokenizer, seq_length)
    *full, _ = (np.sort(LENGTHS[labels]) for _, labels in batches(preprocessor)[1])
    joined = np.concatenate(sorted(full, key=lambda lengths: (lengths[0], lengths[-1])))
    np.testing.assert_array_equal(joined, np.sort(joined))


def test_pairs_and_any_labels(preprocessor):
    labels = np.random.default_rng(1).random((45, 3))
    data = bert_tf.text_batches({"text_a": TEXTS, "text_b": TEXTS[::-1]}, labels, preprocessor, 8,
                                1)
    for texts, rows in data.as_numpy_iterator():
        assert set(texts) == {"text_a", "text_b"} and rows.shape == (len(texts["text_a"]), 3)
        for a, b, row in zip(texts["text_a"], texts["text_b"], rows, strict=True):
            place = int(np.flatnonzero((labels == row).all(axis=1))[0])
            assert (a.decode(), b.decode()) == (TEXTS[place], TEXTS[44 - place])


@pytest.mark.parametrize(("texts", "labels"), [(["a"], [1, 2]), ([], []),
                                               ({"text_a": ["a"], "text_b": []}, [1])])
def test_as_many_labels_as_texts(preprocessor, texts, labels):
    with pytest.raises(UsageError, match="as many labels as texts, at least one"):
        bert_tf.text_batches(texts, labels, preprocessor, 8, 1)
