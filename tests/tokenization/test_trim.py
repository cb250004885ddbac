"""A tokenizer without what a text does not need splits that text as before."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import UsageError
from bert_tf.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from bert_tf.tokenization.sentence_piece import SentencePieceTokenizer
from bert_tf.tokenization.sentence_piece_model import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    make_model,
    read_model,
)
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.trim import PieceCounts, check_trims, trim
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = st.lists(st.text("abc ", max_size=12), min_size=1, max_size=4)


def check(tokenizer, texts, **options):
    """Trim to texts; the pieces are the same, by name and by offsets."""
    counted = PieceCounts(tokenizer).add_all(texts)
    trimmed, kept = trim(tokenizer, {*np.flatnonzero(counted.counts), *counted.tried}, **options)
    assert [*kept] == sorted({*kept}) and len(kept) == len(trimmed.vocabulary)
    assert trimmed.vocabulary.tokens == [tokenizer.vocabulary.tokens[number] for number in kept]
    before, after = (each.tokenize_with_offsets(texts) for each in (tokenizer, trimmed))
    assert [[int(kept[number]) for number in row] for row in after[0].to_list()] == (
        before[0].to_list())
    assert [each.to_list() for each in before[1:]] == [each.to_list() for each in after[1:]]
    assert trimmed.vocabulary.special_ids == tuple(
        [*kept].index(number) for number in tokenizer.vocabulary.special_ids)
    assert trimmed.options == tokenizer.options
    return trimmed


@settings(max_examples=5, deadline=None)
@given(pieces=st.sets(st.tuples(st.booleans(), st.text("abc", min_size=1, max_size=3)),
                      min_size=1, max_size=9), texts=TEXTS)
def test_word_pieces(pieces, texts):
    names = sorted("##" * continues + text for continues, text in pieces)
    check(Tokenizer(Vocabulary([*SPECIAL_TOKENS, "z", *names])), [*texts, "z"])


def test_an_unknown_word_stays_unknown():
    """Without "ab" the word would be a ##bc, as "a" and "##bc" are needed elsewhere."""
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "ab", "b", "##bc", "q"]))
    texts = ["abc", "a", "bbc", "a" * 300]
    assert tokenizer.tokenize(texts).to_list() == [[1], [5], [7, 8], [1]]
    assert check(tokenizer, texts).vocabulary.tokens == [*SPECIAL_TOKENS, "a", "ab", "b", "##bc"]


def test_long_texts_are_counted_one_at_a_time(monkeypatch):
    monkeypatch.setattr("bert_tf.tokenization.texts._CHARACTERS", 4)
    counts, counted = PieceCounts(Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]))), []
    monkeypatch.setattr(counts, "add", counted.append)
    counts.add_all(["a a a", "a a a a", "a"])
    assert counted == [["a a a"], ["a a a a"], ["a"]]


@settings(max_examples=5, deadline=None)
@given(merges=st.lists(st.tuples(st.sampled_from("abcĠ"), st.sampled_from("abc")), min_size=1,
                       max_size=4, unique=True), more=st.randoms(use_true_random=False),
       texts=TEXTS)
def test_byte_pairs(merges, more, texts):
    merges, names = list(merges), ["".join(pair) for pair in merges]
    for _ in range(6):
        pair = (more.choice([*"abc", *names]), more.choice([*"abc", *names]))
        if "Ġ" not in pair[1] and pair not in merges:
            merges.append(pair)
            names.append("".join(pair))
    tokenizer = BytePairTokenizer(["<pad>", "<unk>", "<s>", "</s>", "<mask>", *byte_alphabet(),
                                   *dict.fromkeys(names)], merges)
    trimmed = check(tokenizer, texts)
    assert {*trimmed.merges} <= {*tokenizer.merges}


@settings(max_examples=4, deadline=None)
@given(scores=st.dictionaries(st.text("ab▁", min_size=1, max_size=3).filter(
    lambda piece: "▁" not in piece[1:]), st.floats(-9, -1, width=16), min_size=1, max_size=9),
    texts=TEXTS)
def test_unigram_pieces(scores, texts):
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*((name, 0.0) for name in special), *sorted(scores.items())]
    model = make_model(pieces, [CONTROL, UNKNOWN, *[CONTROL] * 3, *[NORMAL] * len(scores)])
    check(SentencePieceTokenizer(model.SerializeToString()), texts)


def test_characters_are_kept_on_request():
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "##b", "ab", "##bc", "q"]))
    assert check(tokenizer, ["ab"]).vocabulary.tokens == [*SPECIAL_TOKENS, "ab"]
    assert check(tokenizer, ["ab"], keep_characters=True).vocabulary.tokens == [
        *SPECIAL_TOKENS, "a", "##b", "ab", "q"]


def test_models_that_join_pairs_are_refused():
    stream = io.BytesIO()
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ab abc abcab"] * 9), model_writer=stream, vocab_size=20,
        hard_vocab_limit=False, minloglevel=3, model_type="bpe", pad_id=0, unk_id=1, bos_id=-1,
        eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    tokenizer = SentencePieceTokenizer(stream.getvalue())
    assert len(read_model(tokenizer.model, "it").pieces) > 5
    with pytest.raises(UsageError, match="joins pairs of pieces; expected a Unigram model"):
        check_trims(tokenizer)
