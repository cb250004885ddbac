"""Layers of a frozen encoder, mixed and read by BiLSTMs, against NumPy and Keras' own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.layers.bilstm import BiLstmStack, both_ends
from bert_tf.layers.feature_lstm import FeatureLstm
from bert_tf.layers.feature_mix import FeatureMix
from bert_tf.models.families import build_encoder
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.token_classification.model import TokenClassifier

RANDOM = np.random.default_rng(5)
STATES = [RANDOM.normal(size=(3, 6, 8)).astype("float32") for _ in range(3)]
MASK = (np.arange(6) < [[6], [2], [4]]).astype("int32")
CONFIG = ModelConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                     intermediate_size=16, max_position_embeddings=12, initializer_range=0.2,
                     hidden_dropout_prob=0.5)
FEATURES = {"layers": [0, -1], "lstm_size": 6}


def batch(task):
    ids = RANDOM.integers(1, 30, (3, 6)).astype("int32") * MASK
    labels = ids[:, 0] % 2 if task == "classifier" else np.where(MASK > 0, ids % 2, -1)
    return {"input_word_ids": ids, "input_mask": MASK,
            "input_type_ids": np.zeros_like(MASK)}, labels.astype("int32")


def test_concat():
    assert FeatureMix(3).weights == []
    np.testing.assert_array_equal(FeatureMix(3)(STATES), np.concatenate(STATES, -1))


def test_weighted_sum():
    mix = FeatureMix(3, "weighted_sum")
    np.testing.assert_allclose(mix(STATES), np.mean(STATES, 0), atol=1e-6)  # as it begins
    mix.set_weights([np.array([0.5, -1, 2]), np.array(3.0)])
    shares = np.exp([0.5, -1, 2]) / np.exp([0.5, -1, 2]).sum()
    np.testing.assert_allclose(mix(STATES), 3 * np.tensordot(shares, STATES, 1), rtol=1e-5)
    with pytest.raises(UsageError, match="combine='sum' is unknown"):
        FeatureMix(3, "sum")


def test_two_keras_bilstms():
    layer = BiLstmStack(6, 2, seed=1)
    outputs = layer(STATES[0], MASK)
    hidden = STATES[0]
    for each in layer.layers:
        theirs = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))
        theirs.build(hidden.shape)
        theirs.set_weights(each.get_weights())
        hidden = theirs(hidden, mask=MASK.astype(bool)).numpy()
    np.testing.assert_allclose(outputs, hidden * MASK[..., None], atol=1e-5)
    first, second = (each.forward.get_weights()[1] for each in layer.layers)
    assert (first != second).any()


def test_both_ends_are_what_each_direction_ends_with():
    layer = BiLstmStack(6, 1, seed=1)
    outputs = layer(STATES[0], MASK)
    bilstm = layer.layers[0]
    for row, length in enumerate(MASK.sum(1)):
        tokens = STATES[0][row:row + 1, :length]
        left, right = (lstm(tokens[:, ::step])[:, -1] for lstm, step in (
            (bilstm.forward, 1), (bilstm.backward, -1)))
        np.testing.assert_allclose(both_ends(outputs, MASK)[row], tf.concat([left, right], -1)[0],
                                   atol=1e-5)


def test_feature_lstm_reads_the_layers_that_are_named():
    layer = FeatureLstm(8, 2, [-1, 0], "concat", 6, seed=1)
    layer.build()
    expected = layer.bilstm(np.concatenate([STATES[2], STATES[0]], -1), MASK)
    np.testing.assert_array_equal(layer(STATES, MASK), expected)
    again = FeatureLstm.from_config(layer.get_config())
    assert again.options() == layer.options() == {"layers": [2, 0], "combine": "concat",
                                                  "lstm_size": 6}


@pytest.mark.parametrize(("features", "message"), [
    ({"layers": [3]}, "layer 3 of an encoder with 2"),
    ({"layers": [-1, 2]}, "one or more different layers"),
    ({"layers": [1], "lstm_size": 7}, "lstm_size=7; expected an even number"),
    ({"layers": [1], "size": 8}, "expected a dict of layers and"),
    ({}, "expected a dict of layers and"), ([1], "expected a dict of layers and")])
def test_bad_options(features, message):
    with pytest.raises(UsageError, match=message):
        TokenClassifier(CONFIG, ["a", "b"], features=features)


@pytest.mark.long
@pytest.mark.parametrize("combine", ["concat", "weighted_sum"])
@pytest.mark.parametrize("task", ["classifier", "tagger"])
def test_the_encoder_stays_and_the_rest_learns(task, combine):
    make = {"tagger": TokenClassifier, "classifier": Classifier}[task]
    model = make(CONFIG, ["a", "b"], seed=3, features={**FEATURES, "combine": combine})
    assert all(variable.path.startswith("cls/") for variable in model.trainable_variables)
    inputs, labels = batch(task)
    states = build_encoder(CONFIG, encoder_outputs=True, seed=3)(inputs)
    states = [states["embedding_output"], *states["encoder_outputs"]]
    read = model.feature_lstm(states, MASK)
    expected = model.head(read if task == "tagger" else both_ends(read, MASK))
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)
    # In training, too, dropout is in front of the head only.
    model.dropout.rate = 0.0
    np.testing.assert_allclose(model(inputs, training=True), expected, atol=1e-5)

    before = [variable.numpy() for variable in model.encoder.weights]
    model.compile(keras.optimizers.Adam(0.05))
    losses = model.fit(inputs, labels, epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    for variable, value in zip(model.encoder.weights, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_a_left_to_right_encoder_may_have_features():
    causal = CONFIG.replace(attention="causal", pooling="first")
    with pytest.raises(UsageError, match="would see the first token alone"):
        Classifier(causal, ["a", "b"])
    Classifier(causal, ["a", "b"], features=FEATURES)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_what_a_left_to_right_encoder_may_be_pooled_by_has_seen_its_last_token(pooling):
    model = Classifier(CONFIG.replace(attention="causal", pooling=pooling), ["a", "b"], seed=1)
    ids = np.array([[4, 5, 6], [4, 5, 7]])
    first, second = model({"input_word_ids": ids, "input_mask": np.ones_like(ids),
                           "input_type_ids": np.zeros_like(ids)}).numpy()
    assert np.abs(first - second).max() > 1e-4
