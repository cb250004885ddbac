"""The input forms: what is packed, that nothing is lost, that labels tell the truth."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.config import FORMATS, NEXT_SENTENCE_FORMATS, PAIRS
from bert_tf.data import pairing

CLS, SEP = 1, 2
documents_of_lengths = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=8),
                                min_size=2, max_size=6)


def _chunk(documents, own=None, names=None):
    """Every token is a number of its own, so that it tells where it comes from."""
    lengths = [length for document in documents for length in document]
    return pairing.Chunk(
        np.arange(10, 10 + sum(lengths), dtype=np.int32), np.cumsum([0, *lengths]),
        np.cumsum([0, *map(len, documents)]), np.arange(len(documents)) if names is None else names,
        len(documents) if own is None else own)


def _make(chunk, format, seq_length=32, short_seq_prob=0.1, seed=0, pairs="random"):
    return pairing.make_examples(chunk, format=format, seq_length=seq_length,
                                 pairs=pairs if format in NEXT_SENTENCE_FORMATS else None,
                                 short_seq_prob=short_seq_prob, seed=seed)


def _sequences(chunk, examples, **around):
    vocabulary = SimpleNamespace(**{
        "continuation": np.zeros(10 + len(chunk.tokens), bool), "cls_id": CLS, "sep_id": SEP,
        "initial_token": True, "pair_types": True, **around})
    (ids, type_ids, starts), lengths = pairing.assemble(
        chunk, examples, np.arange(examples.count), vocabulary)
    assert (starts == (ids >= 10)).all()
    cuts = np.cumsum(lengths)[:-1]
    return list(zip(np.split(ids, cuts), np.split(type_ids, cuts), strict=True))[:examples.count]


def test_what_stands_around_a_text_is_the_vocabularys():
    chunk = _chunk([[3, 2], [4]])
    examples = _make(chunk, "doc_sentences", short_seq_prob=0.0)
    usual, bare = _sequences(chunk, examples), _sequences(chunk, examples, initial_token=False)
    for (ids, _), (without, _) in zip(usual, bare, strict=True):
        assert ids[0] == CLS and without.tolist() == ids[1:].tolist()
    pairs = _make(chunk, "segment_pair", pairs="next")
    assert any(types.any() for _, types in _sequences(chunk, pairs))
    assert not any(types.any() for _, types in _sequences(chunk, pairs, pair_types=False))


def _sentence_of(chunk, tokens):
    return np.searchsorted(chunk.sentences, np.asarray(tokens) - 10, "right") - 1


def _document_of(chunk, tokens):
    return np.searchsorted(chunk.documents, _sentence_of(chunk, tokens), "right") - 1


@settings(max_examples=60, deadline=None)
@given(documents_of_lengths, st.sampled_from(FORMATS), st.sampled_from(PAIRS), st.integers(8, 60),
       st.integers(0, 1000))
def test_every_sentence_is_used_and_windows_hold(documents, format, pairs, seq_length, seed):
    chunk = _chunk(documents)
    examples = _make(chunk, format, seq_length, seed=seed, pairs=pairs)
    sequences = _sequences(chunk, examples)
    seen = np.concatenate([[0], *(ids for ids, _ in sequences)])
    assert pairing.used_tokens(chunk, examples) == (len({*seen[seen >= 10]}), len(chunk.tokens))
    used = _sentence_of(chunk, seen[seen >= 10])
    expected = set(range(len(chunk.sentences) - 1))
    if pairs == "swapped" and format in NEXT_SENTENCE_FORMATS:
        # A lone sentence has no order.
        expected -= {int(start) for start, end in itertools.pairwise(chunk.documents)
                     if end - start == 1}
    assert set(used) == expected
    for ids, _ in sequences:
        assert len(ids) <= seq_length
        assert ids[0] == CLS and ids[-1] == SEP


@settings(max_examples=60, deadline=None)
@given(documents_of_lengths, st.sampled_from(NEXT_SENTENCE_FORMATS), st.integers(8, 60),
       st.integers(0, 1000))
def test_pairs(documents, format, seq_length, seed):
    chunk = _chunk(documents)
    examples = _make(chunk, format, seq_length, seed=seed)
    for (ids, types), label in zip(_sequences(chunk, examples), examples.pair_labels,
                                   strict=True):
        first, second = ids[types == 0], ids[types == 1]
        assert first[0] == CLS and first[-1] == SEP and second[-1] == SEP
        first, second = first[1:-1], second[:-1]
        for tokens in (first, second):
            assert len(tokens) and (np.diff(tokens) == 1).all()
        # 1 is random, and random is from another document.
        same = _document_of(chunk, first[-1]) == _document_of(chunk, second[0])
        assert label == (not same)
        if same:
            sentences = _sentence_of(chunk, [first[-1], second[0]])
            assert sentences[1] == sentences[0] + 1
        if format == "sentence_pair":
            assert len({*_sentence_of(chunk, first)}) == len({*_sentence_of(chunk, second)}) == 1


@settings(max_examples=80, deadline=None)
@given(documents_of_lengths, st.sampled_from(NEXT_SENTENCE_FORMATS),
       st.sampled_from(["swapped", "next"]), st.integers(8, 60), st.integers(0, 1000))
def test_pairs_of_what_follows(documents, format, pairs, seq_length, seed):
    chunk = _chunk(documents)
    examples = _make(chunk, format, seq_length, seed=seed, pairs=pairs)
    sequences = _sequences(chunk, examples)
    labels = examples.pair_labels.tolist() or [0] * len(sequences)
    assert len(examples.pair_labels) == (examples.count if pairs == "swapped" else 0)
    last = -1  # sentence
    for (ids, types), label in zip(sequences, labels, strict=True):
        parts = [tokens[tokens >= 10] for tokens in (ids[types == 0], ids[types == 1])]
        assert len(parts[0]) and np.count_nonzero(ids == SEP) == 1 + bool(len(parts[1]))
        sentences = [_sentence_of(chunk, part) for part in parts]
        if len(parts[1]):
            # In the order of the text, where label 1 says swapped, the second follows the first.
            first, second = sentences[::-1] if label else sentences
            assert second[0] == first[-1] + 1
            assert _document_of(chunk, parts[0][0]) == _document_of(chunk, parts[1][0])
            if format == "sentence_pair":
                assert len(set(first)) == len(set(second)) == 1
            if pairs == "swapped" and second[-1] > first[0] + 1:
                # A cut would tell the order: of more than two sentences none is cut.
                whole = chunk.sentences[second[-1] + 1] - chunk.sentences[first[0]]
                assert len(parts[0]) + len(parts[1]) == whole
        else:
            # Only the last sentence of a document is left alone.
            first = second = sentences[0]
            assert pairs == "next" and len(set(first)) == 1 and first[0] + 1 in chunk.documents
        # No sentence comes twice but the one before a sentence that was left alone.
        if pairs == "next" or first[0] not in chunk.documents:
            again = pairs == "swapped" and second[-1] + 1 in chunk.documents
            assert first[0] == last + 1 or (again and first[0] == last)
        last = second[-1]


@pytest.mark.parametrize("pairs", ["random", "swapped"])
@pytest.mark.parametrize("format", NEXT_SENTENCE_FORMATS)
@pytest.mark.parametrize("longest", [12, 200])
def test_labels_are_balanced(format, longest, pairs):
    rng = np.random.default_rng(0)
    chunk = _chunk([rng.integers(1, longest, rng.integers(3, 40)) for _ in range(200)])
    labels = _make(chunk, format, 128, pairs=pairs).pair_labels
    assert abs(labels.mean() - 0.5) < 0.01


def test_cuts_do_not_tell_the_order():
    chunk = _chunk([[200, 200]] * 400)  # both are cut, and the room for tokens is odd
    examples = _make(chunk, "segment_pair", 64, pairs="swapped")
    longer = np.argmax(examples.length.reshape(-1, 2), axis=1)
    for label in (0, 1):
        assert np.mean(longer[examples.pair_labels == label]) == np.mean(longer)


@pytest.mark.parametrize("pairs, count", [("swapped", 0), ("next", 3)])
def test_documents_of_one_sentence(pairs, count):
    examples = _make(_chunk([[5], [7], [40]]), "segment_pair", pairs=pairs)
    assert examples.count == count
    assert examples.length.tolist() == [5, 7, 29][:count]


def test_lent_documents_give_random_segments_only():
    chunk = _chunk([[5] * 40, [5] * 10, [5] * 10], own=1)
    examples = _make(chunk, "segment_pair")
    for ids, types in _sequences(chunk, examples):
        assert _document_of(chunk, ids[types == 0][1]) == 0
    lent = {int(_document_of(chunk, ids[types == 1][0])) for (ids, types), label in
            zip(_sequences(chunk, examples), examples.pair_labels, strict=True) if label}
    assert lent == {1, 2}


def test_parts_of_one_document_are_not_each_others_random_segments():
    names = np.array([7, 7, 7, 8])
    chunk = _chunk([[5] * 20] * 4, names=names)
    examples = _make(chunk, "segment_pair")
    for (ids, types), label in zip(_sequences(chunk, examples), examples.pair_labels,
                                   strict=True):
        pair = names[[_document_of(chunk, ids[types == type_id][-2]) for type_id in (0, 1)]]
        assert label == (pair[0] != pair[1])


def test_cutting_a_pair_takes_from_the_longer_and_from_both_ends():
    chunk = _chunk([[1000, 20, 1000], [30] * 3])
    examples = [_make(chunk, "sentence_pair", 64, seed=seed) for seed in range(30)]
    rows = [examples.length[:2] for examples in examples]
    nexts = [row.tolist() for row, e in zip(rows, examples, strict=True)
             if not e.pair_labels[0]]
    assert nexts and all(row == [41, 20] for row in nexts)
    starts = np.array([e.start[0] for e in examples])
    assert (starts > 400).all() and (starts < 600).all() and len(set(starts)) > 10


@settings(max_examples=60, deadline=None)
@given(documents_of_lengths, st.booleans(), st.integers(8, 60), st.integers(0, 1000))
def test_packed_sentences(documents, cross, seq_length, seed):
    chunk = _chunk(documents)
    examples = _make(chunk, "full_sentences" if cross else "doc_sentences", seq_length, 0.0, seed)
    sequences = [ids for ids, types in _sequences(chunk, examples)]
    text = np.concatenate([ids[ids >= 10] for ids in sequences])
    np.testing.assert_array_equal(text, chunk.tokens)  # all of it, in order, once
    ends = {*(chunk.sentences + 10)}
    for number, ids in enumerate(sequences):
        # A separator stands at the end and, crossing, between documents.
        tokens = ids[ids >= 10]
        inner = np.count_nonzero(np.diff(_document_of(chunk, tokens)))
        assert np.count_nonzero(ids == SEP) == inner + 1
        assert cross or inner == 0
        for token, is_whole in ((tokens[0], tokens[0] in ends),
                                (tokens[-1], tokens[-1] + 1 in ends)):
            sentence = _sentence_of(chunk, token)
            assert is_whole or np.diff(chunk.sentences)[sentence] > seq_length - 2
        if number + 1 < len(sequences):
            # The next sentence would not have fitted.
            following = sequences[number + 1][1]
            sentence = _sentence_of(chunk, following)
            new_document = _document_of(chunk, following) != _document_of(chunk, tokens[-1])
            rest = chunk.sentences[sentence + 1] + 10 - following
            if cross or not new_document:
                assert len(ids) + rest + new_document > seq_length


@settings(max_examples=60, deadline=None)
@given(documents_of_lengths, st.integers(8, 60), st.integers(0, 1000))
def test_packed_rows_are_full(documents, seq_length, seed):
    """All of the text in order, a separator after each document's part; a row is full, or has no
    room for a token and what ends it; but for the first and the last."""
    chunk = _chunk(documents)
    examples = _make(chunk, "packed", seq_length, seed=seed)
    sequences = [ids for ids, _ in _sequences(chunk, examples)]
    np.testing.assert_array_equal(np.concatenate(sequences)[np.concatenate(sequences) >= 10],
                                  chunk.tokens)
    assert all(seq_length - 1 <= len(ids) <= seq_length for ids in sequences[1:-1])
    assert len(sequences[0]) <= seq_length and len(sequences[-1]) <= seq_length
    for ids in sequences:
        tokens = ids[ids >= 10]
        ends = np.flatnonzero(np.diff(_document_of(chunk, tokens)))
        assert ids[-1] == SEP and np.count_nonzero(ids == SEP) == len(ends) + 1
        assert all(ids[1 + end + number + 1] == SEP for number, end in enumerate(ends))


def test_short_examples():
    rng = np.random.default_rng(0)
    chunk = _chunk([rng.integers(3, 12, 30) for _ in range(400)])
    for format in ("segment_pair", "full_sentences"):
        lengths = {}
        for share in (0.0, 0.1):
            examples = _make(chunk, format, 128, share)
            lengths[share] = np.array([len(ids) for ids, _ in _sequences(chunk, examples)])
        assert (lengths[0.1] < 60).mean() > (lengths[0.0] < 60).mean() + 0.03
    short = (lengths[0.1] < 110).mean()
    assert abs(short - 0.1 * 110 / 128) < 0.03


def test_seed():
    chunk = _chunk([[5, 9, 14, 3] * 5] * 5)
    one, same, other = (_make(chunk, "segment_pair", seed=seed) for seed in ("a", "a", "b"))
    np.testing.assert_array_equal(one.start, same.start)
    assert not np.array_equal(one.start, other.start)
    chunk = _chunk([[50]])  # where rows are cut
    assert len({_make(chunk, "packed", seed=seed).length[0] for seed in range(20)}) > 5


def test_passes_are_joined():
    chunk = _chunk([[5, 9], [7, 3]])
    passes = [_make(chunk, "segment_pair", seed=seed) for seed in range(3)]
    joined = pairing.join(passes)
    assert joined.count == sum(examples.count for examples in passes)
    expected = [ids.tolist() for examples in passes for ids, _ in _sequences(chunk, examples)]
    assert [ids.tolist() for ids, _ in _sequences(chunk, joined)] == expected
