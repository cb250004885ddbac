"""Units of a text against the tokenizer's own words and Python's view of characters."""

import functools
import string
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bert_tf.tokenization import normalization
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.units import CharacterPieces, split_units, substrings
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

ALPHABET = "abAB.,'$한국어ㅋ中文é\u0301\u200d\u0007 \t\u3000\n😀Ü٣ß\u1100\u1161\ufffd"
TEXTS = st.lists(st.text(st.sampled_from(ALPHABET) | st.characters(codec="utf-8")), max_size=4)
PIECES = [*string.ascii_letters, *(f"##{letter}" for letter in string.ascii_letters), ".", ",",
          "'", "한", "##국", "中", "ab", "##ab", "é", "##é"]


@functools.cache
def tokenizer(**options):
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *PIECES]), **options)


CASED = {}
BARE = {"lower_case": True, "strip_accents": True}


def cut(text, unit, breaks=None):
    """`(starts, ends, texts, spaced, inside)` of the units of one text, Python lists."""
    if breaks is not None:
        breaks = tf.ragged.constant([breaks], tf.int64)
    units = split_units(tf.constant([text]), unit, breaks)
    return (units.starts[0].numpy().tolist(), units.ends[0].numpy().tolist(),
            [unit.decode() for unit in units.text.numpy()], units.spaced.numpy().tolist(),
            units.inside.numpy().tolist())


def test_words_by_hand():
    starts, ends, texts, spaced, inside = cut("I'm  at 中国 (no.1)", "word")
    assert texts == ["I", "'", "m", "at", "中", "国", "(", "no", ".", "1", ")"]
    assert starts == [0, 1, 2, 5, 8, 9, 11, 12, 14, 15, 16]
    assert ends == [1, 2, 3, 7, 9, 10, 12, 14, 15, 16, 17]
    assert [texts[i] for i in np.flatnonzero(spaced)] == ["I", "at", "中", "("]
    assert not any(inside)


def test_characters_by_hand():
    starts, ends, texts, spaced, inside = cut("경찰은 A\u0301b. \u200dx", "character")
    assert texts == ["경", "찰", "은", "A\u0301", "b", ".", "\u200d", "x"]
    assert starts == [0, 1, 2, 4, 6, 7, 9, 10] and ends == [1, 2, 3, 6, 7, 8, 10, 11]
    assert [texts[i] for i in np.flatnonzero(inside)] == ["찰", "은", "b", "x"]
    assert [texts[i] for i in np.flatnonzero(spaced)] == ["경", "A\u0301", "\u200d"]


def test_breaks_cut_and_nothing_else_changes():
    assert cut("abc def", "word", [0, 2, 4])[2] == ["ab", "c", "def"]
    assert cut("a\u0301b", "word", [0, 1, 2])[2] == ["a", "\u0301", "b"]
    assert cut("abc", "word", [0]) == cut("abc", "word")


def test_no_texts_and_empty_texts():
    for texts in ([], [""], ["", " \n"]):
        units = split_units(tf.constant(texts, tf.string), "word")
        assert units.starts.to_list() == [[]] * len(texts)
        assert units.text.shape == (0,)


@pytest.mark.parametrize("unit", ["word", "character"])
@settings(deadline=None, max_examples=12)
@given(TEXTS)
def test_every_character_is_in_one_unit_or_white(unit, texts):
    units = split_units(tf.constant(texts, tf.string), unit)
    written = substrings(tf.constant(texts, tf.string), units.starts, units.ends)
    assert written.values.numpy().tolist() == units.text.numpy().tolist()
    for text, starts, ends in zip(texts, units.starts.to_list(), units.ends.to_list(),
                                  strict=True):
        place = 0
        for start, end in zip(starts, ends, strict=True):
            assert all(normalization.clean(c) == " " for c in text[place:start])
            assert start < end and not any(normalization.clean(c) == " " for c in text[start:end])
            place = end
        assert all(normalization.clean(c) == " " for c in text[place:])


@settings(deadline=None, max_examples=12)
@given(TEXTS)
@example(["ab\u200dab", "\u0301a", ".\u0301a", "İstanbul中a"])
def test_words_have_the_pieces_of_the_text(texts):
    """Words tokenized one by one give what the whole text gives: they are the tokenizer's."""
    for each in (tokenizer(**CASED), tokenizer(**BARE)):
        if each.lower_case:  # ς or σ is told by what is around, even across an apostrophe
            texts = [text.replace("Σ", "s") for text in texts]
        units = split_units(tf.constant(texts, tf.string), "word")
        pieces = tf.RaggedTensor.from_row_splits(each.tokenize(units.text),
                                                 units.starts.row_splits).merge_dims(1, 2)
        assert pieces.to_list() == each.tokenize(tf.constant(texts, tf.string)).to_list()


@settings(deadline=None, max_examples=12)
@given(st.text(st.characters(codec="utf-8")))
def test_characters_are_those_of_python(text):
    """Units are the characters that are not white, but for those that join or vanish."""
    starts, _, _, _, _ = cut(text, "character")
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        if category[0] in "LNPS" and normalization.clean(character) and place not in starts:
            # What is inside a unit is what NFC may join to the character before.
            edges = normalization.composing_edges()
            assert np.searchsorted(edges, ord(character), side="right") % 2


def test_invalid_utf8_is_cut_and_not_refused():
    units = split_units(tf.constant([b"a\xff\xfeb c\xe2"]), "word")
    assert units.starts.to_list() == [[0, 5]] and units.ends.to_list() == [[4, 7]]


def ids_of(options, text):
    each = tokenizer(**options)
    units = split_units(tf.constant([text]), "character")
    ids = CharacterPieces(each)(units.text, units.inside)
    return [[each.vocabulary.tokens[number] for number in row] for row in ids.to_list()]


def test_pieces_of_characters():
    assert ids_of(CASED, "ab 한국.a") == [["a"], ["##b"], ["한"], ["##국"], ["."], ["a"]]
    # One form only, none, several characters, nothing.
    assert ids_of(CASED, "a한국中 국 X中ㅋ") == [
        ["a"], ["한"], ["##국"], ["中"], ["##국"], ["X"], ["中"], ["[UNK]"]]
    assert ids_of(BARE, "Éa\u0301İ \u0007") == [["e"], ["##a"], ["##i"], []]
    assert ids_of({"lower_case": True}, "İ") == [["i", "[UNK]"]]
    assert ids_of(CASED, "e\u0301e\u0301") == [["é"], ["##é"]]


def test_a_text_of_120_000_characters():
    text = "word. " * 20_000
    units = split_units(tf.constant([text]), "word")
    assert units.starts.row_lengths().numpy().tolist() == [40_000]
