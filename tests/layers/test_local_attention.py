"""Windows block by block are the windows of a full score matrix, at the cost of what they span."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from bert_tf.layers import attention as module
from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.layout import Padded
from bert_tf.layers.padding_free import PaddingFree

RANDOM = np.random.default_rng(4)


def attention(window, **options):
    layer = SelfAttention(8, 2, initializer_range=0.5, seed=1, window=window, **options)
    layer.build((None, None, 8))
    return layer


def batch(lengths, width):
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype("int32")
    return RANDOM.normal(size=(*mask.shape, 8)).astype("float32"), mask


def with_gradient(layer, hidden, layout, mask, **options):
    """The context and the gradients of something made of its attended positions."""
    hidden = tf.constant(hidden)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        context = layer(layout.tokens(hidden), layout=layout, **options)
        context = context[0] if options else context
        restored = layout.restore(context) * mask[..., None]
        loss = tf.reduce_sum(tf.sin(restored))
    return [restored, *tape.gradient(loss, [hidden, layer.key.kernel.value])]


SIZES = [(8, 5), (8, 32), (8, 33), (6, 97), (80, 100)]
# Each size once in `make test`, of either causality and with and without rotation.
QUICK = list(zip(SIZES, (0.0, 100.0, 100.0, 0.0, 100.0), (True, False, True, False, True),
                 strict=True))


@pytest.mark.parametrize(("size", "rotary_base", "causal"), [
    pytest.param(*case, marks=[pytest.mark.long] * (case not in QUICK))
    for case in itertools.product(SIZES, (0.0, 100.0), (False, True))])
def test_blocks_give_what_a_masked_matrix_gives(size, rotary_base, causal, monkeypatch):
    """In graphs of any length too, where nothing tells that there are few blocks."""
    window, width = size
    layer = attention(window, rotary_base=rotary_base)
    hidden, mask = batch([width, 1, width - 3], width)
    padded = Padded.of_mask(mask, "float32", causal)
    free = PaddingFree(mask, "float32", causal, keep_gaps=True)
    found = [with_gradient(layer, hidden, layout, mask) for layout in (padded, free)]
    monkeypatch.setattr(module, "_longest", lambda layout: np.inf)
    found += [with_gradient(layer, hidden, layout, mask) for layout in (padded, free)]
    whole = with_gradient(layer, hidden, padded, mask, return_attention_probs=True)
    for each in found:
        for one, other in zip(each, whole, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5)


def test_the_window_is_half_on_either_side():
    layer = attention(4)
    hidden, mask = batch([7], 7)
    _, probs = layer(hidden, np.zeros((1, 1, 1, 7), "float32"), return_attention_probs=True)
    place = np.arange(7)
    near = np.abs(place[:, None] - place) <= 2
    assert ((probs.numpy() > 0) == near).all()
    first = layer(Padded.of_mask(mask, "float32").tokens(hidden),
                  layout=Padded.of_mask(mask, "float32"), first_only=True)
    np.testing.assert_allclose(first, layer(hidden, np.zeros((1, 1, 1, 7), "float32"))[:, 0],
                               atol=1e-6)


def test_positions_are_kept_where_the_mask_has_gaps():
    """A token after a gap is as far away as in the row."""
    layer = attention(4, rotary_base=100.0)
    hidden, mask = batch([12, 9], 12)
    mask[0, 3:6] = mask[1, 1] = 0
    found = [with_gradient(layer, hidden, layout, mask)[0] for layout in (
        Padded.of_mask(mask, "float32"), PaddingFree(mask, "float32", keep_gaps=True))]
    np.testing.assert_allclose(*found, atol=1e-5)


def largest_tensor(call):
    """Elements of the largest result of an op within `call()`, run eagerly."""
    sizes = []

    def look(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        sizes.extend(output.shape.num_elements() for output in outputs
                     if isinstance(output, tf.Tensor))

    op_callbacks.add_op_callback(look)
    try:
        call()
    finally:
        op_callbacks.remove_op_callback(look)
    return max(sizes)


@pytest.mark.parametrize("make", [Padded.of_mask, functools.partial(PaddingFree, keep_gaps=True)])
@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_grows_with_the_square_of_the_length(make, causal):
    """Forward and backward, at 1,024 positions and at twice as many."""
    layer, largest = attention(16), []
    for width in (1024, 2048):
        hidden, mask = batch([width], width)
        largest.append(largest_tensor(lambda hidden=hidden, mask=mask: with_gradient(
            layer, hidden, make(mask, "float32", causal), mask)))
    assert largest[1] <= 2.1 * largest[0]
