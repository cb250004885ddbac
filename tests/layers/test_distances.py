"""How distances enter the scores: buckets, biases, disentangled products, rotations, by formula."""

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_tf.layers.attention import SelfAttention
from bert_tf.layers.disentangled import RelativeEmbeddings, log_bucket
from bert_tf.layers.layout import Padded
from bert_tf.layers.relative_bias import RelativeBias, t5_bucket
from bert_tf.layers.rotary import rotated, rotation

RANDOM = np.random.default_rng(5)
HIDDEN = RANDOM.normal(size=(2, 9, 8)).astype("float32")
MASK = np.ones((2, 9), "int32")


def projected(dense, x):
    """`[…, positions, 8]` -> `[…, heads, positions, 4]`."""
    y = x @ dense.kernel.numpy() + dense.bias.numpy()
    return np.moveaxis(y.reshape(*y.shape[:-1], 2, 4), -2, -3)


def attention(**options):
    layer = SelfAttention(8, 2, initializer_range=0.5, seed=1, **options)
    layer.build((None, None, 8))
    for dense in (layer.query, layer.key, layer.value):
        dense.bias.assign(RANDOM.normal(size=8))
    return layer


def test_buckets_of_t5():
    """One each up to 7, then by the logarithm up to 128; 16 further ones for positions after."""
    def bucket(distance):
        size, after = abs(distance), 16 * (distance > 0)
        if size < 8:
            return size + after
        return after + min(15, 8 + int(math.log(size / 8) / math.log(128 / 8) * 8))

    # Powers of two are at the edge of a bucket, where float32 may round.
    distances = np.array([d for d in range(-300, 301) if abs(d) not in (16, 32, 64, 128)], "int32")
    np.testing.assert_array_equal(t5_bucket(distances, 32, 128), [bucket(d) for d in distances])


def test_buckets_of_deberta():
    def bucket(distance):
        size = abs(distance)
        if size <= 8:
            return distance
        return int(math.copysign(math.ceil(math.log(size / 8) / math.log(63 / 8) * 7) + 8,
                                 distance))

    distances = np.array([d for d in range(-200, 201) if abs(d) != 63], "int32")
    np.testing.assert_array_equal(log_bucket(distances, 16, 64), [bucket(d) for d in distances])
    assert log_bucket(tf.constant([63]), 16, 64).numpy() == 15
    assert log_bucket(tf.constant([7]), 4, 8).numpy() == 3


@pytest.mark.parametrize("training", [False, True])
def test_a_bias_for_each_head_and_distance(training):
    layer, bias = attention(), RelativeBias(2, 8, 6, initializer_range=1.0, seed=3)
    bias.build()
    layout = Padded.of_mask(MASK, "float32")
    _, (probs,) = layer(layout.tokens(HIDDEN), layout=layout, relative=bias.of_layout(layout),
                        return_attention_probs=True, training=training)
    query, key = (projected(dense, HIDDEN) for dense in (layer.query, layer.key))
    place = np.arange(9)
    bucket = t5_bucket((place[None] - place[:, None]).astype("int32"), 8, 6).numpy()
    added = np.moveaxis(bias.embeddings.numpy()[bucket], -1, 0)
    scores = np.einsum("bnfh,bnth->bnft", query, key) / 2 + added
    np.testing.assert_allclose(probs, special.softmax(scores, -1), atol=1e-5)


@pytest.mark.parametrize(("buckets", "farthest", "training", "terms"), [
    (4, 6, False, ("c2p", "p2c")), (4, 6, True, ("c2p", "p2c")), (12, 8, False, ("c2p", "p2c")),
    (4, 6, False, ("c2p",)), (4, 6, False, ("p2c",))])
def test_disentangled_scores(buckets, farthest, training, terms):
    """Equation 4 of the DeBERTa paper, entry by entry."""
    layer = attention(score_terms=1 + len(terms))
    shared = RelativeEmbeddings(8, buckets, farthest, initializer_range=1.0, seed=3, terms=terms)
    shared.build()
    layout = Padded.of_mask(MASK, "float32")
    _, (probs,) = layer(layout.tokens(HIDDEN), layout=layout, relative=shared.of_layout(layout),
                        return_attention_probs=True, training=training)
    table = shared.layer_norm(shared.embeddings.value).numpy()
    query, key = (projected(dense, HIDDEN) for dense in (layer.query, layer.key))
    table_query, table_key = (projected(dense, table) for dense in (layer.query, layer.key))
    scores = np.einsum("bnfh,bnth->bnft", query, key)
    for f in range(9):
        for t in range(9):
            bucket = int(log_bucket(tf.constant(f - t), buckets, farthest))
            row = np.clip(buckets + bucket, 0, 2 * buckets - 1)
            if "c2p" in terms:
                scores[:, :, f, t] += np.einsum("bnh,nh->bn", query[:, :, f], table_key[:, row])
            if "p2c" in terms:
                scores[:, :, f, t] += np.einsum("bnh,nh->bn", key[:, :, t], table_query[:, row])
    scores /= np.sqrt((1 + len(terms)) * 4)
    np.testing.assert_allclose(probs, special.softmax(scores, -1), atol=1e-5)


def test_one_head_for_many_rows_has_a_gradient():
    """Of these shapes a product that repeats the head crashed in oneDNN."""
    layer = SelfAttention(16, 1, score_terms=3, seed=1)
    shared = RelativeEmbeddings(16, 32, 64, seed=3)
    shared.build()
    hidden = tf.constant(RANDOM.normal(size=(4, 64, 16)), tf.float32)
    layout = Padded.of_mask(np.ones((4, 64), "int32"), "float32")
    with tf.GradientTape() as tape:
        context = layer(layout.tokens(hidden), layout=layout, relative=shared.of_layout(layout))
        loss = tf.reduce_sum(tf.square(context))
    assert np.abs(tape.gradient(loss, shared.embeddings.value)).max() > 0


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_rotations_of_pairs_as_complex_numbers(factor):
    positions = np.array([0, 1, 2, 3, 0, 1, 900], "int32")
    heads = RANDOM.normal(size=(7, 3, 8)).astype("float32")
    pairs = heads[..., :4] + 1j * heads[..., 4:]
    angle = positions[:, None, None] / factor / 100.0 ** (np.arange(4) / 4)
    turned = pairs * np.exp(1j * angle)
    angles = rotation(tf.constant(positions), 100.0, factor, 8)
    found = rotated(tf.constant(heads.reshape(7, 24)), angles)
    np.testing.assert_allclose(found, np.concatenate([turned.real, turned.imag], -1).reshape(7, 24),
                               atol=1e-4)
    half = rotated(tf.constant(heads.reshape(7, 24), tf.bfloat16), angles)
    assert half.dtype == "bfloat16"
