"""The activation that the backward pass computes again, beside one that is kept."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.layers import feed_forward
from bert_tf.layers.transformer_block import TransformerBlock
from bert_tf.randomness import draw_at


def gradients_of(block, hidden):
    @tf.function
    def gradients():
        with tf.GradientTape() as tape, draw_at(1, 2, 0):
            tape.watch(hidden)
            outputs = block(hidden, training=True)
            total = tf.reduce_sum(outputs ** 2 * tf.reshape(
                tf.range(tf.size(outputs), dtype=tf.float32), tf.shape(outputs)))
        return tape.gradient(total, [hidden, *(variable.value
                                               for variable in block.trainable_variables)])

    return [tf.convert_to_tensor(each).numpy() for each in gradients()]


@pytest.mark.parametrize("options", [{}, {"gated": True}, {"lora": 2}], ids=str)
def test_gradients_are_the_same(options, monkeypatch):
    rank = options.pop("lora", None)
    block = TransformerBlock(8, 2, 12, dropout=0.2, initializer_range=0.3, seed=4, **options)
    hidden = tf.random.stateless_normal([2, 5, 8], [1, 2])
    block.build(hidden.shape)
    if rank:
        block.block_output.dense.enable_lora(
            rank, b_initializer=keras.initializers.RandomNormal(seed=5))
    calls, activation = [], block.intermediate.activation
    block.intermediate.activation = lambda *args: (calls.append(args), activation(*args))[1]
    kept = gradients_of(block, hidden)
    assert len(calls) == 1
    monkeypatch.setattr(feed_forward, "_MANY", 2 * 5 * 12)
    again = gradients_of(block, hidden)
    assert len(calls) == 3
    for computed, expected in zip(again, kept, strict=True):
        np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients_and_of_stateless_calls(monkeypatch):
    block = TransformerBlock(8, 2, 12, initializer_range=0.3, seed=4)
    hidden = tf.random.stateless_normal([2, 5, 8], [1, 2])
    block.build(hidden.shape)
    variables = [tf.convert_to_tensor(variable) for variable in block.trainable_variables]

    def run():
        with tf.GradientTape() as outer:
            outer.watch(variables)
            with tf.GradientTape() as tape:
                tape.watch(hidden)
                outputs, _ = block.stateless_call(variables, [], hidden, training=True)
                total = tf.reduce_sum(outputs ** 3)
            of_hidden = tape.gradient(total, hidden)
            total += tf.reduce_sum(of_hidden ** 2)
        return outer.gradient(total, variables)

    kept = run()
    monkeypatch.setattr(feed_forward, "_MANY", 2 * 5 * 12)
    for computed, expected in zip(run(), kept, strict=True):
        np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-4)
