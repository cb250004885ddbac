"""Labelled texts as features: token ids, numbers for labels, weights of classes."""

import dataclasses
import functools

import numpy as np
import pytest
import sklearn.utils.class_weight as sklearn
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base import text_features as module
from bert_tf.tasks.base.examples import TextExample
from bert_tf.tasks.base.text_features import read_texts, text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefgh"
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *LETTERS])
WORDS = st.lists(st.sampled_from(LETTERS), max_size=40).map(" ".join)
CLS, SEP = VOCABULARY.cls_id, VOCABULARY.sep_id


@functools.cache
def make_preprocessor(*options):
    """Not when the module is loaded: TensorFlow's devices are not made then."""
    return TextPreprocessor(Tokenizer(VOCABULARY), *options)


@pytest.fixture
def preprocessor():
    return make_preprocessor(12)


def examples(labels, texts=None):
    return [TextExample(str(row), texts[row] if texts else "a b", None, label, None,
                        f"data.tsv:{row + 1}") for row, label in enumerate(labels)]


def ids_of(text):
    return [VOCABULARY.id(word) for word in text.split()]


@settings(max_examples=8, deadline=None)
@given(texts=st.lists(WORDS, min_size=1, max_size=12), chunk=st.sampled_from([1, 60, 1 << 20]))
def test_texts_in_their_order_whatever_the_chunks(texts, chunk):
    module._CHUNK_CHARACTERS, before = chunk, module._CHUNK_CHARACTERS
    try:
        read = read_texts({"text": texts}, make_preprocessor(12))
    finally:
        module._CHUNK_CHARACTERS = before
    rows = [row.tolist() for row in read["input_word_ids"]]
    assert rows == [[CLS, *ids_of(text)[:10], SEP] for text in texts]
    assert read["input_word_ids"].values.dtype == np.int32
    assert not read["input_type_ids"].values.any()
    np.testing.assert_array_equal(read["input_type_ids"].splits, read["input_word_ids"].splits)


@pytest.mark.parametrize(("options", "truncated"), [
    ((6,), 2), ((6, "head_tail"), 2), ((6, "windows"), 0), ((11,), 0)])
def test_texts_that_are_longer_than_what_is_read_are_counted(options, truncated):
    made = examples("xxxxy", ["a", "a b c d", "a b c d e", "a b c d e f g h a", "? b c d"])
    features = text_features(made, make_preprocessor(*options), ["x", "y"], "single_label")
    assert features.truncated == truncated
    pairs = [TextExample("0", "a b", text, "x") for text in ("a", "a b")]
    assert text_features(pairs, make_preprocessor(6), ["x"], "single_label").truncated == 1


def test_pairs(preprocessor):
    pairs = [TextExample("1", "a b", "c", "0"), TextExample("2", "d", "e f g", "1")]
    features = text_features(pairs, preprocessor, ["0", "1"], "single_label")
    for row, (a, b) in enumerate([("a b", "c"), ("d", "e f g")]):
        assert features.rows["input_word_ids"][row].tolist() == [
            CLS, *ids_of(a), SEP, *ids_of(b), SEP]
        assert features.rows["input_type_ids"][row].tolist() == [
            0] * (2 + len(ids_of(a))) + [1] * (1 + len(ids_of(b)))
    mixed = [*pairs, TextExample("3", "a", None, "1", where="data.tsv:4")]
    with pytest.raises(UsageError, match="data.tsv:4: a single text, unlike .* all pairs or all"):
        text_features(mixed, preprocessor, ["0", "1"], "single_label")


def test_windows_stand_one_after_the_other(preprocessor):
    windows_of = make_preprocessor(6, "windows", 2)
    features = text_features(examples(["x", "y"], ["a b c d e f g", "a"]), windows_of,
                             ["x", "y"], "single_label")
    assert features.window == 6
    windows = [ids_of("a b c d"), ids_of("c d e f"), ids_of("e f g")]
    assert features.rows["input_word_ids"][0].tolist() == [
        token for window in windows for token in (CLS, *window, SEP)]
    assert features.rows["input_word_ids"][1].tolist() == [CLS, *ids_of("a"), SEP]
    assert text_features(examples(["x"]), preprocessor, ["x", "y"], "single_label").window is None


