"""Windows and labels of questions against the official run_squad.py and against definitions."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tasks.question_answering.features import span_features
from bert_tf.tasks.question_answering.preprocessor import QuestionPreprocessor
from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefgh한국어은가😀שלום"
WORDS = ["cab", "##bed", "한국"]


@pytest.fixture(scope="module")
def tokenizers():
    merges = [("Ġ", "a"), ("b", "c"), ("í", "ķ")]
    return {
        "word_piece": Tokenizer(Vocabulary([*SPECIAL_TOKENS, *".,", *LETTERS,
                                            *("##" + c for c in LETTERS), *WORDS]),
                                lower_case=True),
        "byte_pair": BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *byte_alphabet(),
                                        *map("".join, merges), "<mask>"], merges)}


def example(context, answer=None, first=None, question="a b", id="q"):
    if answer is None:
        return SpanExample(id, question, context, (), True, where=f"file.json (id {id})")
    first = context.index(answer) if first is None else first
    return SpanExample(id, question, context, ((answer, first), ("other", 0)),
                       where=f"file.json (id {id})")


def labelled(preprocessor, *examples):
    """`[(example, tokens of the window, tokens that the labels hold or None)]`."""
    features = span_features(examples, preprocessor, training=True)
    rows = features.rows
    found = []
    for row, number in enumerate(features.example):
        ids = rows["input_word_ids"][row]
        tokens = [token.decode() for token in preprocessor.tokenizer.tokens(ids).numpy().tolist()]
        start, end = rows["start_positions"][row], rows["end_positions"][row]
        found.append((number, tokens, tokens[start:end + 1] if end else None))
    return found


@pytest.mark.parametrize(("context", "answer", "tokens"), [
    ("a cab.", "cab", ["cab"]), ("a cabbed a", "bed", ["##bed"]), ("a cabbed a", "bb",
                                                                 ["cab", "##bed"]),
    ("한국은 가", "한국", ["한국"]), ("가 한국은", "한국은", ["한국", "##은"]),
    ("\u1112\u1161\u11ab국 a", "\u1112\u1161\u11ab", ["한국"]),
    ("CAB, Ab", "AB,", ["cab", ","]), ("a 😀 b", "😀", ["😀"]), ("a שלום b", "לו", ["##ל", "##ו"]),
    ("a  b  c", " b ", ["b"]), ("a\u200b b", "a\u200b", ["a"])])
def test_labels_are_the_tokens_of_the_answer(tokenizers, context, answer, tokens):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 32)
    assert labelled(preprocessor, example(context, answer))[0][2] == tokens


def test_a_window_without_the_whole_answer_points_at_the_first_token(tokenizers):
    # [CLS] a [SEP] + 4 tokens + [SEP], from 0, 2, 4 and 6.
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 8, doc_stride=2,
                                        max_query_length=1)
    context = "a b c d e f g h a b"
    found = labelled(preprocessor, example(context, "d e", question="a"),
                     example(context, question="a"), example(context, "a", question="a"),
                     example(context, "a", first=16, question="a"))
    answers = [[answer for number, _, answer in found if number == of] for of in range(4)]
    assert answers == [[None, ["d", "e"], None, None], [None] * 4, [["a"], None, None, None],
                       [None, None, None, ["a"]]]


def test_only_questions_in_training_have_labels(tokenizers):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 16)
    features = span_features([example("a b", "b"), example("", None)], preprocessor, training=False)
    assert set(features.rows) == {"input_word_ids", "input_type_ids"}
    assert features.example.tolist() == [0, 1] and features.window is None
    assert len(span_features([], preprocessor, training=True)) == 0


def test_questions_that_are_cut_are_counted(tokenizers):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 16, max_query_length=2)
    made = [example("a b c d e f g h " * 4, "b", question=question)
            for question in ("a", "a b", "a b c")]
    assert span_features(made, preprocessor, training=False).truncated == 1


def test_an_answer_of_nothing_is_refused(tokenizers):
    preprocessor = QuestionPreprocessor(tokenizers["word_piece"], 16)
    with pytest.raises(BertTfError, match=r"file.json \(id x\): of the answer '\\u200b' the token"):
        span_features([example("a b", "b"), example("a \u200b b", "\u200b", id="x")], preprocessor,
                      True)


@settings(max_examples=8, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["word_piece", "byte_pair"]),
       context=st.text(LETTERS + " \n.", min_size=1, max_size=40))
def test_the_label_covers_the_answer_and_no_more(tokenizers, data, kind, context):
    """In the windows, by bytes: the first token has the answer's first character, and so on."""
    preprocessor = QuestionPreprocessor(tokenizers[kind], data.draw(st.integers(12, 24)), 3, 2)
    first = data.draw(st.integers(0, len(context) - 1))
    answer = context[first:data.draw(st.integers(first + 1, len(context)))]
    visible = answer.strip()
    if not visible:
        return
    features = span_features([example(context, answer, first)], preprocessor, True)
    windows = {name: value.numpy() for name, value in preprocessor(
        (tf.constant(["a b"]), tf.constant([context]))).items()}
    begin = len(context[:first + answer.index(visible)].encode())
    end = begin + len(visible.encode())
    # A blank may be a piece of its own.
    whole = len(context[:first].encode()), len(context[:first + len(answer)].encode())
    positions = zip(features.rows["start_positions"], features.rows["end_positions"], strict=True)
    for row, (start, last) in enumerate(positions):
        inside = windows["is_context"][row]
        starts, ends = windows["starts"][row], windows["ends"][row]
        if last:
            assert starts[start] <= begin and whole[0] < ends[start] and starts[last] < whole[1]
            assert end <= ends[last]
            assert inside[start:last + 1].all()
            assert not inside[start - 1] or ends[start - 1] <= begin or kind == "byte_pair"
            assert not inside[last + 1] or starts[last + 1] >= end or kind == "byte_pair"
        elif kind == "word_piece":  # else a window may hold part of a character
            assert not any(inside & (starts <= begin) & (begin < ends)) or not any(
                inside & (starts < end) & (end <= ends))
    if len(features) == 1:
        assert features.rows["end_positions"].all()


