"""Options of the embeddings: fixed positions, positions from the padding id, segments."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.layers.embeddings import Embeddings
from bert_tf.layers.positions import positions_from_padding, sinusoidal_positions

IDS = np.array([[4, 5, 6, 7], [4, 5, 1, 1], [4, 1, 6, 1]], "int32")
TYPES = np.array([[0, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 1]], "int32")
WIDE = {"initializer_range": 0.3, "seed": 7}


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoidal_formula(width):
    """Vaswani et al. 2017, section 3.5, in double precision."""
    expected = np.zeros((50, width))
    for position in range(50):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            expected[position, column] = np.cos(angle) if column % 2 else np.sin(angle)
    np.testing.assert_allclose(sinusoidal_positions(50, width), expected, atol=1e-5)


def test_positions_of_roberta(shared):
    expected = np.load(shared / "reference" / "hf_roberta" / "expected.npz")
    np.testing.assert_array_equal(positions_from_padding(expected["input_ids"], 1),
                                  expected["position_ids"])


def tables(layer):
    return {variable.path.split("/")[-1]: variable.numpy()
            for variable in layer.trainable_variables}


def test_gpt_is_the_plain_sum():
    layer = Embeddings(11, 8, 6, 0, norm=None, **WIDE)
    outputs = layer(IDS, TYPES)
    own = tables(layer)
    assert set(own) == {"word_embeddings", "position_embeddings"}
    np.testing.assert_allclose(outputs, own["word_embeddings"][IDS]
                               + own["position_embeddings"][:4], atol=1e-6)


def test_one_segment_is_added_everywhere():
    layer = Embeddings(11, 8, 6, 1, norm=None, **WIDE)
    outputs = layer(IDS, TYPES)
    own = tables(layer)
    np.testing.assert_allclose(outputs, own["word_embeddings"][IDS]
                               + own["position_embeddings"][:4]
                               + own["token_type_embeddings"][0], atol=1e-6)
    np.testing.assert_array_equal(outputs, layer(IDS, 0 * TYPES))


@pytest.mark.parametrize("padding_id", [None, 1])
def test_fixed_positions_have_no_table(padding_id):
    layer = Embeddings(11, 8, 6, 2, "sinusoidal", padding_id, norm=None, **WIDE)
    outputs = layer(IDS, TYPES)
    own = tables(layer)
    assert "position_embeddings" not in own
    places = np.arange(4) if padding_id is None else positions_from_padding(IDS, 1).numpy()
    np.testing.assert_allclose(
        outputs, own["word_embeddings"][IDS] + own["token_type_embeddings"][TYPES]
        + sinusoidal_positions(6, 8).numpy()[places], atol=1e-5)


def test_positions_from_padding_leave_fewer():
    layer = Embeddings(11, 8, 6, 1, padding_id=1, **WIDE)
    assert layer.longest == 4 and layer(IDS, TYPES).shape == (3, 4, 8)
    with pytest.raises(ValueError, match="at most 4"):
        layer(np.ones((1, 5), "int32"), np.ones((1, 5), "int32"))


@pytest.mark.parametrize("options", [{}, {"padding_id": 1},
                                     {"position_embedding": "sinusoidal"},
                                     {"position_embedding": "none"}])
def test_more_positions_than_there_are_where_shapes_are_dynamic(options):
    layer = Embeddings(11, 8, 6, 2, **options, **WIDE)
    embed = tf.function(layer, input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    wide = np.zeros((1, layer.longest + 1), "int32")
    np.testing.assert_allclose(embed(IDS, TYPES), layer(IDS, TYPES), atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"at most {layer.longest}: max_pos"):
        embed(wide, wide)


@pytest.mark.parametrize("position_embedding", ["learned", "sinusoidal"])
def test_xla_refuses_more_positions_than_there_are(position_embedding):
    """All beyond the last one were given that."""
    layer = Embeddings(11, 8, 6, 1, position_embedding, padding_id=1, **WIDE)
    embed = tf.function(layer, jit_compile=True,
                        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    np.testing.assert_allclose(embed(IDS, TYPES), layer(IDS, TYPES), atol=1e-6)
    wide = np.zeros((1, layer.longest + 1), "int32")
    with pytest.raises(tf.errors.InvalidArgumentError):
        embed(wide, wide)


@pytest.mark.parametrize("wrong", [2, -1])
def test_segments_that_the_table_does_not_have(wrong):
    """A product with one-hot rows would take them for 0."""
    layer = Embeddings(11, 8, 6, 2, **WIDE)
    for embed in (layer, tf.function(layer)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="input_type_ids must be 0 to 1"):
            embed(IDS, np.where(TYPES == 1, wrong, 0).astype("int32"))
