"""Convolutions as the feed-forward network: the formula, and the same whatever is beside."""

import numpy as np
import pytest

from bert_tf.layers.conv import Conv
from bert_tf.layers.dense import Dense
from bert_tf.layers.feed_forward import Intermediate, Output
from bert_tf.layers.layout import Padded
from bert_tf.layers.masks import MASKED, padding_adder
from bert_tf.models.encoder import Encoder

RANDOM = np.random.default_rng(2)
LENGTHS = [5, 1, 3, 4]
SEQUENCES = [RANDOM.normal(size=(length, 8)).astype("float32") for length in LENGTHS]
WIDE = {"initializer_range": 0.3, "seed": 7}


def with_biases(layer):
    for variable in layer.trainable_variables:
        if variable.ndim == 1:
            variable.assign(variable + RANDOM.normal(size=variable.shape) * 0.3)
    return layer


def by_hand(layer, sequence):
    """The convolution of one sequence `[length, in]`, product by product."""
    kernel, reach = layer.kernel.numpy(), layer.kernel_size // 2
    output = np.tile(layer.bias.numpy(), (len(sequence), 1))
    for position in range(len(sequence)):
        for tap in range(layer.kernel_size):
            neighbour = position + tap - reach
            if 0 <= neighbour < len(sequence):
                output[position] += sequence[neighbour] @ kernel[tap]
    return output


def padded():
    """All sequences as rows: `[batch, seq_length, 8]` with garbage at padding, and the mask."""
    rows = RANDOM.normal(size=(len(SEQUENCES), max(LENGTHS) + 1, 8)).astype("float32")
    mask = np.zeros(rows.shape[:2], "int32")
    for row, sequence in enumerate(SEQUENCES):
        rows[row, :len(sequence)], mask[row, :len(sequence)] = sequence, 1
    return rows, mask


def packed():
    """All sequences in one stretch `[tokens, 8]`, and their numbers `[tokens]` from 1 on."""
    return np.concatenate(SEQUENCES), np.repeat(np.arange(1, 5, dtype="int32"), LENGTHS)


def packed_adder(numbers):
    """The adder `[1, 1, tokens, tokens]` by which a token sees its own sequence only."""
    other = numbers[:, np.newaxis] != numbers
    return (other * MASKED).astype("float32")[np.newaxis, np.newaxis]


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_the_formula_in_every_form(kernel_size):
    layer = Conv(6, kernel_size, **WIDE)
    layer.build((None, None, 8))
    with_biases(layer)
    expected = [by_hand(layer, sequence) for sequence in SEQUENCES]
    rows, mask = padded()
    for want, got in zip(expected, layer(rows, mask).numpy(), strict=True):
        np.testing.assert_allclose(got[:len(want)], want, atol=1e-5)
    tokens, numbers = packed()
    np.testing.assert_allclose(layer(tokens, numbers), np.concatenate(expected), atol=1e-5)
    np.testing.assert_allclose(layer(tokens[None], numbers[None])[0], np.concatenate(expected),
                               atol=1e-5)


def test_kernel_1_is_dense():
    dense, conv = Dense(6, **WIDE), Conv(6, 1, **WIDE)
    for layer in (dense, conv):
        layer.build((None, None, 8))
    with_biases(dense)
    conv.kernel.assign(dense.kernel.numpy()[np.newaxis])
    conv.bias.assign(dense.bias)
    rows, mask = padded()
    np.testing.assert_array_equal(conv(rows, mask), dense(rows))


def test_feed_forward_in_every_form():
    """Both halves of the feed-forward network: padded, packed, without padding, alone."""
    inner, outer = Intermediate(12, kernel_size=3, **WIDE), Output(8, kernel_size=3, **WIDE)
    inner.build((None, None, 8))
    outer.build((None, None, 12))

    def both(rows, adder):
        layout = Padded(adder, rows.shape[:2])
        tokens = layout.tokens(rows)
        return layout.restore(outer(inner(tokens, layout=layout), tokens, layout=layout)).numpy()

    alone = np.concatenate([both(sequence[None], np.zeros((1, 1, 1, len(sequence)), "float32"))[0]
                            for sequence in SEQUENCES])
    rows, mask = padded()
    np.testing.assert_allclose(both(rows, padding_adder(mask))[mask == 1], alone, atol=1e-5)
    tokens, numbers = packed()
    np.testing.assert_allclose(both(tokens[None], packed_adder(numbers))[0], alone,
                               atol=1e-5)


@pytest.mark.parametrize("kernel_size", [None, 3])
def test_a_stack_on_packed_rows_is_each_sequence_alone(kernel_size):
    """Attention needs rectangles, so that a stack runs on padded or packed rows."""
    stack = Encoder(3, 0, {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12,
                           "kernel_size": kernel_size, **WIDE})
    rows, mask = padded()
    of_rows = stack(rows, padding_adder(mask))[0]
    tokens, numbers = packed()
    of_packed = stack(tokens[None], packed_adder(numbers))[0]
    alone = [stack(sequence[None], np.zeros((1, 1, 1, len(sequence)), "float32"))[0]
             for sequence in SEQUENCES]
    for layer in range(3):
        expected = np.concatenate([outputs[layer].numpy()[0] for outputs in alone])
        np.testing.assert_allclose(of_rows[layer].numpy()[mask == 1], expected, atol=1e-5)
        np.testing.assert_allclose(of_packed[layer].numpy()[0], expected, atol=1e-5)
