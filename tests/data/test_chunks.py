"""Chunks: bounded, complete, with documents to draw from, and no held-out text in training."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bert_tf.data import chunks
from bert_tf.data.documents import Piece
from bert_tf.errors import BertTfError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 200)
    monkeypatch.setattr(chunks, "_HEAD_BYTES", 40)
    monkeypatch.setattr(chunks, "_WINDOW_BYTES", 500)


def _source(sizes, piece=5):
    """Documents of so many sentences of 10 bytes, in pieces of a few sentences."""
    def read():
        for document, size in enumerate(sizes):
            sentences = [f"{document:04d} {number:05d}" for number in range(size)]
            for start in range(0, size, piece):
                yield Piece(document, sentences[start:start + piece], start + piece >= size)
    return read


def _cut(sizes, next_sentence=True, holdout=0.0, seed=0, piece=5):
    return list(chunks.cut_into_chunks(_source(sizes, piece), next_sentence=next_sentence,
                                       seq_length=1, holdout=holdout, seed=seed))


def _documents(part):
    documents = {document for document, _ in part}
    assert documents == {int(sentence[:4]) for _, sentences in part for sentence in sentences}
    return documents


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 70), min_size=2, max_size=30), st.sampled_from([0.0, 0.2]),
       st.integers(0, 50))
@example([1, 3, 1, 3], 0.2, 17)  # all of whose draws are below 0.2
def test_all_text_once_in_bounded_chunks(sizes, holdout, seed):
    made = _cut(sizes, holdout=holdout, seed=seed)
    sentences = [sentence for chunk in made for _, part in chunk.own for sentence in part]
    expected = [s for piece in _source(sizes)() for s in piece.sentences]
    assert sorted(sentences) == expected
    parts = {"train": set(), "eval": set()}
    for chunk in made:
        assert chunk.size == sum(len(s) for _, part in chunk.own for s in part) < 300
        own = _documents(chunk.own)
        assert not own & _documents(chunk.lent)
        assert len(own | _documents(chunk.lent)) >= 2
        parts[chunk.split] |= own | _documents(chunk.lent)
    assert not parts["train"] & parts["eval"]
    if holdout:
        assert len(parts["eval"]) >= 2 if len(sizes) >= 4 else not parts["eval"]
        assert len(parts["train"]) >= 2
    for split, documents in parts.items():
        ours = [chunk for chunk in made if chunk.split == split]
        assert [chunk.number for chunk in ours] == list(range(len(ours)))
        assert sum(chunk.new_documents for chunk in ours) == len(documents)


def test_held_out_share():
    def held_out(seed):
        read = chunks.assign_splits(_source([1] * 20_000), 0.1, seed)
        return [split == "eval" for split, _ in read()]

    assert abs(np.mean(held_out(3)) - 0.1) < 0.01
    assert held_out(3) != held_out(4)


def test_copies_of_a_document_go_the_same_way():
    def copies():
        for document in range(4000):
            yield Piece(document, [f"text {document % 1000}"], False)
            yield Piece(document, ["and more"], True)

    splits = {}
    for split, piece in chunks.assign_splits(copies, 0.2, seed=1)():
        splits.setdefault(piece.document % 1000, set()).add(split)
    assert all(len(found) == 1 for found in splits.values())
    assert abs(np.mean([found == {"eval"} for found in splits.values()]) - 0.2) < 0.05


def test_long_documents_are_mixed_and_lent_where_too_few_are_at_hand():
    made = _cut([30] * 20)
    assert sum(len(_documents(chunk.own)) > 2 for chunk in made) > len(made) / 2
    assert [chunk.own for chunk in made] == [chunk.own for chunk in _cut([30] * 20)]
    assert [chunk.own for chunk in made] != [chunk.own for chunk in _cut([30] * 20, seed=1)]
    alone = _cut([300, 3])
    assert len(alone) > 10
    assert all(1 in _documents(chunk.lent) | _documents(chunk.own) for chunk in alone)
    assert all(len("".join(head)) <= 40 for chunk in alone for _, head in chunk.lent)


def test_without_labels_the_text_stays_in_order():
    sizes = [3, 50, 4, 4]
    sentences = [s for chunk in _cut(sizes, next_sentence=False) for _, part in chunk.own
                 for s in part]
    assert sentences == [s for piece in _source(sizes)() for s in piece.sentences]


def test_a_single_document_has_no_negatives():
    with pytest.raises(BertTfError, match="single document.*--format full_sentences"):
        _cut([100])
    assert len(_cut([100], next_sentence=False)) == 5


def test_parts_of_a_document_of_many_sentences_take_linear_time():
    # Copied from each part on, what is left of the document takes minutes.
    made = _cut([500_000, 3], piece=500_000)
    assert sum(len(part) for chunk in made for _, part in chunk.own) == 500_003
