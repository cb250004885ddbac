"""Which token speaks for which word: against a plain reading of the same text in Python."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from text_models import VOCABULARY

from bert_tf.errors import UsageError
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import Vocabulary

WORDS = st.lists(st.sampled_from(["a", "b", "good", "x", "c.", "\u0007", "bad,a"]), max_size=20)


def preprocessor(*options, **named):
    return WordPreprocessor(Tokenizer(VOCABULARY), *options, **named)


def read(each, texts, breaks=None):
    if breaks is not None:
        breaks = tf.ragged.constant(breaks, tf.int64, ragged_rank=1)
    return {name: values.numpy()
            for name, values in each(tf.constant(texts, tf.string), breaks=breaks).items()}


def test_a_text_in_one_window():
    told = read(preprocessor(16), ["good. x \u0007 a", "", "b"])
    names = [[VOCABULARY.tokens[number] for number in row] for row in told["input_word_ids"]]
    assert names == [["[CLS]", "good", "[UNK]", "[UNK]", "a", "[SEP]"],
                     ["[CLS]", "[SEP]", *["[PAD]"] * 4], ["[CLS]", "b", "[SEP]", *["[PAD]"] * 3]]
    np.testing.assert_array_equal(told["input_mask"].sum(1), [6, 2, 3])
    assert told["rows"].tolist() == [0, 1, 2] and told["num_units"].tolist() == [4, 0, 1]
    # The control character is no unit.
    assert told["unit_starts"].tolist() == [0, 4, 6, 10, 0]
    assert told["unit_ends"].tolist() == [4, 5, 7, 11, 1]
    assert told["unit_places"].tolist() == [[0, 1], [0, 2], [0, 3], [0, 4], [2, 1]]


AROUND = [VOCABULARY, *(Vocabulary(VOCABULARY.tokens, initial_token=False, **each) for each in (
    {}, {"final_separator": False, "pair_separators": 0}))]


@settings(deadline=None, max_examples=12)
@given(st.lists(WORDS, max_size=4), st.integers(3, 9), st.sampled_from(AROUND), st.data())
def test_every_unit_is_seen_once_with_context(rows, seq_length, vocabulary, data):
    size = seq_length - 2
    stride = data.draw(st.integers(1, size))
    texts = [" ".join(row) for row in rows]
    each = WordPreprocessor(Tokenizer(vocabulary), seq_length, stride=stride)
    told, initial = read(each, texts), int(vocabulary.initial_token)
    pieces = [Tokenizer(VOCABULARY).tokenize([text])[0].numpy().tolist() for text in texts]
    assert told["num_units"].tolist() == [len(row) for row in pieces]  # a piece each here
    units = iter(zip(told["unit_starts"], told["unit_ends"], told["unit_places"], strict=True))
    for text, row in zip(range(len(texts)), pieces, strict=True):
        windows = np.flatnonzero(told["rows"] == text)
        for place, (piece, unit) in enumerate(zip(row, units, strict=False)):
            start, end, (window, position) = unit
            assert window in windows
            assert told["input_word_ids"][window, position] == piece
            assert VOCABULARY.id(texts[text][start:end]) == piece
            # No window has more on the side where there is less.
            first = (window - windows[0]) * stride
            assert position == initial + place - first
            shown = [min(place - k * stride, size - 1 - place + k * stride)
                     for k in range(len(windows)) if 0 <= place - k * stride < size]
            if window not in (windows[0], windows[-1]):
                inside = position - initial
                assert shown and min(inside, size - 1 - inside) >= max(shown) - 1


def test_words_that_are_given():
    """`bad,a` as words of its own and as one: only where units begin differs."""
    text = "bad,a xb"
    assert read(preprocessor(16), [text])["unit_starts"].tolist() == [0, 3, 4, 6]
    assert read(preprocessor(16), [text], [[0, 6, 7]])["unit_starts"].tolist() == [0, 3, 4, 6, 7]


def test_characters():
    told = read(preprocessor(16, "character"), ["ab good", "a"])
    assert told["unit_starts"].tolist() == [0, 1, 3, 4, 5, 6, 0]
    assert [VOCABULARY.tokens[number] for number in told["input_word_ids"][0, 1:4]] == [
        "a", "b", "g"]


def test_blanks_belong_to_the_words_of_byte_pairs():
    from tiny_model import byte_pair

    tokenizer = byte_pair()
    each = WordPreprocessor(tokenizer, 16)
    told = read(each, ["the dog, the"])
    assert [tokenizer.vocabulary.tokens[number] for number in told["input_word_ids"][0]] == [
        "<s>", "Ġthe", "Ġdog", ",", "Ġthe", "</s>"]


@pytest.mark.parametrize(("options", "message"), [
    ({"unit": "syllable"}, "unit='syllable' is unknown; expected one of word, character"),
    ({"seq_length": 8, "stride": 7}, "stride=7 with seq_length=8; expected 1 to 6"),
    ({"seq_length": 2}, "stride=1 with seq_length=2")])
def test_bad_options(options, message):
    with pytest.raises(UsageError, match=message):
        preprocessor(**options)


def test_pairs_are_refused():
    with pytest.raises(UsageError, match="a pair of texts to tag; expected single texts"):
        preprocessor(16)((tf.constant(["a"]), tf.constant(["b"])))


@pytest.mark.parametrize("unit", ["word", "character"])
def test_it_is_saved_with_its_tokenizer(unit, tmp_path):
    each = preprocessor(12, unit, stride=3)
    each.save_assets(str(tmp_path))
    again = WordPreprocessor.from_config(each.get_config())
    again.load_assets(str(tmp_path))
    assert again.reading() == each.reading() == {"seq_length": 12, "unit": unit, "stride": 3}
    first, second = (read(one, ["good. ab" * 20]) for one in (each, again))
    for name, values in first.items():
        np.testing.assert_array_equal(second[name], values)
    assert keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(each)).unit == unit
