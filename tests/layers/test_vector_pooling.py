"""Every pooling against its formula in NumPy, on random states."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import UsageError
from bert_tf.layers.vector_pooling import COMBINATIONS, POOLINGS, VectorPooling

RANDOM = np.random.default_rng(3)
LENGTHS = (7, 3, 5, 2)
CLS, SEP = 1, 2
STATES = [RANDOM.normal(size=(4, 7, 6)).astype("float32") - 0.5 for _ in range(4)]
POOLED = RANDOM.normal(size=(4, 6)).astype("float32")
MASK = (np.arange(7) < np.array(LENGTHS)[:, None]).astype("int32")
IDS = RANDOM.integers(3, 20, (4, 7)).astype("int32") * MASK
IDS[:, 0] = CLS
IDS[np.arange(4), np.array(LENGTHS) - 1] = SEP
IDS[0, 3] = SEP  # of a pair of texts


def pool(states=STATES[-1:], ids=IDS, mask=MASK, **options):
    layer = VectorPooling(3, 20, **options)
    layer.build()
    return layer(list(states), ids, mask, POOLED).numpy(), layer


def rows(hidden, masked=False):
    """The vectors that are pooled, text by text."""
    for vectors, ids, length in zip(hidden, IDS, LENGTHS, strict=True):
        kept = [not masked or number not in (CLS, SEP) for number in ids[:length]]
        yield vectors[:length][kept]


EXPECTED = {
    "mean": lambda vectors: vectors.mean(0),
    "max": lambda vectors: vectors.max(0),
    "mean_max": lambda vectors: np.concatenate([vectors.mean(0), vectors.max(0)]),
    "cls": lambda vectors: vectors[0],
    "sep": lambda vectors: vectors[-1],
}


@pytest.mark.parametrize("combine", COMBINATIONS)
@pytest.mark.parametrize("pooling", EXPECTED)
def test_layers_are_combined_and_then_pooled(pooling, combine):
    vectors, layer = pool(STATES[-2:], pooling=pooling, layers=(-2, -1), combine=combine)
    hidden = STATES[2] + STATES[3] if combine == "sum" else np.concatenate(STATES[2:], -1)
    np.testing.assert_allclose(vectors, [*map(EXPECTED[pooling], rows(hidden))], atol=1e-6)
    assert vectors.shape == (4, layer.width_factor * 6)


@pytest.mark.parametrize("pooling", ["mean", "max", "mean_max"])
def test_special_tokens_are_left_out_wherever_they_are(pooling):
    # The shortest text has nothing else.
    vectors, _ = pool(pooling=pooling, mask_specials=True, special_ids=(CLS, SEP))
    expected = [EXPECTED[pooling](kept) if len(kept) else np.zeros(vectors.shape[1])
                for kept in rows(STATES[-1], masked=True)]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert not vectors[3].any()


def test_none_gives_every_token_and_0_at_padding():
    vectors, _ = pool(pooling="none")
    np.testing.assert_array_equal(vectors, STATES[-1] * MASK[..., None])


def test_what_the_pooler_gave():
    np.testing.assert_array_equal(pool(pooling="cls_pooled")[0], POOLED)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_of_length_1(pooling):
    plain, normalized = (pool(pooling=pooling, normalize=each)[0] for each in (False, True))
    lengths = np.linalg.norm(plain, axis=-1, keepdims=True)
    np.testing.assert_allclose(normalized, plain / np.where(lengths > 0, lengths, 1), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "mean_max", "sep", "none"])
def test_padding_changes_nothing(pooling):
    other = np.where(MASK[..., None], STATES[-1], 9).astype("float32")
    np.testing.assert_array_equal(pool([other], ids=np.where(MASK, IDS, 7), pooling=pooling)[0],
                                  pool(pooling=pooling)[0])


@pytest.mark.parametrize("options", [{"pooling": "none"}, {"weighting": "bm25"}])
def test_numbers_of_a_mask_weigh_nothing(options):
    layer = VectorPooling(3, 20, **options)
    layer.build()
    if layer.term_weights is not None:
        layer.term_weights.assign(RANDOM.uniform(0.1, 3, 20), 6.5)
    np.testing.assert_array_equal(*(layer(STATES[-1:], IDS, mask) for mask in (MASK, 3 * MASK)))


@pytest.mark.parametrize("pooling", ["mean", "max", "mean_max", "sep"])
def test_padding_may_be_on_the_left(pooling):
    def turned(rows):
        return np.stack([np.roll(row, 7 - length, 0)
                         for row, length in zip(rows, LENGTHS, strict=True)])

    vectors, _ = pool([turned(STATES[-1])], turned(IDS), turned(MASK), pooling=pooling)
    np.testing.assert_allclose(vectors, pool(pooling=pooling)[0], atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "mean_max"])
def test_a_row_of_padding_is_0_and_so_is_its_gradient(pooling):
    layer = VectorPooling(3, 20, pooling, normalize=True)
    hidden = tf.constant(STATES[-1])
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        vectors = layer([hidden], IDS, MASK * [[1], [0], [1], [1]])
    assert not vectors[1].numpy().any()
    gradient = tape.gradient(vectors, hidden).numpy()
    assert np.isfinite(gradient).all() and not gradient[1].any() and gradient[0].any()


@pytest.mark.parametrize("weighting", ["idf", "bm25"])
def test_tokens_are_weighted_in_the_mean_alone(weighting):
    layer = VectorPooling(3, 20, "mean_max", weighting=weighting, mask_specials=True,
                          special_ids=(CLS, SEP))
    layer.build()
    layer.term_weights.assign(RANDOM.uniform(0.1, 3, 20), 6.5)
    weights = layer.term_weights(IDS, MASK).numpy() * ~np.isin(IDS, (CLS, SEP))
    vectors = layer(STATES[-1:], IDS, MASK).numpy()
    for row in range(3):
        mean = np.average(STATES[-1][row], axis=0, weights=weights[row])
        np.testing.assert_allclose(vectors[row, :6], mean, atol=1e-5)
    np.testing.assert_array_equal(vectors[:, 6:], pool(
        pooling="max", mask_specials=True, special_ids=(CLS, SEP))[0])


def test_ids_of_64_bits():
    """As NumPy has them."""
    options = {"mask_specials": True, "special_ids": (CLS, SEP)}
    np.testing.assert_array_equal(pool(ids=IDS.astype("int64"), **options)[0], pool(**options)[0])


def test_options_are_told_back():
    options = {"pooling": "mean_max", "layers": (0, -2), "combine": "sum", "mask_specials": True,
               "special_ids": (1, 2), "weighting": "idf", "normalize": True}
    layer = VectorPooling(3, 20, **options)
    assert layer.options() == {**options, "layers": [0, 2], "special_ids": [1, 2]}
    again = VectorPooling.from_config(layer.get_config())
    assert again.options() == layer.options() and again.layer_numbers == (0, 2)


@pytest.mark.parametrize(("options", "message"), [
    ({"pooling": "median"}, "pooling='median' is unknown"),
    ({"combine": "max"}, "combine='max' is unknown"),
    ({"weighting": "tf"}, "weighting='tf' is unknown"),
    ({"layers": (4,)}, "layer 4 of an encoder with 3; expected 0"),
    ({"layers": (-5,)}, "layer -5 of an encoder with 3"),
    ({"layers": (1.5,)}, "layer 1.5"),
    ({"layers": ()}, "one or more different layers"),
    ({"layers": (-1, 3)}, "one or more different layers"),
    ({"pooling": "max", "weighting": "idf"}, "weighting='idf' with pooling='max'"),
    ({"pooling": "cls", "mask_specials": True}, "mask_specials with pooling='cls'"),
    ({"mask_specials": True}, "mask_specials without a tokenizer"),
    ({"pooling": "cls_pooled", "layers": (-2,)}, r"layers=\(-1,\), which the pooler reads"),
])
def test_options_that_make_no_sense(options, message):
    with pytest.raises(UsageError, match=message):
        VectorPooling(3, 20, **options)


def test_flags_of_numpy_are_stored_as_plain_ones():
    flags = {"mask_specials": np.False_, "normalize": np.True_}
    assert '"normalize": true' in json.dumps(VectorPooling(3, 20, **flags).options())
