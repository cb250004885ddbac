"""A pair within a template has the ids of the whole text, and is truncated where it is a text."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from asked_pairs import TEMPLATE, chat_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from nasty_texts import TEXTS

from bert_tf.errors import UsageError
from bert_tf.tokenization.pair_template import PairTemplate, check_template, named

# Special tokens between the texts; nothing around them; text that joins both.
PASSAGE_FIRST = (TEMPLATE[0], "text_b.strip()", TEMPLATE[1], "text_a", TEMPLATE[2])
TEMPLATES = (TEMPLATE, ("q: ", "<|end|>\n<|start|>d", ""), ("", "", ""), ("", "  ", "\n"),
             ("", "text_a.strip()", " ", "text_b.strip()", "\n"), PASSAGE_FIRST)


@functools.cache
def tokenizer():
    return chat_tokenizer()


@functools.cache
def packing(template):
    """`pack` of a template in a graph, as it is used."""
    made = PairTemplate(tokenizer(), template)
    return made, tf.function(made.pack, autograph=False, input_signature=[
        [tf.TensorSpec([None], tf.string)] * 2, tf.TensorSpec([], tf.int64)])


def ids_of(template, pairs, seq_length=100_000):
    packed = packing(template)[1]([tf.constant(column) for column in zip(*pairs, strict=True)],
                                  seq_length)
    assert np.array_equal(packed["input_type_ids"], np.zeros_like(packed["input_mask"]))
    assert np.all(packed["input_word_ids"].numpy()[packed["input_mask"] == 0]
                  == tokenizer().vocabulary.pad_id)
    return tf.ragged.boolean_mask(packed["input_word_ids"], packed["input_mask"] > 0).to_list()


def whole(template, pairs):
    before, first, between, second, after = check_template(template)
    return tokenizer().tokenize([
        before + texts[first] + between + texts[second] + after for texts in map(named, pairs)],
        allow_special=True).to_list()


@pytest.mark.parametrize("template", TEMPLATES)
def test_ids_of_the_whole_text(template):
    texts = [*TEXTS, " a", "a?", "no\n", "?\n\n", "  ", "<think>", "\u0301"]
    pairs = [*zip(texts, texts[::-1], strict=True), ("", ""), ("a", ""), ("", " a"),
             *((each + "a" + each, each * 2) for each in map(chr, range(0x3001)) if each.isspace()),
             *((each + "a" + each, "b") for each in "\0\x1b\u180e\u200b\u2060\ufeff")]
    expected = whole(template, pairs)
    assert ids_of(template, pairs) == expected
    few = slice(-6, None)
    assert packing(template)[0].count([*zip(*pairs[few], strict=True)]).numpy().tolist() == [
        *map(len, expected[few])]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(*[st.text(st.sampled_from(" a?.\n\rno7é<>:\u0301가"), max_size=6)] * 2),
                min_size=1, max_size=20), st.sampled_from([TEMPLATE, PASSAGE_FIRST]))
def test_ids_of_any_text(pairs, template):
    assert ids_of(template, pairs) == whole(template, pairs)


def test_special_tokens_of_a_text_are_text():
    (ids,) = ids_of(TEMPLATE, [("<|end|>", "b")])
    end = tokenizer().vocabulary.sep_id
    assert ids.count(end) == 2 and whole(TEMPLATE, [("<|end|>", "b")])[0].count(end) == 3
    assert "<|end|>\n<Document>: b" in tokenizer().decode(ids)


def test_the_longer_text_is_cut():
    made = packing(TEMPLATE)[0]
    pairs = [("b" * 100, "c" * 4), ("b" * 4, "c" * 100), ("b" * 100, "c" * 101), ("b", "c")]
    for template in (PASSAGE_FIRST, TEMPLATE):
        rows = ids_of(template, pairs, made.size + 30)
        assert [(text.count("b"), text.count("c")) for text in (
            tokenizer().decode(row).replace("Document", "") for row in rows)] == [
                (26, 4), (4, 26), (15, 15), (1, 1)]
    empty = ids_of(TEMPLATE, [("", "")])[0]
    ends = whole(("", "", TEMPLATE[2]), [("", "")])[0]
    for row in rows:
        assert len(row) <= made.size + 30 and row[:20] == empty[:20] and row[-len(ends):] == ends


@pytest.mark.parametrize("text", ["\u0344" * 400, "\u0f73" * 400, "\u0344" * 3000])
def test_characters_that_become_several_are_cut(text):
    """NFC takes these apart, and they are of one segment with the template's blank."""
    length = packing(TEMPLATE)[0].shortest
    assert [*map(len, ids_of(TEMPLATE, [("q", text), (text, "p"), (text, text)], length))] == [
        length] * 3
    pairs = [("q", text[:20]), (f"e{text[:9]}\u0301", f"\u0301a{text[:9]}"), (text[:9], "")]
    assert ids_of(TEMPLATE, pairs) == whole(TEMPLATE, pairs)


def test_no_rows():
    packed = packing(TEMPLATE)[1]([tf.constant([], tf.string)] * 2, 200)
    assert packed["input_word_ids"].shape[0] == 0


@pytest.mark.parametrize("template", [
    ["a", "b"], "abc", [1, "b", "c"], {"a": 1, "b": 2, "c": 3}, ["", "text_a", "", "text_a", ""],
    ["", "text_a", "", "text_b"], ["", "text_a", "", "text_b.lower()", ""], ["", [], "", "", ""]])
def test_what_is_no_template(template):
    with pytest.raises(UsageError, match="template=.*expected the texts before, between and after"):
        check_template(template)
