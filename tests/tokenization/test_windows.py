"""Windows against the loop of google-research/bert `run_squad.py`, written out."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.tokenization.windows import cut_windows, stack_windows


def doc_spans(length, size, stride):
    """`(start, length)` of each span, as `convert_examples_to_features` finds them."""
    spans, start = [], 0
    while start < length or not spans:
        span = min(length - start, size)
        spans.append((start, span))
        if start + span == length:
            break
        start += min(span, stride)
    return spans


def ragged(lengths):
    """Row `i` holds `100 i`, `100 i + 1` …"""
    rows = [list(range(100 * row, 100 * row + length)) for row, length in enumerate(lengths)]
    return rows, tf.ragged.constant(rows, tf.int32, ragged_rank=1)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_windows_are_those_of_run_squad(data, lengths):
    size = data.draw(st.integers(1, 12))
    stride = data.draw(st.integers(1, size))
    values, pieces = ragged(lengths)
    rows, starts, windows = cut_windows(pieces, size, stride)
    expected = [(row, start, values[row][start:start + span])
                for row, length in enumerate(lengths)
                for start, span in doc_spans(length, size, stride)]
    assert [*zip(rows.numpy(), starts.numpy(), windows.to_list(), strict=True)] == expected
    assert rows.dtype == starts.dtype == tf.int64 and windows.dtype == tf.int32


@settings(max_examples=30, deadline=None)
@given(data=st.data(), lengths=st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_sizes_of_each_row(data, lengths):
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=len(lengths), max_size=len(lengths)))
    strides = [data.draw(st.integers(1, size)) for size in sizes]
    _, pieces = ragged(lengths)
    rows, starts, windows = cut_windows(pieces, tf.constant(sizes, tf.int64),
                                        tf.constant(strides, tf.int64))
    expected = [(row, start, span) for row in range(len(lengths))
                for start, span in doc_spans(lengths[row], sizes[row], strides[row])]
    assert [*zip(rows.numpy(), starts.numpy(), windows.row_lengths().numpy(),
                 strict=True)] == expected


@pytest.mark.parametrize(("length", "spans"), [
    (0, [(0, 0)]), (4, [(0, 4)]), (5, [(0, 4), (2, 3)]), (6, [(0, 4), (2, 4)]),
    (7, [(0, 4), (2, 4), (4, 3)])])
def test_ends(length, spans):
    """Size 4, stride 2: no window is only a part of another."""
    _, starts, windows = cut_windows(ragged([length])[1], 4, 2)
    assert [*zip(starts.numpy(), windows.row_lengths().numpy(), strict=True)] == spans


def test_no_rows():
    rows, starts, windows = cut_windows(tf.ragged.constant([], tf.int32, ragged_rank=1), 4, 2)
    assert len(rows) == len(starts) == windows.shape[0] == 0


def test_stacked_side_by_side():
    values = tf.constant([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(
        stack_windows(tf.constant([0, 0, 2], tf.int64), values, 3, fill=9),
        [[[1, 2], [3, 4]], [[9, 9], [9, 9]], [[5, 6], [9, 9]]])
