"""Layers that are recomputed in the backward pass, beside those that are not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.layers.transformer_block import TransformerBlock
from bert_tf.models import backbone
from bert_tf.models.encoder import Encoder
from bert_tf.models.families import build_encoder
from bert_tf.randomness import draw_at
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.pretraining.language_model import LanguageModel

pytestmark = pytest.mark.graphs_improved

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 32, "max_position_embeddings": 16}
RATES = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.1}
INPUTS = {"input_word_ids": np.arange(36, dtype=np.int32).reshape(4, 9),
          "input_mask": (np.arange(9) < [[3], [9], [5], [2]]).astype(np.int32),
          "input_type_ids": np.zeros([4, 9], np.int32)}


def gradients_of(variables, call):
    """Gradients of what weighs every output and every position otherwise."""
    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            total = sum(tf.reduce_sum(output ** 2 * tf.reshape(
                tf.cast(tf.range(tf.size(output)), output.dtype), tf.shape(output)))
                for output in tf.nest.flatten(call()))
        found = tape.gradient(total, [variable.value for variable in variables],
                              unconnected_gradients="zero")
        return [tf.convert_to_tensor(each) for each in found]

    return gradients()


@pytest.mark.parametrize(("family", "padding_free"), [
    ("albert", True), ("mpnet", False),
    *(pytest.param(*values, marks=pytest.mark.long) for values in (
        ("bert", False), ("deberta", True)))])
def test_gradients_are_the_same(family, padding_free, monkeypatch):
    calls, call = [], TransformerBlock.call
    monkeypatch.setattr(TransformerBlock, "call", lambda self, *args, **options: (
        calls.append(self), call(self, *args, **options))[1])
    config = ModelConfig.from_dict({**SIZES, **RATES, "family": family})
    model = build_encoder(config, seed=3)
    model.backbone.padding_free = padding_free
    found = []
    for again in (False, True):
        model.backbone.gradient_checkpointing = again
        calls.clear()

        def run():
            with draw_at(1, 2, 0):
                return model(INPUTS, training=True)

        found.append(gradients_of(model.trainable_variables, run))
        assert len(calls) == (1 + again) * config.num_hidden_layers
    largest = max(np.abs(kept).max() for kept in found[0])
    for kept, computed in zip(*found, strict=True):
        np.testing.assert_allclose(computed, kept, rtol=1e-5, atol=1e-7 * largest)


@pytest.mark.parametrize("rates", [{"dropout": 0.2}, {"attention_dropout": 0.2}])
def test_outside_of_the_commands_the_same_elements_are_dropped_again(rates):
    encoder = Encoder(1, 0, {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32,
                             "initializer_range": 0.3, "seed": 4, **rates})
    hidden = tf.random.stateless_normal([2, 5, 16], [1, 2])
    encoder.build(hidden.shape)

    def run():
        return encoder(hidden, training=True, return_attention_probs=False)[0]

    def at_the_place_of_the_first_call():
        with draw_at(4, 0, 0):
            return run()

    expected = gradients_of(encoder.trainable_variables, at_the_place_of_the_first_call)
    encoder.gradient_checkpointing = True
    found, later = (gradients_of(encoder.trainable_variables, run) for _ in range(2))
    largest = max(np.abs(each).max() for each in expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6 * largest)
    assert any(np.abs(one - other).max() > 0.1 for one, other in zip(found, later, strict=True))


def test_inference_and_what_asks_for_probabilities_compute_once():
    config = ModelConfig.from_dict({**SIZES, "family": "bert", **dict.fromkeys(RATES, 0.0)})
    model = build_encoder(config, seed=3, attention_probs=True)
    expected = model(INPUTS, training=True)
    model.backbone.gradient_checkpointing = True
    found = model(INPUTS, training=True)
    np.testing.assert_array_equal(found["attention_probs"][1], expected["attention_probs"][1])
    # Scores are scaled elsewhere in training.
    np.testing.assert_allclose(model(INPUTS)["sequence_output"], expected["sequence_output"],
                               atol=1e-6)


@pytest.mark.parametrize("kind", [Classifier, LanguageModel])
def test_it_and_padding_free_may_be_set_between_two_fits(kind, monkeypatch):
    """Keras kept the function of the first one."""
    calls, recompute, layout = [], tf.recompute_grad, backbone.PaddingFree
    monkeypatch.setattr(tf, "recompute_grad", lambda call: calls.append("checkpointing")
                        or recompute(call))
    monkeypatch.setattr(backbone, "PaddingFree", lambda *given, **options: calls.append("free")
                        or layout(*given, **options))
    config = ModelConfig.from_dict({**SIZES, "num_hidden_layers": 1})
    if kind is Classifier:
        model, given = kind(config, num_labels=2), (INPUTS, np.array([0, 1, 1, 0]))
    else:
        model, given = kind(config.replace(attention="causal", pooling="last")), (INPUTS,)
    model.compile("sgd")
    for checkpointing, free in ((False, False), (True, False), (False, True)):
        calls.clear()
        model.backbone.gradient_checkpointing, model.backbone.padding_free = checkpointing, free
        model.fit(*given, verbose=0)
        assert set(calls) == {*["checkpointing"] * checkpointing, *["free"] * free}


@pytest.mark.filterwarnings("ignore:Model doesn't support `jit_compile")
@pytest.mark.parametrize("trained", [True, False])
def test_xla_is_left_off_where_padding_free_is_set_after_compile(trained):
    """MPNet's distances need sizes that XLA does not know then."""
    model = Classifier(ModelConfig.from_dict({**SIZES, "family": "mpnet"}), ["a", "b"], seed=1)
    model.compile("sgd", jit_compile=True)
    if trained:
        model.fit(INPUTS, [0, 1, 1, 0], verbose=0)
    model.backbone.padding_free = True
    model.fit(INPUTS, [0, 1, 1, 0], verbose=0)
    assert not model.jit_compile


def test_padding_free_may_be_set_between_two_predictions_of_an_encoder():
    model = build_encoder(ModelConfig.from_dict(SIZES), seed=1)
    padded = model.predict(INPUTS, verbose=0)["sequence_output"]
    model.backbone.padding_free = True
    found = model.predict(INPUTS, verbose=0)["sequence_output"]
    real = INPUTS["input_mask"] > 0
    np.testing.assert_allclose(found[real], padded[real], atol=1e-5)
    assert not found[~real].any() and padded[~real].any()


def test_the_scope_of_keras_is_refused():
    config = ModelConfig.from_dict(SIZES)
    with keras.RematScope("full"), pytest.raises(UsageError, match="gradient_checkpointing = True"):
        build_encoder(config)
    model = build_encoder(config)
    with keras.RematScope("full"):
        model(INPUTS)
