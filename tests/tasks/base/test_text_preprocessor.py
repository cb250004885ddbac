"""The preprocessor: what becomes of texts, pairs and long texts; the tokenizer goes where it
goes."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from asked_pairs import TEMPLATE, chat_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from text_models import make_preprocessor, pack_words, texts_of_words

from bert_tf.errors import UsageError
from bert_tf.tasks.base.takes_text import text_tensors
from bert_tf.tasks.base.text_features import read_texts, truncated_rows
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=30)


@settings(max_examples=10, deadline=None)
@given(rows=st.lists(WORDS, min_size=1, max_size=5), seq_length=st.integers(4, 16))
def test_head(rows, seq_length):
    read = make_preprocessor(seq_length)(texts_of_words(rows))
    expected = pack_words([row[:seq_length - 2] for row in rows])
    for name in expected:
        np.testing.assert_array_equal(read[name], expected[name], err_msg=name)
        assert read[name].dtype == tf.int32


@settings(max_examples=10, deadline=None)
@given(rows=st.lists(WORDS, min_size=1, max_size=5), seq_length=st.integers(4, 16))
def test_head_and_tail(rows, seq_length):
    """A quarter of the room from the beginning, the rest from the end."""
    read = make_preprocessor(seq_length, "head_tail")(texts_of_words(rows))
    room = seq_length - 2
    head = room // 4
    cut = [row if len(row) <= room else row[:head] + row[len(row) - (room - head):]
           for row in rows]
    np.testing.assert_array_equal(read["input_word_ids"], pack_words(cut)["input_word_ids"])


@settings(max_examples=12, deadline=None)
@given(data=st.data(), rows=st.lists(WORDS, min_size=1, max_size=5))
def test_windows(data, rows):
    seq_length = data.draw(st.integers(4, 12))
    stride = data.draw(st.integers(1, seq_length - 2))
    read = make_preprocessor(seq_length, "windows", stride)(texts_of_words(rows))
    ids, mask = read["input_word_ids"].numpy(), read["input_mask"].numpy()
    most = 0
    for place, row in enumerate(rows):
        starts = [0]
        while starts[-1] + seq_length - 2 < len(row):
            starts.append(starts[-1] + stride)
        for number, start in enumerate(starts):
            words = row[start:start + seq_length - 2]
            real = ids[place, number][mask[place, number] > 0]
            np.testing.assert_array_equal(real, pack_words([words])["input_word_ids"][0])
        assert not mask[place, len(starts):].any() and not ids[place, len(starts):].any()
        most = max(most, len(starts))
    assert ids.shape == mask.shape == read["input_type_ids"].shape
    assert ids.shape[1] == most and ids.shape[2] <= seq_length


def test_the_same_text_in_every_form():
    preprocessor = make_preprocessor(8)
    text = tf.constant(["a b", "c"])
    for form in (text, text[:, None], {"text": text}, [text]):
        np.testing.assert_array_equal(preprocessor(form)["input_word_ids"],
                                      pack_words([["a", "b"], ["c"]])["input_word_ids"])
    other = tf.constant(["d", "e f"])
    pairs = [preprocessor(form) for form in ({"text_a": text, "text_b": other}, (text, other))]
    for name in pairs[0]:
        np.testing.assert_array_equal(pairs[0][name], pairs[1][name])
    np.testing.assert_array_equal(pairs[0]["input_type_ids"], [[0, 0, 0, 0, 1, 1],
                                                               [0, 0, 0, 1, 1, 1]])


@pytest.mark.parametrize("long", ["head", "head_tail", "windows"])
def test_no_texts(long):
    """What a replica gets of a batch that is smaller than the number of replicas."""
    read = make_preprocessor(8, long)(tf.constant([], tf.string))
    shape = (0, 1, 1) if long == "windows" else (0, 1)
    assert {tuple(ids.shape) for ids in read.values()} == {shape}


def test_what_is_refused():
    preprocessor = make_preprocessor(8)
    text = tf.constant(["a"])
    with pytest.raises(UsageError, match="inputs \\['text', 'text_b'\\]; expected"):
        preprocessor({"text": text, "text_b": text})
    with pytest.raises(UsageError, match="inputs .*'text_pair'.*text_a and text_b of a pair"):
        preprocessor({"text": text, "text_pair": text})
    with pytest.raises(UsageError, match="a text of type int32; expected strings"):
        preprocessor(tf.constant([1]))
    with pytest.raises(UsageError, match="a pair of texts with long='windows'"):
        make_preprocessor(8, "windows")((text, text))
    with pytest.raises(UsageError, match="long='tail' is unknown"):
        TextPreprocessor(None, 8, "tail")
    with pytest.raises(UsageError, match="stride=7 with seq_length=8; expected 1 to 6"):
        TextPreprocessor(None, 8, stride=7)
    with pytest.raises(UsageError, match="stride=0 with seq_length=8; expected 1 to 6"):
        TextPreprocessor(None, 8, stride=0)
    for options in ({"seq_length": 8.0}, {"seq_length": "8"}, {"seq_length": 8, "stride": 2.5}):
        [name, value] = list(options.items())[-1]
        with pytest.raises(UsageError, match=f"{name}={value!r}; expected an integer"):
            TextPreprocessor(None, **options)
    with pytest.raises(UsageError, match=r"seq_length=.*10\.0.*; expected an integer"):
        TextPreprocessor(None, 8).resize(np.percentile([8, 10, 10], 95))
    with pytest.raises(UsageError, match="a TextPreprocessor without a tokenizer"):
        TextPreprocessor(None, 8)(text)
    with pytest.raises(UsageError, match="the string .a text.; expected a list of strings"):
        text_tensors("a text")


def test_integers_of_numpy_are_stored_as_plain_ones():
    preprocessor = TextPreprocessor(None, np.int64(10), stride=np.int32(3))
    preprocessor.resize(np.int64(8))
    assert json.loads(json.dumps(preprocessor.reading())) == TextPreprocessor(
        None, 8, stride=3).reading()


def test_lists_and_arrays_become_tensors():
    strings = ["a", "é"]
    for form in (strings, np.array(strings), np.array(strings, object),
                 np.array([text.encode() for text in strings]), tf.constant(strings)):
        made = text_tensors({"text_a": form})["text_a"]
        assert made.dtype == tf.string
        assert [text.decode() for text in made.numpy()] == strings
    ids = np.ones((2, 3), "int32")
    assert text_tensors((ids, strings))[0] is ids
    assert text_tensors(None) is None


def test_in_a_functional_model_with_its_tokenizer_in_the_file(tmp_path):
    text = keras.Input((), dtype="string")
    model = keras.Model(text, make_preprocessor(8, "windows", 3)(text))
    path = str(tmp_path / "preprocessor.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)
    texts = tf.constant(["a b c d e f g h a b", "c"])
    for name, ids in model(texts).items():
        np.testing.assert_array_equal(loaded(texts)[name], ids)
        assert ids.shape == (2, 3, 8)


def test_pairs_within_a_template():
    tokenizer = chat_tokenizer()
    preprocessor = TextPreprocessor(tokenizer, 160, template=TEMPLATE)
    assert preprocessor.pair is True  # what a server asks by
    again = TextPreprocessor.from_config(preprocessor.get_config())
    again.use(tokenizer)
    columns = {"text_a": ["q", "q " * 9, "q"], "text_b": ["p", "p " * 9, "p" * 99]}
    rows = read_texts(columns, again)
    assert rows["input_word_ids"].lengths[2] == 160
    assert truncated_rows(rows, columns, again).tolist() == [2]
    assert preprocessor.num_special(2) == 66
    for make, message in (
            (lambda: preprocessor(tf.constant(["a"])), "single texts with a template"),
            (lambda: preprocessor.resize(81), "a template of 66 tokens; expected 82 or more"),
            (lambda: TextPreprocessor(tokenizer, 160, "windows", template=TEMPLATE),
             "long='windows' with a template"),
            (lambda: TextPreprocessor(None, template=["a"]), "template=.'a'.; expected the texts")):
        with pytest.raises(UsageError, match=message):
            make()
