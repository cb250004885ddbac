"""Entities from labels against seqeval's."""

import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from bert_tf.tasks.token_classification.entities import join_units, split_tag

LABELS = ["I-B", "B-A", "O", "I-A", "B-B", "E-A", "S-B", "I-A-C", "B-A-C"]
BIO = LABELS[:5]


def found(rows, labels=LABELS, scores=None):
    """`(type, first, last)` of each row's entities, as seqeval gives them, and their scores."""
    ids = tf.ragged.constant([[labels.index(tag) for tag in row] for row in rows], tf.int32,
                             ragged_rank=1)
    scores = ids.with_values(tf.ones_like(ids.values, tf.float32)) if scores is None else (
        tf.ragged.constant(scores, tf.float32, ragged_rank=1))
    entities = join_units(labels, ids, scores)
    told = [[(label.decode(), first, last) for label, first, last in zip(*row, strict=True)]
            for row in zip(entities.label.to_list(), entities.first.to_list(),
                           entities.last.to_list(), strict=True)]
    return told, entities.score.to_list()


@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(st.sampled_from(LABELS) | st.sampled_from(BIO), max_size=12),
                min_size=1, max_size=12))
@example([["I-A", "I-B"], ["I-B", "B-B", "I-B", "O", "I-A"], [], ["B-A"]])
def test_seqeval(rows):
    expected = [get_entities(row) if row else [] for row in rows]
    assert found(rows)[0] == expected


def test_by_hand():
    """An entity goes on over no end of a text, and an I that goes on with nothing begins one."""
    told, scores = found([["O", "B-A", "I-A", "B-A"], ["I-A", "I-B", "O"]],
                         scores=[[1, 0.5, 0.25, 1], [0.75, 0.5, 1]])
    assert told == [[("A", 1, 2), ("A", 3, 3)], [("A", 0, 0), ("B", 1, 1)]]
    assert scores == [[0.375, 1.0], [0.75, 0.5]]


def test_labels_that_are_no_tags_are_entities_by_themselves():
    labels = ["NOUN", "VERB", "O", "X-ray"]
    assert found([["NOUN", "NOUN", "O", "VERB", "X-ray"]], labels)[0] == [
        [("NOUN", 0, 0), ("NOUN", 1, 1), ("VERB", 3, 3), ("X-ray", 4, 4)]]


def test_nothing():
    assert found([[]]) == ([[]], [[]])
    assert found([["O"], []]) == ([[], []], [[], []])


def test_split_tag():
    assert [split_tag(label) for label in ("B-PER", "I-A-B", "O", "NOUN", "B", "X-ray")] == [
        ("B", "PER"), ("I", "A-B"), ("O", ""), ("S", "NOUN"), ("S", "B"), ("S", "X-ray")]
