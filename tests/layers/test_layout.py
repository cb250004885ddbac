"""Tokens in a row and in rectangles: nothing is lost, nothing is mixed up."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bert_tf import randomness
from bert_tf.layers.layout import Padded
from bert_tf.layers.padding_free import PaddingFree

MASKS = arrays.arrays(np.int32, st.tuples(st.integers(1, 9), st.integers(1, 16)),
                      elements=st.integers(0, 1))


def _layouts(mask):
    return Padded.of_mask(mask, "float32"), PaddingFree(mask, "float32", rectangles=3)


@settings(deadline=None, max_examples=12)
@given(MASKS)
def test_what_goes_in_comes_out(mask):
    """With any mask, gaps and empty rows too."""
    kept = mask.copy()
    kept[:, 0] = 1  # a row's first position is always there
    values = np.random.default_rng(0).normal(size=(*mask.shape, 4)).astype("float32")
    for layout, there in zip(_layouts(mask), (np.ones_like(mask), kept), strict=True):
        tokens = layout.tokens(tf.constant(values))
        count = there.sum()
        assert count <= len(tokens) < max(1.07 * count, count + 1)
        np.testing.assert_array_equal(layout.restore(tokens), values * there[..., None])
        np.testing.assert_array_equal(layout.in_order(layout.first(tokens)), values[:, 0])
        np.testing.assert_array_equal(
            layout.restore(layout.add_positions(tokens, tf.ones([mask.shape[1], 4]))),
            (values + 1) * there[..., None])
        for heads, merge, rows in ((layout.heads, layout.merge, tokens),
                                   (layout.first_heads, layout.merge_first,
                                    layout.first(tokens))):
            with tf.GradientTape() as tape:
                tape.watch(rows)
                parts = heads(rows, 2)
                merged = merge([2 * part for part in parts])
                loss = tf.reduce_sum(tf.sin(merged[:count]))
            np.testing.assert_array_equal(merged[:count], 2 * rows[:count])
            assert merged.shape == rows.shape
            wanted = 2 * np.cos(2 * rows) * (np.arange(len(rows)) < count)[:, None]
            np.testing.assert_allclose(tape.gradient(loss, rows), wanted, atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 300), min_size=4, max_size=40))
def test_rectangles_have_few_scores(lengths):
    """Of all ways to cut the sorted rows at sixteenths, the one with the least to hold."""
    counts = np.sort(lengths)[::-1]
    rows = len(counts)
    mask = np.arange(counts[0]) < np.array(lengths)[:, None]
    layout = PaddingFree(tf.cast(mask, tf.int32), "float32")
    sizes = [len(padding) for padding in layout.paddings]

    def parts(way):
        return list(itertools.pairwise(rows * cut // 16 for cut in way))

    def cost(way):
        return sum((end - start) * int(counts[start]) ** 2 * (1 + share)
                   for (start, end), share in zip(parts(way), np.diff(way) / 16, strict=True)
                   if end > start)

    ways = [(0, *cuts, 16) for cuts in itertools.combinations(range(1, 16), 3)]
    taken = [way for way in ways if [end - start for start, end in parts(way)] == sizes]
    assert min(map(cost, taken)) <= (1 + 1e-6) * min(map(cost, ways))
    if len(set(lengths)) == 1 and rows % 4 == 0:
        assert sizes == 4 * [rows // 4]


def test_values_of_another_batch_are_refused():
    """Where shapes show only when a graph runs, too."""
    layout = PaddingFree(tf.ones([2, 4], tf.int32), "float32")
    for shape in ([2, 5], [1, 4], [3, 4]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
            layout.tokens(tf.ones(shape))


@settings(deadline=None, max_examples=12)
@given(MASKS)
def test_kept_gaps_leave_every_token_at_its_position(mask):
    """Place by place in a rectangle are the positions of a row, up to its last real token."""
    batch, length = mask.shape
    layout = PaddingFree(mask, "float32", rectangles=3, keep_gaps=True)
    position = np.broadcast_to(np.arange(length, dtype="float32"), mask.shape)[..., None]
    tokens = layout.tokens(tf.constant(position))
    for places, padding, width in zip(layout.heads(tokens, 1), layout.paddings, layout.widths,
                                      strict=True):
        places, real = places.numpy()[:, 0, :, 0], padding.numpy()[:, 0, 0] == 0
        expected = np.broadcast_to(np.arange(width), places.shape)
        np.testing.assert_array_equal(places[real], expected[real])
    assert sum((padding.numpy() == 0).sum() for padding in layout.paddings) == mask.sum()


@settings(deadline=None, max_examples=12)
@given(MASKS, st.booleans())
def test_rectangles_hold_sequences_and_adders_hide_the_rest(mask, causal):
    """Summed over what the adders leave open, every token finds just its own sequence's."""
    batch, length = mask.shape
    values = (1 + np.arange(mask.size)).reshape(batch, length, 1).astype("float32")
    seen = np.tril(np.ones((length, length))) if causal else np.ones((length, length))
    expected = np.einsum("bt,ft,bt->bf", mask, seen, values[..., 0])
    for layout in (Padded.of_mask(mask, "float32", causal),
                   PaddingFree(mask, "float32", causal, rectangles=3)):
        tokens = layout.tokens(tf.constant(values))
        contexts = []
        for part, adder in zip(layout.heads(tokens, 1), layout.adders, strict=True):
            weights = tf.broadcast_to(tf.exp(adder), [*part.shape[:3], part.shape[2]])
            contexts.append(tf.matmul(weights, part))
        got = layout.restore(layout.merge(contexts))[..., 0]
        np.testing.assert_array_equal(got * mask, expected * mask)


def test_what_is_drawn():
    """With padding a row's bits are its example's; without, they repeat and replicas differ."""
    mask = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]], "int32")
    key = randomness.stream_key(1, "test")
    padded = Padded.of_mask(mask, "float32").restore(
        Padded.of_mask(mask, "float32").bits(key, 4, 8))
    half = Padded.of_mask(mask[2:], "float32")
    np.testing.assert_array_equal(padded[2:], half.restore(half.bits(key, 6, 8)))
    free = PaddingFree(mask, "float32")
    bits = free.bits(key, 4, 8)
    assert bits.shape == (9, 8)
    np.testing.assert_array_equal(bits, PaddingFree(mask, "float32").bits(key, 4, 8))
    other = PaddingFree(mask, "float32").bits(key, 8, 8)
    assert not set(bits.numpy().ravel()) & set(other.numpy().ravel())
    np.testing.assert_array_equal(free.in_order(free.of_first.bits(key, 4, 8)),
                                  Padded.of_mask(mask, "float32").of_first.bits(key, 4, 8))
