"""The text of a continuation: what new tokens add to a text, blanks included."""

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import byte_pair, sentence_piece, word_piece

from bert_tf.saved_model.served_model import ServedModel
from bert_tf.saved_model.signatures import continuation

TOKENIZERS = {"word_piece": word_piece, "sentence_piece": sentence_piece, "byte_pair": byte_pair}


def _text(tokenizer, prompt, ids, num_tokens=None):
    served = ServedModel(None, tokenizer, 24)
    answer = continuation(served, tf.ragged.constant([prompt], dtype=tf.int32),
                          tf.constant([ids]), tf.constant([num_tokens or len(ids)]), text=True)
    return answer["text"].numpy()[0].decode()


@pytest.mark.parametrize(("prompt", "new", "text"), [
    ("the quick", "brown fox", " brown fox"),
    ("the C", "##A ##F ##É fox", "AFÉ fox"),
    ("", "the fox", "the fox"),
    ("the", "fox [SEP]", " fox"),
    ("안녕", "##하세요 [UNK] .", "하세요 ."),
])
def test_word_pieces_are_joined_and_special_tokens_vanish(prompt, new, text):
    tokenizer = word_piece()
    ids = [[tokenizer.vocabulary.id(token) for token in tokens.split()]
           for tokens in (f"[CLS] {prompt}", new)]
    assert _text(tokenizer, *ids) == text


def test_what_stands_behind_the_end_is_not_text():
    tokenizer = word_piece()
    fox, dog = map(tokenizer.vocabulary.id, ("fox", "dog"))
    assert _text(tokenizer, [fox], [dog, fox], num_tokens=1) == " dog"


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_text_begins_with_the_text_of_its_first_tokens(name, data):
    tokenizer = TOKENIZERS[name]()
    some_ids = st.integers(0, len(tokenizer.vocabulary) - 1)
    ids = data.draw(st.lists(some_ids, min_size=1, max_size=8))
    whole = tokenizer.detokenize([ids]).numpy()[0]
    for count in range(1, len(ids)):
        assert whole.startswith(tokenizer.detokenize([ids[:count]]).numpy()[0])
