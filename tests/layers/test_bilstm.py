"""The LSTM in both directions against Keras' own."""

import keras
import numpy as np
import pytest

from bert_tf.layers.bilstm import BiLstm, both_ends

RANDOM = np.random.default_rng(4)
HIDDEN = RANDOM.normal(size=(3, 6, 8)).astype("float32")
MASK = (np.arange(6) < [[6], [2], [4]]).astype("int32")


def test_keras_bidirectional():
    layer = BiLstm(8, seed=1)
    outputs = layer(HIDDEN, MASK)
    keras_layer = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))
    keras_layer.build(HIDDEN.shape)
    keras_layer.set_weights(layer.get_weights())
    expected = keras_layer(HIDDEN, mask=MASK.astype(bool)).numpy() * MASK[..., None]
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_as_exports_have_it(dtype):
    layer, whole = BiLstm(8, seed=1, dtype=dtype), BiLstm(8, seed=1)
    layer(HIDDEN, MASK), whole(HIDDEN, MASK)
    layer.set_weights(whole.get_weights())
    outputs = layer(HIDDEN, MASK)
    assert outputs.dtype == layer.forward.cell.recurrent_kernel.dtype == dtype
    np.testing.assert_allclose(np.array(outputs, "float32"), whole(HIDDEN, MASK), atol=0.05)


def test_padding_changes_nothing():
    layer = BiLstm(8, seed=1)
    changed = np.where(MASK[..., None], HIDDEN, 7).astype("float32")
    outputs = layer(HIDDEN, MASK).numpy()
    np.testing.assert_allclose(layer(changed, MASK), outputs, atol=1e-6)
    assert (outputs[MASK == 0] == 0).all()
    np.testing.assert_allclose(layer(HIDDEN[1:2, :2], MASK[1:2, :2]), outputs[1:2, :2], atol=1e-5)
    np.testing.assert_array_equal(layer(HIDDEN, 2 * MASK), outputs)


def test_padding_may_be_anywhere():
    layer, tokens = BiLstm(8, seed=1), HIDDEN[:1, :3]
    alone = layer(tokens, np.ones([1, 3], "int32"))
    for places in ([3, 4, 5], [1, 2, 4]):
        hidden, mask = np.full([1, 6, 8], 7, "float32"), np.zeros([1, 6], "int32")
        hidden[:, places], mask[:, places] = tokens, 1
        outputs = layer(hidden, mask)
        np.testing.assert_allclose(outputs.numpy()[:, places], alone, atol=1e-5)
        assert (outputs.numpy()[mask == 0] == 0).all()
        np.testing.assert_allclose(both_ends(outputs, mask), both_ends(alone, mask[:, places]),
                                   atol=1e-5)


def test_initial_weights_depend_on_the_seed_only():
    first, same, other = (BiLstm(8, seed=seed) for seed in (1, 1, 2))
    for layer in (first, same, other):
        layer.build((None, None, 8))
    for a, b in zip(first.get_weights(), same.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    forward, backward, different = (layer.get_weights()[0] for layer in (
        first.forward, first.backward, other.forward))
    assert (forward != backward).any() and (forward != different).any()