def test_against_the_official_features(tokenizers, tmp_path):
    """tf-models-official's `convert_examples_to_features` on words that are whole answers."""
    squad_lib = pytest.importorskip("official.nlp.data.squad_lib")
    from official.nlp.tools import tokenization

    vocabulary = tokenizers["word_piece"].vocabulary
    vocabulary.save(str(tmp_path / "vocab.txt"))
    theirs = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=True)
    random = np.random.default_rng(0)
    examples, official = [], []
    for number in range(12):
        words = random.choice(["a", "b", "cab", "cabbed", "ab.", "gh,a"], random.integers(1, 40))
        context = " ".join(words)
        first, last = sorted(random.integers(0, len(words), 2))
        answer = None if number % 4 == 3 else " ".join(words[first:last + 1])
        place = len(" ".join([*words[:first], ""])) if first else 0
        examples.append(example(context, answer, place, "a cabbed c", str(number)))
        official.append(squad_lib.SquadExample(
            str(number), "a cabbed c", words.tolist(), answer or "",
            first if answer else -1, last if answer else -1, answer is None))
    found = []
    squad_lib.convert_examples_to_features(official, theirs, 16, 5, 3, True, found.append)
    features = span_features(examples, QuestionPreprocessor(tokenizers["word_piece"], 16, 5, 3),
                             True)
    assert len(features) == len(found)
    for row, feature in enumerate(found):
        count = sum(feature.input_mask)
        assert features.example[row] == feature.example_index
        assert features.rows["input_word_ids"][row].tolist() == feature.input_ids[:count]
        assert features.rows["input_type_ids"][row].tolist() == feature.segment_ids[:count]
        assert features.rows["start_positions"][row] == feature.start_position
        assert features.rows["end_positions"][row] == feature.end_position
