"""Numbers of the original implementations, from the references beside the checkout."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.converters import google_tf1
from bert_tf.models.families import build_encoder
from bert_tf.storage import files, variables
from bert_tf.tasks.pretraining.masked_lm import Pretrainer

pytestmark = pytest.mark.graphs_improved

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


def from_hf(tensors):
    """Hugging Face's BERT tensors under the official names and in the official layout."""
    renamed = {}
    for name, value in tensors.items():
        name = name.replace(".", "/").replace("encoder/layer/", "encoder/layer_")
        if name.endswith("_embeddings/weight"):
            name = name.removesuffix("/weight")
        elif "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        elif name.startswith("cls/seq_relationship"):
            name = name.replace("weight", "output_weights").replace("bias", "output_bias")
        elif name == "cls/predictions/bias":
            name = "cls/predictions/output_bias"
        elif name.endswith("weight"):
            name, value = name.replace("weight", "kernel"), value.T
        renamed[name] = value
    return renamed


def hf_pretrainer(shared, **changes):
    """A Pretrainer with the weights of `hf_bert`, and that folder."""
    from safetensors.numpy import load_file

    folder = shared / "reference" / "hf_bert"
    values = json.loads((folder / "config.json").read_text())
    known = ModelConfig(vocab_size=values["vocab_size"]).to_dict()
    config = ModelConfig.from_dict({k: v for k, v in values.items() if k in known})
    model = Pretrainer(config.replace(**changes), dtype="float32")
    tensors = from_hf(load_file(folder / "model.safetensors"))
    assert len(tensors) == len(model.trainable_variables)
    variables.assign_variables(model.trainable_variables, tensors, "hf_bert")
    return model, folder


def hf_batch(expected, predictions=17):
    """HF arrays as our batch: every position is a prediction, ignored ones weigh 0."""
    labels = expected["labels"]
    positions = np.broadcast_to(np.arange(predictions, dtype="int32"), labels.shape)
    return {"input_word_ids": expected["input_ids"], "input_mask": expected["attention_mask"],
            "input_type_ids": expected["token_type_ids"],
            "masked_lm_positions": positions, "masked_lm_ids": np.maximum(labels, 0),
            "masked_lm_weights": (labels >= 0).astype("float32"),
            "next_sentence_labels": expected["next_sentence_label"]}


def with_all_outputs(model):
    """The Pretrainer's encoder again, returning everything."""
    encoder = build_encoder(model.config, encoder_outputs=True, attention_probs=True,
                            dtype="float32")
    encoder.set_weights(model.encoder.get_weights())
    return encoder


def check_hidden(outputs, hidden, probs=None):
    got = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    for ours, theirs in zip(got, hidden, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    np.testing.assert_allclose(outputs["sequence_output"], hidden[-1], atol=1e-4)
    for ours, theirs in zip(outputs["attention_probs"], probs or [], strict=probs is not None):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def check_without_padding(model, inputs, hidden, pooled):
    """The same numbers where there is a token, nothing elsewhere."""
    encoder = build_encoder(model.config, encoder_outputs=True, dtype="float32")
    encoder.set_weights(model.encoder.get_weights())
    encoder.backbone.padding_free = True
    outputs = encoder(inputs)
    real = inputs["input_mask"][..., None]
    for ours, theirs in zip([outputs["embedding_output"], *outputs["encoder_outputs"]], hidden,
                            strict=True):
        np.testing.assert_allclose(ours, theirs * real, atol=1e-4)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=1e-4)


def losses(model, batch, outputs):
    weights = model.loss_weights(batch)
    return {task: float(total / weights[task])
            for task, total in model.loss_sums(outputs, batch).items()}


def test_hf_bert(shared):
    model, folder = hf_pretrainer(shared, hidden_dropout_prob=0.0,
                                  attention_probs_dropout_prob=0.0)
    expected = np.load(folder / "expected.npz")
    batch = hf_batch(expected)
    outputs = with_all_outputs(model)({name: batch[name] for name in INPUTS})
    check_hidden(outputs, [expected[f"hidden_states_{i}"] for i in range(4)],
                 [expected[f"attentions_{i}"] for i in range(3)])
    np.testing.assert_allclose(outputs["pooled_output"], expected["pooler_output"], atol=1e-4)
    check_without_padding(model, {name: batch[name] for name in INPUTS},
                          [expected[f"hidden_states_{i}"] for i in range(4)],
                          expected["pooler_output"])
    logits = model(batch)
    np.testing.assert_allclose(logits["masked_lm_logits"], expected["prediction_logits"],
                               atol=1e-4)
    np.testing.assert_allclose(logits["next_sentence_logits"],
                               expected["seq_relationship_logits"], atol=1e-4)
    # The activations and norms of training are other code: the same numbers.
    got = losses(model, batch, model(batch, training=True))
    assert abs(got["masked_lm"] - expected["mlm_loss"]) < 1e-4
    assert abs(got["next_sentence"] - expected["nsp_loss"]) < 1e-4


def test_google_bert(shared):
    folder = shared / "reference" / "google_bert"
    expected = np.load(folder / "expected.npz")
    config = google_tf1.model_config(files.read_json(str(folder / "bert_config.json")), "bert",
                                     "bert_config.json")
    model = Pretrainer(config, dtype="float32")
    checkpoint = variables.read_variables(str(folder / "bert_model.ckpt"))
    assert {variable.path for variable in model.trainable_variables} == set(checkpoint)
    variables.assign_variables(model.trainable_variables, checkpoint, "google_bert")
    labels = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights",
              "next_sentence_labels")
    batch = {"input_word_ids": expected["input_ids"], "input_mask": expected["input_mask"],
             "input_type_ids": expected["segment_ids"],
             **{name: expected[name] for name in labels}}
    outputs = with_all_outputs(model)({name: batch[name] for name in INPUTS})
    check_hidden({**outputs, "attention_probs": []},
                 [expected["embedding_output"], *expected["all_encoder_layers"]])
    np.testing.assert_allclose(outputs["pooled_output"], expected["pooled_output"], atol=1e-4)
    check_without_padding(model, {name: batch[name] for name in INPUTS},
                          [expected["embedding_output"], *expected["all_encoder_layers"]],
                          expected["pooled_output"])
    logits = model(batch)
    np.testing.assert_allclose(
        tf.reshape(tf.nn.log_softmax(logits["masked_lm_logits"]), [12, 400]),
        expected["masked_lm_log_probs"], atol=1e-4)
    np.testing.assert_allclose(tf.nn.log_softmax(logits["next_sentence_logits"]),
                               expected["next_sentence_log_probs"], atol=1e-4)
    got = losses(model, batch, logits)
    assert abs(got["masked_lm"] - expected["masked_lm_loss"]) < 1e-4
    assert abs(got["next_sentence"] - expected["next_sentence_loss"]) < 1e-4
    assert abs(sum(got.values()) - expected["total_loss"]) < 1e-4


@pytest.mark.parametrize("policy", [
    "mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.long)])
def test_half_precision_is_near(shared, policy):
    model, folder = hf_pretrainer(shared)
    expected = np.load(folder / "expected.npz")
    half = Pretrainer(model.config, dtype=policy)
    half.set_weights(model.get_weights())
    logits = half(hf_batch(expected))
    assert all(value.dtype == "float32" for value in logits.values())
    error = np.abs(logits["masked_lm_logits"] - expected["prediction_logits"])
    assert error.mean() < 0.02 * expected["prediction_logits"].std()
