"""Composed text and the places in it, against `unicodedata`."""

import unicodedata

import pytest
import tensorflow as tf

from bert_tf.tokenization.offsets import before_nfc, compose
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


@pytest.mark.parametrize("text", ["o\u20d7\u0323", "a\u1dc4\u0323b", "ao\u20d7\u0323\u0301"])
def test_marks_that_change_places_are_never_cut(text):
    def starts(text):
        return [len(text[:index].encode()) for index in range(len(text) + 1)]

    composed = unicodedata.normalize("NFC", text)
    assert composed != text
    (found,) = before_nfc(tf.constant([text]), tf.constant([composed]), tf.RaggedTensor.from_tensor(
        tf.constant([starts(composed)], tf.int64))).to_list()
    assert set(found) <= set(starts(text)) and found == sorted(found)
    assert (found[0], found[-1]) == (0, len(text.encode()))


def test_a_long_run_of_marks_is_composed_in_parts():
    """NFC takes a time that grows with the square of the run."""
    ordinary = unicodedata.normalize("NFD", "Café 영화, ") * 400
    marked = ordinary + "a" + "\u0301\u0323" * 40 + " end"
    # Texts beside it are composed as they are alone.
    others = ["", ordinary, "a" + "\u0301\u0323" * 40, ordinary + "a" + "\u0301\u0323" * 15]
    *beside, found = [text.decode() for text in compose(tf.constant([*others, marked])).numpy()]
    assert beside == [unicodedata.normalize("NFC", text) for text in others]
    # The letter and 30 marks, then 30 and 20: each sorted by itself.
    assert found != unicodedata.normalize("NFC", marked)
    assert unicodedata.normalize("NFC", found) == unicodedata.normalize("NFC", marked)
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "end"]))
    _, starts, ends = tokenizer.tokenize_with_offsets([marked])
    assert ends[0, -1] == len(marked.encode())
    assert "end".endswith(marked.encode()[starts[0, -1]:].decode())
