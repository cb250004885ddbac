"""Windows of question and context against Python, against run_squad.py, and on any text."""

import functools

import keras
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from question_tokenizers import KINDS, LETTERS, TEXT, byte_pair, word_piece
from test_keras_hub_tokenizer import sentence_piece

from bert_tf.errors import UsageError
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tokenization.offsets import character_offsets


@functools.cache
def unigram():
    """A SentencePiece tokenizer of single characters and few words."""
    return sentence_piece([" ".join(LETTERS), "the cab", "한국어까지 한국어"], do_lower_case=True)


@pytest.fixture(scope="module")
def tokenizers():
    return {"word_piece": word_piece(), "byte_pair": byte_pair()}


def read(preprocessor, *rows):
    """The windows of (question, context) pairs, as arrays."""
    questions, contexts = zip(*rows, strict=True)
    windows = preprocessor({"question": tf.constant(questions), "context": tf.constant(contexts)})
    return {name: value.numpy() for name, value in windows.items()}


def official_windows(length, size, stride):
    """`(start, length)` of run_squad.py's windows, and the one of most context of each token."""
    spans, start = [], 0
    while start < length:
        spans.append((start, min(size, length - start)))
        if start + spans[-1][1] == length:
            break
        start += min(spans[-1][1], stride)

    def most(position):
        best = None
        for index, (first, count) in enumerate(spans):
            if first <= position < first + count:
                score = min(position - first, first + count - 1 - position) + 0.01 * count
                if best is None or score > best[0]:
                    best = score, index
        return best[1]

    return spans or [(0, 0)], [most(position) for position in range(length)]


@settings(max_examples=8, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3),
       kind=st.sampled_from(KINDS), seq_length=st.integers(9, 20),
       doc_stride=st.integers(1, 9), max_query_length=st.integers(1, 3))
def test_windows_are_those_of_run_squad(tokenizers, rows, kind, seq_length, doc_stride,
                                        max_query_length):
    tokenizer = tokenizers[kind]
    preprocessor = QuestionPreprocessor(tokenizer, seq_length, doc_stride, max_query_length)
    windows = read(preprocessor, *rows)
    vocabulary = tokenizer.vocabulary
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    index = 0
    for row, (question, context) in enumerate(rows):
        query = tokenizer.tokenize([question]).to_list()[0][:max_query_length]
        pieces, starts, ends = (ragged.to_list()[0]
                                for ragged in tokenizer.tokenize_with_offsets([context]))
        before = [cls, *query, *[sep] * vocabulary.pair_separators]
        size = seq_length - len(before) - 1
        spans, most = official_windows(len(pieces), size, doc_stride)
        for number, (first, count) in enumerate(spans):
            ids = [*before, *pieces[first:first + count], sep]
            got = {name: value[index].tolist() for name, value in windows.items()
                   if name != "rows"}
            width, begin = len(ids), len(before)
            assert windows["rows"][index] == row
            assert got["input_word_ids"][:width] == ids
            assert got["input_mask"] == [1] * width + [0] * (len(got["input_mask"]) - width)
            places = range(first, first + count)
            expected = {
                "is_context": [True] * count, "starts": starts[first:first + count],
                "ends": ends[first:first + count], "max_context": [most[p] == number
                                                                   for p in places],
                "opens": [starts[p] not in starts[:p] for p in places],
                "closes": [ends[p] not in ends[p + 1:] for p in places]}
            for name, values in expected.items():
                assert got[name][begin:begin + count] == values, name
                assert not any(got[name][:begin]) and not any(got[name][begin + count:]), name
            index += 1
    assert index == len(windows["rows"])


@pytest.mark.parametrize("make", [word_piece, lambda: word_piece(lower_case=False), byte_pair,
                                  lambda: byte_pair(add_prefix_space=True), unigram],
                         ids=["uncased", "cased", "byte_pair", "byte_pair_prefix", "unigram"])
