"""Vectors stored small: against NumPy written out, and the same bytes from a graph."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError
from bert_tf.retrieval.codes import VectorCode
from bert_tf.tasks.embedding.signature import OPERATIONS


def vectors_of(n, width=384, seed=0):
    """Vectors of many sizes, one of zeros, one with equal components."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(n, width)) * 10.0 ** generator.uniform(-6, 6, (n, 1))
    vectors[0], vectors[1] = 0, 0.5
    return vectors.astype(np.float32)


@pytest.mark.parametrize("dimensions", [None, 1, 7, 64, 383])
def test_fewer_dimensions_have_length_1(dimensions):
    vectors = vectors_of(50)
    codes = VectorCode(dimensions).encode(vectors)
    if dimensions is None:
        assert codes is vectors
        return
    expected = vectors[:, :dimensions].astype(np.float64)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(codes, expected / np.where(lengths, lengths, 1), rtol=3e-6)
    assert codes.dtype == np.float32 and not codes[0].any()


def test_int8():
    vectors = vectors_of(50) / 1e6
    code = VectorCode(precision="int8").calibrated(vectors[:40])
    codes = code.encode(vectors)
    assert codes.dtype == np.int8 and np.abs(codes[:40]).max() == 127 and codes.min() >= -127
    assert np.abs(code.decode(codes[:40]) - vectors[:40]).max() <= 0.5001 / code.scale
    assert VectorCode(precision="int8", scale=1.0).encode([[0.5, 1.5, -2.5, 200, -200]]).tolist(
        ) == [[0, 2, -2, 127, -127]]


def test_bits_are_those_of_packbits():
    vectors = vectors_of(50)
    code = VectorCode(64, "bits")
    codes = code.encode(vectors)
    np.testing.assert_array_equal(codes, np.packbits(vectors[:, :64] > 0, axis=1))
    assert codes.shape[1] == 8
    np.testing.assert_array_equal(code.decode(codes), np.where(vectors[:, :64] > 0, .125, -.125))


@pytest.mark.parametrize("precision", ["float32", "int8", "bits"])
@pytest.mark.parametrize("dimensions", [None, 8, 200])
def test_a_graph_gives_the_same_bytes(precision, dimensions):
    vectors = vectors_of(5_000)
    code = VectorCode(dimensions, precision).calibrated(vectors[:100])
    graph = tf.function(lambda vectors: code.encode(vectors, OPERATIONS), input_signature=[
        tf.TensorSpec([None, 384], tf.float32)])
    np.testing.assert_array_equal(graph(vectors).numpy(), code.encode(vectors), strict=True)


def test_clear_codes_stay():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(200, 64)).astype(np.float32)
    near = vectors + generator.uniform(-1, 1, vectors.shape).astype(np.float32) * 1e-3
    for code in (VectorCode(32, "bits"), VectorCode(None, "int8", 30.0)):
        clear = code.is_clear(vectors, 1e-3)
        same = code.encode(vectors) == code.encode(near)
        assert same[clear].all() and not same.all() and 0.2 < clear.mean() < 1


@pytest.mark.parametrize("options, width, message", [
    ({"dimensions": 0}, 8, "dimensions=0"), ({"dimensions": 9}, 8, "8 at most"),
    ({"precision": "int4"}, 8, "precision='int4' is unknown"),
    ({"precision": "bits", "dimensions": 20}, 64, "multiple of 8; try dimensions=16"),
    ({"precision": "bits"}, 20, "multiple of 8"), ({"precision": "int8"}, 8, "without a scale"),
    ({"scale": 1.0}, 8, "scale=1.0 of float32"),
    ({"precision": "int8", "scale": float("inf")}, 8, "above 0"),
])
def test_refused(options, width, message):
    with pytest.raises(UsageError, match=message):
        VectorCode(**options).encode(np.ones((2, width)))


@pytest.mark.parametrize("vectors", [np.zeros((3, 8)), np.full((1, 8), np.nan), np.ones((0, 8))])
def test_what_int8_cannot_be_calibrated_by(vectors):
    with pytest.raises(BertTfError, match="largest component"):
        VectorCode(precision="int8").calibrated(vectors)


def test_options_go_out_and_in():
    code = VectorCode(8, "int8", 2.0)
    assert VectorCode.from_options({**code.options(), "pooling": "mean"}) == code
    assert VectorCode().options() == {}
