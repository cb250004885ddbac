"""Models in memory: a user's Keras objects become ours and go back with the same numbers."""

import keras_nlp
import numpy as np
import pytest
from official.modeling import activations
from official.nlp.modeling import models, networks

import bert_tf
from bert_tf.errors import UsageError

SIZES = {"num_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 30}
INPUTS = {"input_word_ids": np.array([[2, 7, 9, 3], [2, 5, 3, 0]], "int32"),
          "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], "int32"),
          "input_type_ids": np.array([[0, 0, 1, 1], [0, 0, 0, 0]], "int32")}


def _backbone():
    return keras_nlp.models.BertBackbone(
        vocabulary_size=30, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16,
        max_sequence_length=12)


def test_a_backbone_of_keras_nlp():
    backbone = _backbone()
    encoder = bert_tf.from_live(backbone, dtype="float32")
    named = dict(zip(("token_ids", "padding_mask", "segment_ids"), INPUTS.values(), strict=True))
    theirs, ours = backbone(named), encoder(INPUTS)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)

    for weight in encoder.trainable_variables:
        weight.assign(weight + 0.1)
    encoder.trainable = False  # frozen weights go along
    again = bert_tf.to_live(encoder, "keras_hub")
    np.testing.assert_allclose(again(named)["sequence_output"], encoder(INPUTS)["sequence_output"],
                               atol=1e-5)


def test_adapters_go_along_and_quantized_weights_do_not():
    encoder = bert_tf.from_live(_backbone(), dtype="float32")
    encoder.backbone.enable_lora(2)
    for weight in encoder.trainable_variables:
        weight.assign(weight + 0.1)
    named = dict(zip(("token_ids", "padding_mask", "segment_ids"), INPUTS.values(), strict=True))
    np.testing.assert_allclose(bert_tf.to_live(encoder, "keras_hub")(named)["sequence_output"],
                               encoder(INPUTS)["sequence_output"], atol=1e-5)
    quantized = bert_tf.from_live(_backbone())
    quantized.quantize("int8")
    with pytest.raises(UsageError, match="is quantized, .* try to_live before quantize"):
        bert_tf.to_live(quantized, "keras_hub")


@pytest.mark.long  # the same objects: test_tf_models
def test_a_pretrainer_of_tf_models():
    live = models.BertPretrainerV2(networks.BertEncoderV2(**SIZES, inner_dim=16),
                                   mlm_activation=activations.gelu)
    batch = {**INPUTS, "masked_lm_positions": np.array([[1, 2], [1, 0]], "int32")}
    theirs = live(batch)
    model = bert_tf.from_live(live, dtype="float32")
    assert isinstance(model, bert_tf.Pretrainer)
    np.testing.assert_allclose(model(batch)["masked_lm_logits"], theirs["mlm_logits"], atol=1e-5)
    again = bert_tf.to_live(model, "tf_models")
    np.testing.assert_array_equal(again(batch)["mlm_logits"], theirs["mlm_logits"])


def test_other_objects_are_refused():
    with pytest.raises(UsageError, match="a dict of builtins; expected a model of keras-nlp"):
        bert_tf.from_live({})
    encoder = bert_tf.from_live(_backbone())
    with pytest.raises(UsageError, match="library='keras_nlp' is unknown"):
        bert_tf.to_live(encoder, "keras_nlp")
