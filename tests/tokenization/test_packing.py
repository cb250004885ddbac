"""Packing against google-research/bert's `_truncate_seq_pair`, written out as loops."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import UsageError
from bert_tf.tokenization.packing import pack
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary(["a", *SPECIAL_TOKENS])
DOUBLE = Vocabulary(["a", *SPECIAL_TOKENS], pair_separators=2)
PAD, _, CLS, SEP, _ = VOCABULARY.special_ids
ROW = st.lists(st.integers(10, 99), max_size=12)


def packed_row(segments, seq_length, separators):
    segments = [list(segment) for segment in segments]
    special = 2 if len(segments) == 1 else 2 + separators
    while sum(map(len, segments)) > seq_length - special:
        longest = segments[0] if len(segments[0]) > len(segments[-1]) else segments[-1]
        longest.pop()
    ids, types = [CLS], [0]
    for index, segment in enumerate(segments):
        # RoBERTa (fairseq `encode`): a separator before the second segment too, no segment ids.
        before = [SEP] * (separators - 1) if index else []
        ids += [*before, *segment, SEP]
        types += [index if separators == 1 else 0] * (len(before) + len(segment) + 1)
    return ids, types


def padded(rows, length, value=0):
    rows = [row + [value] * (length - len(row)) for row in rows]
    return np.array(rows).reshape(len(rows), length)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(ROW, ROW), min_size=1, max_size=4),
       number=st.integers(1, 2), seq_length=st.integers(6, 20), fixed=st.booleans(),
       vocabulary=st.sampled_from([VOCABULARY, DOUBLE]))
def test_pack(rows, number, seq_length, fixed, vocabulary):
    rows = [row[:number] for row in rows]
    segments = [tf.ragged.constant([row[i] for row in rows], tf.int32, ragged_rank=1)
                for i in range(number)]
    outputs = pack(vocabulary, segments, seq_length, fixed)
    expected = [packed_row(row, seq_length, vocabulary.pair_separators) for row in rows]
    length = seq_length if fixed else max(len(ids) for ids, _ in expected)
    for name, value in (
            ("input_word_ids", padded([ids for ids, _ in expected], length, PAD)),
            ("input_type_ids", padded([types for _, types in expected], length)),
            ("input_mask", padded([[1] * len(ids) for ids, _ in expected], length))):
        assert outputs[name].dtype == tf.int32
        np.testing.assert_array_equal(outputs[name], value)


def test_pack_inside_a_graph_has_the_fixed_length():
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def graph(segment):
        return pack(VOCABULARY, [segment], 8)

    empty = tf.RaggedTensor.from_row_splits(tf.constant([], tf.int32), tf.constant([0], tf.int64))
    assert graph(empty)["input_word_ids"].shape == (0, 8)
    assert graph.get_concrete_function().structured_outputs["input_mask"].shape[1] == 8


def test_bad_arguments():
    segment = tf.ragged.constant([[10]])
    with pytest.raises(UsageError, match="at least 5"):
        pack(VOCABULARY, [segment, segment], 4)
    with pytest.raises(UsageError, match="at least 6"):
        pack(DOUBLE, [segment, segment], 5)
    with pytest.raises(UsageError, match="one or two"):
        pack(VOCABULARY, [segment] * 3, 16)
