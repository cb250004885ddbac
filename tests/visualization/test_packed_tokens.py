"""Tokens of a text are those that `pack` gives the model, and lead back to the text."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import WORDS, byte_pair, sentence_piece, word_piece

from bert_tf.errors import UsageError
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from bert_tf.visualization.packed_tokens import packed_tokens, sources

TEXT = st.lists(st.sampled_from([*WORDS.split(), " ", "  ", "[MASK]", "<mask>", "뷁", "e\u0301",
                                 "\n", "👩‍👩‍👧"]), max_size=12).map("".join)


@pytest.mark.parametrize("tokenizer", [
    word_piece, byte_pair, pytest.param(sentence_piece, marks=pytest.mark.long)])
@settings(deadline=None, max_examples=4)
@given(text=TEXT, pair=TEXT | st.none(), max_length=st.integers(7, 20))
def test_the_model_is_given_these_tokens(tokenizer, text, pair, max_length):
    tokenizer = tokenizer()
    vocabulary = tokenizer.vocabulary
    pieces = [tokenizer.tokenize([each], allow_special=True)
              for each in (text, pair) if each is not None]
    inputs = {name: value.numpy()[0] for name, value in pack(
        vocabulary, pieces, max_length, fixed=False).items()}
    packed = packed_tokens(tokenizer, text, pair, max_length)
    np.testing.assert_array_equal(packed["ids"], inputs["input_word_ids"])
    if vocabulary.pair_separators == 1:
        np.testing.assert_array_equal(packed["segments"], inputs["input_type_ids"])
    kept = len(packed["ids"]) - (2 if pair is None else 2 + vocabulary.pair_separators)
    assert packed["cut"] == sum(each.values.shape[0] for each in pieces) - kept
    assert packed["tokens"] == [vocabulary.tokens[each] for each in packed["ids"]]
    assert packed["special"].sum() == len(packed["ids"]) - kept


@settings(deadline=None, max_examples=4)
@given(text=TEXT, pair=TEXT)
def test_a_word_piece_is_read_where_it_comes_from(text, pair):
    packed = packed_tokens(word_piece(), text, pair, 50)
    found = sources([text, pair], packed["segments"], packed["offsets"])
    for token, source, special in zip(packed["tokens"], found, packed["special"], strict=True):
        assert (source is None) == special
        if token not in SPECIAL_TOKENS:
            assert unicodedata.normalize("NFC", source).lower() == token.removeprefix("##")


def test_bytes_are_spelt_out():
    assert packed_tokens(byte_pair(), "the dog\0", None, 50)["labels"][3:] == [
        "▁dog", "␀", "</s>"]
    labels = packed_tokens(byte_pair(), "the 안 <\n", "😀", 50)["labels"]
    assert labels == ["<s>", "th", "e", "␣", "안…", "…안", "␣", "<", "⏎", "</s>", "</s>",
                      "😀…", "…😀…", "…😀…", "…😀", "</s>"]
    # A special token that is written out has its place too.
    packed = packed_tokens(byte_pair(), "a <mask> 안", None, 50)
    assert packed["labels"][:6] == ["<s>", "a", "<mask>", "␣", "안…", "…안"]
    assert packed["offsets"][1:-1].tolist() == [[0, 1], [2, 8], [8, 9], [9, 10], [9, 10]]


def test_pieces_of_sentences_are_composed():
    labels = packed_tokens(sentence_piece(), "안녕하세요", None, 50)["labels"]
    assert "".join(labels[1:-1]) == "▁안녕하세요"


def test_text_of_a_model_of_morphemes_is_analysed():
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "영화", "를", "재밌", "게", "봤", "다"])
    text = "영화를 재밌게 봤다"
    packed = packed_tokens(Tokenizer(vocabulary, pretokenize="morphemes"), text, None, 20)
    found = sources([text], packed["segments"], packed["offsets"])
    assert found[1:-1] == packed["tokens"][1:-1] == ["영화", "를", "재밌", "게", "봤", "다"]


def test_what_cannot_be_packed():
    with pytest.raises(UsageError, match="at least 5"):
        packed_tokens(word_piece(), "a", "b", 4)
    with pytest.raises(UsageError, match="expected Unicode"):
        packed_tokens(word_piece(), "\udcff")
