"""Chunks: bounded, complete, with documents to draw from, and no held-out text in training."""

import collections

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data import chunks
from bert_tf.data.documents import Piece
from bert_tf.errors import BertTfError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 200)
    monkeypatch.setattr(chunks, "_HEAD_BYTES", 40)


def _source(sizes, piece=5):
    """Documents of so many sentences of 10 bytes, in pieces of a few sentences."""
    def read():
        for document, size in enumerate(sizes):
            sentences = [f"{document:04d} {number:05d}" for number in range(size)]
            for start in range(0, size, piece):
                yield Piece(document, sentences[start:start + piece], start + piece >= size)
    return read


def _cut(sizes, next_sentence=True, holdout=0.0, seed=0):
    return list(chunks.cut_into_chunks(_source(sizes), next_sentence=next_sentence,
                                       holdout=holdout, seed=seed))


def _documents(part):
    return {sentence[:4] for sentences in part for sentence in sentences}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 70), min_size=2, max_size=30), st.sampled_from([0.0, 0.2]),
       st.integers(0, 50))
def test_all_text_once_in_bounded_chunks(sizes, holdout, seed):
    made = _cut(sizes, holdout=holdout, seed=seed)
    sentences = [sentence for chunk in made for document in chunk.own for sentence in document]
    expected = [s for piece in _source(sizes)() for s in piece.sentences]
    assert sorted(sentences) == expected
    parts = {"train": set(), "eval": set()}
    for chunk in made:
        assert chunk.size == sum(len(s) for document in chunk.own for s in document) < 220
        own = _documents(chunk.own)
        assert len(own) == len(chunk.own)
        assert not own & _documents(chunk.lent)
        assert len(own | _documents(chunk.lent)) >= 2
        parts[chunk.split] |= own | _documents(chunk.lent)
    assert not parts["train"] & parts["eval"]
    if holdout:
        assert len(parts["eval"]) >= 2 if len(sizes) >= 4 else not parts["eval"]
        assert parts["train"]
    for split, documents in parts.items():
        ours = [chunk for chunk in made if chunk.split == split]
        assert [chunk.number for chunk in ours] == list(range(len(ours)))
        assert sum(chunk.new_documents for chunk in ours) == len(documents)


def test_held_out_share():
    held_out = chunks.holds_out(_source([1] * 50), 0.1, seed=3)
    assert abs(sum(map(held_out, range(20_000))) / 20_000 - 0.1) < 0.01
    other = chunks.holds_out(_source([1] * 50), 0.1, seed=4)
    assert [*map(held_out, range(100))] != [*map(other, range(100))]


def test_a_document_longer_than_a_chunk_draws_from_its_neighbours():
    made = _cut([300, 3, 300, 3])
    lent = collections.Counter(len(_documents(chunk.lent)) for chunk in made)
    assert min(lent) >= 1 and len(made) > 20
    assert all(len("".join(head)) <= 40 for chunk in made for head in chunk.lent)


def test_a_single_document_has_no_negatives():
    with pytest.raises(BertTfError, match="single document.*--format full_sentences"):
        _cut([100])
    assert len(_cut([100], next_sentence=False)) == 5
