"""Statistics of a corpus, worked out by hand and by brute force."""

import collections
import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data.term_weights import TermCounter, learn_term_weights, read_texts
from bert_tf.errors import BertTfError, UsageError
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = ["a a b", "b c", "a x"]  # x is [UNK]
PAD, UNK, CLS, SEP, MASK, A, B, C, D = range(9)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "b", "c", "d"]))


def test_a_corpus_by_hand(tokenizer):
    weights = learn_term_weights(TEXTS, tokenizer)
    # In 3 texts of 5, 4 and 4 tokens, [CLS] and [SEP] counted.
    assert weights.num_texts == 3 and weights.average_length == 13 / 3
    held_by = {CLS: 3, SEP: 3, A: 2, B: 2, C: 1, UNK: 1, D: 0, MASK: 0, PAD: 0}
    for token, count in held_by.items():
        expected = math.log(1 + (3 - count + 0.5) / (count + 0.5))
        assert math.isclose(weights.idf[token], expected, rel_tol=1e-6)
    assert weights.idf.dtype == "float32" and weights.idf[CLS] == weights.idf.min() > 0


def test_of_a_text_beyond_the_window_what_the_model_sees(tokenizer):
    weights = learn_term_weights(["a b c d", "a"], tokenizer, seq_length=4)  # [CLS] a b [SEP]
    assert weights.average_length == 3.5
    assert weights.idf[C] == weights.idf[D] == weights.idf[PAD] > weights.idf[B]


@given(st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=9),
       st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_brute_force(texts, batch):
    """Texts of token ids in padded batches; padding has an id that texts have too."""
    counter = TermCounter(7)
    for start in range(0, len(texts), batch):
        part = texts[start:start + batch]
        width = max(map(len, part))
        counter.add([text + [3] * (width - len(text)) for text in part],
                    [[1] * len(text) + [0] * (width - len(text)) for text in part])
    held_by = collections.Counter(token for text in texts for token in set(text))
    weights = counter.weights()
    assert counter.counts.tolist() == [held_by[token] for token in range(7)]
    assert weights.average_length == sum(map(len, texts)) / len(texts)
    expected = [math.log(1 + (len(texts) - held_by[token] + 0.5) / (held_by[token] + 0.5))
                for token in range(7)]
    np.testing.assert_allclose(weights.idf, expected, rtol=1e-6)


def test_a_stream_is_read_in_batches(tokenizer, monkeypatch):
    monkeypatch.setattr("bert_tf.tokenization.texts._AT_ONCE", 2)
    whole = learn_term_weights(TEXTS * 3, tokenizer)
    tokenized = []

    def stream():
        for number, text in enumerate(TEXTS * 3):
            assert number - sum(tokenized) <= 2  # no more is held
            yield text

    class Counting:
        vocabulary = tokenizer.vocabulary

        def tokenize(self, texts):
            tokenized.append(len(texts))
            return tokenizer.tokenize(texts)

    streamed = learn_term_weights(stream(), Counting())
    np.testing.assert_array_equal(streamed.idf, whole.idf)
    assert tokenized == [2, 2, 2, 2, 1]


def test_files_hold_a_text_a_line(tmp_path):
    (tmp_path / "a.txt").write_text("a a b\n\n  b c \n")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as stream:
        stream.write(json.dumps({"text": "a\nx"}) + "\n")
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl.gz")]
    assert list(read_texts(paths)) == TEXTS
    with pytest.raises(BertTfError, match="absent.txt"):
        list(read_texts([str(tmp_path / "absent.txt")]))


def test_no_corpus(tokenizer):
    with pytest.raises(BertTfError, match="a corpus without a text"):
        learn_term_weights([], tokenizer)
    with pytest.raises(UsageError, match="one text as a corpus"):
        learn_term_weights("a a b", tokenizer)
    with pytest.raises(UsageError, match=r"texts\[1\] is None"):
        learn_term_weights(["a", None], tokenizer)