@pytest.mark.parametrize("around", [{}, {"final_separator": False, "pair_separators": 0}])
def test_windows_are_full_whatever_tokens_stand_around_a_text(around):
    """A full one has as many tokens as the window, by which they are told apart."""
    vocabulary = Vocabulary(VOCABULARY.tokens, initial_token=False, **around)
    end = [SEP] * vocabulary.final_separator
    room = 6 - len(end)
    for long, length in (("windows", room + 4), ("head_tail", 6)):
        preprocessor = TextPreprocessor(Tokenizer(vocabulary), 6, long, 2)
        features = text_features(examples(["x"], ["a b c d e f g h a"]), preprocessor, ["x", "y"],
                                 "single_label")
        assert features.truncated == (long == "head_tail")
        ids = features.rows["input_word_ids"][0].tolist()
        if long == "windows":
            letters = ids_of("a b c d e f g h a")
            starts = range(0, len(letters) - room + 2, 2)
            assert ids == [token for start in starts
                           for token in (*letters[start:start + room], *end)]
        else:
            assert len(ids) == length


def test_labels_of_each_problem(preprocessor):
    single = text_features(examples(["no", "yes", None]), preprocessor, ["no", "yes"],
                           "single_label")
    np.testing.assert_array_equal(single.rows["label_ids"], [0, 1, -1])
    several = text_features(examples([("b", "a"), (), None, ("c",)]), preprocessor, ["a", "b", "c"],
                            "multi_label")
    np.testing.assert_array_equal(several.rows["label_ids"],
                                  [[1, 1, 0], [0, 0, 0], [-1, -1, -1], [0, 0, 1]])
    number = text_features(examples([2.5, None]), preprocessor, ["score"], "regression")
    np.testing.assert_array_equal(number.rows["label_ids"], [2.5, np.nan])
    assert [each.rows["label_ids"].dtype for each in (single, several, number)] == [
        np.int32, np.int32, np.float32]
    np.testing.assert_array_equal(single.example, [0, 1, 2])
    mixed = examples([None, "no", "yes"])
    mixed[2] = dataclasses.replace(mixed[2], probabilities={"yes": 0.75, "no": 0.25})
    soft = text_features(mixed, preprocessor, ["no", "yes", "maybe"], "single_label")
    np.testing.assert_array_equal(soft.rows["label_ids"], np.array(
        [[np.nan] * 3, [1, 0, 0], [0.25, 0.75, 0]], np.float32))
    assert "label_ids" not in text_features(examples([None]), preprocessor, ["a", "b"],
                                            "single_label").rows


@pytest.mark.parametrize(("problem", "label"), [("single_label", "yess"),
                                                ("multi_label", ("no", "yess"))])
def test_an_unknown_label_names_its_line(preprocessor, problem, label):
    with pytest.raises(BertTfError, match="data.tsv:2: label='yess' is unknown; expected one of "
                                         "no, yes; try label='yes'"):
        text_features(examples(["no" if problem == "single_label" else (), label]), preprocessor,
                      ["no", "yes"], problem)


def test_balanced_weights_are_scikit_learns(preprocessor):
    labels = ["a"] * 7 + ["b"] * 2 + ["c"]
    features = text_features(examples(labels), preprocessor, ["a", "b", "c"], "single_label",
                             "balanced")
    expected = sklearn.compute_sample_weight("balanced", labels)
    np.testing.assert_allclose(features.rows["example_weights"], expected, rtol=1e-6)
    assert features.rows["example_weights"].dtype == np.float32
    # A label without an example does not weigh on the others.
    features = text_features(examples(labels), preprocessor, ["a", "b", "c", "d"], "single_label",
                             "balanced")
    np.testing.assert_allclose(features.rows["example_weights"], expected, rtol=1e-6)


def test_weights_by_label(preprocessor):
    features = text_features(examples(["a", "b", None]), preprocessor, ["a", "b"], "single_label",
                             {"a": 1.0, "b": 3.0})
    np.testing.assert_array_equal(features.rows["example_weights"], [1, 3, 1])
    with pytest.raises(UsageError, match="weights for a, c; expected a weight for each of a, b"):
        text_features(examples(["a"]), preprocessor, ["a", "b"], "single_label", {"a": 1.0,
                                                                                  "c": 3.0})
    with pytest.raises(UsageError, match="class weights with problem='regression'"):
        text_features(examples([1.0]), preprocessor, ["score"], "regression", "balanced")


def test_no_examples(preprocessor):
    features = text_features([], preprocessor, ["a", "b"], "single_label")
    assert len(features) == 0 and len(features.rows["input_word_ids"]) == 0


def test_odd_texts(preprocessor):
    """The empty text is `[CLS] [SEP]`; one of 100,000 characters is cut to the window."""
    features = text_features(examples(["a"] * 4, ["", "a " * 50_000, "🙂 שלום", "a\tb\u202e"]),
                             preprocessor, ["a", "b"], "single_label")
    assert features.lengths.tolist() == [2, 12, 4, 4]