def test_offsets_find_the_text(make):
    """Some token starts, and some ends, where the answer does: offsets in characters."""
    texts, answers = zip(
        ("The cab, a bed", "cab"), ("한국어까지 한국", "한국어"), ("가각 e\u0301c", "e\u0301"),
        ("a 😀😀 b", "😀"), ("שלום a", "שלום"),
        ("\u1112\u1161\u11ab가 a", "\u1112\u1161\u11ab"), strict=True)
    windows = read(QuestionPreprocessor(make(), 40, 20, 4), *(("a", text) for text in texts))
    assert windows["rows"].tolist() == list(range(len(texts)))
    starts, ends = (character_offsets(texts, tf.ragged.boolean_mask(
        windows[name], windows["is_context"])).to_list() for name in ("starts", "ends"))
    for row, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        first = text.index(answer)
        assert first in starts[row] and first + len(answer) in ends[row], text


def test_what_is_no_utf8_counts_as_one_character(tokenizers):
    for tokenizer in tokenizers.values():
        windows = read(QuestionPreprocessor(tokenizer, 20), (b"a", b"a\xc0\xfe b"))
        text = b"a\xc0\xfe b".decode(errors="replace")
        inside = windows["is_context"][0]
        assert windows["ends"][0][inside].max() == len(text.encode())


def test_a_question_that_is_too_long_loses_its_end(tokenizers):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 12, 3, 2)
    windows = read(preprocessor, ("a b c d e a b c d e a b c d", "e"))
    tokens = tokenizers["word_piece"].tokens(windows["input_word_ids"]).numpy().tolist()
    assert tokens == [[b"[CLS]", b"a", b"b", b"[SEP]", b"e", b"[SEP]"]]
    assert windows["input_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1]]


def test_an_empty_batch(tokenizers):
    windows = QuestionPreprocessor(tokenizers["word_piece"])((tf.constant([], tf.string),) * 2)
    assert windows["rows"].shape == (0,) and windows["input_word_ids"].shape[0] == 0


def test_round_trip(tokenizers):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 32, 5, 7)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(preprocessor))
    assert again.reading() == {"seq_length": 32, "doc_stride": 5, "max_query_length": 7}
    defaults = QuestionPreprocessor(seq_length=384).reading()
    assert (defaults["doc_stride"], defaults["max_query_length"]) == (128, 64)


def test_the_longest_question_is_loaded_before_its_tokenizer(tokenizers):
    most = QuestionPreprocessor(tokenizers["word_piece"], 16, max_query_length=12)
    assert type(most).from_config(most.get_config()).reading() == most.reading()


def test_another_window_leaves_room_for_the_context(tokenizers):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 32, 20, 12)
    preprocessor.resize(14)
    assert preprocessor.reading() == {"seq_length": 14, "doc_stride": 14, "max_query_length": 10}
    preprocessor.resize(16)
    assert preprocessor.reading() == {"seq_length": 16, "doc_stride": 14, "max_query_length": 10}
    with pytest.raises(UsageError, match="max_query_length=1 with seq_length=4; expected a longer"):
        preprocessor.resize(4)


@pytest.mark.parametrize(("options", "message"), [
    ({"seq_length": 16, "max_query_length": 13}, "max_query_length=13 with seq_length=16; "
                                                 "expected 1 to 12"),
    ({"seq_length": 16, "doc_stride": 17}, "doc_stride=17 with seq_length=16; expected 1 to 16"),
    ({"seq_length": 4}, "expected a longer window")])
def test_options_out_of_range(tokenizers, options, message):
    with pytest.raises(UsageError, match=message):
        QuestionPreprocessor(tokenizers["word_piece"], **options)


def test_other_inputs_are_refused(tokenizers):
    text = tf.constant(["a"])
    for inputs in ({"text": text}, text, (text, text, text)):
        with pytest.raises(UsageError, match="question"):
            QuestionPreprocessor(tokenizers["word_piece"])(inputs)
