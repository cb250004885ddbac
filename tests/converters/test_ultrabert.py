"""UltraBERT's folders, with today's configuration and that of the first files, beside NumPy."""

import json

import numpy as np
import pytest
from rotary_encoders import (
    WORDS,
    as_inputs,
    check_written,
    examples,
    llama_states,
    llama_tensors,
    write,
)
from safetensors.numpy import load_file

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.errors import UsageError

HIDDEN, HEADS, GROUPS, INNER, LAYERS, REACH, WIDTH, LABELS = 16, 4, 2, 24, 4, 2, 10, 3
FAR, NEAR = 50000.0, 3000.0  # rotary bases
KINDS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
COMMON = {"architectures": ["UltrabertForMaskedLM"], "model_type": "ultrabert",
          "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "intermediate_size": INNER,
          "hidden_act": "silu", "max_position_embeddings": 32, "pad_token_id": 0,
          "rms_norm_eps": 1e-5, "attention_bias": False, "attention_dropout": 0.0,
          "mlp_bias": False, "head_dim": HIDDEN // HEADS, "prediction_head_size": WIDTH,
          "classifier_pooling": "cls", "classifier_dropout": 0.0, "tie_word_embeddings": False}
TODAY = {**COMMON, "layer_types": KINDS, "sliding_window": REACH, "rope_parameters": {
    "full_attention": {"rope_type": "default", "rope_theta": FAR},
    "sliding_attention": {"rope_type": "default", "rope_theta": NEAR}}}
FIRST = {**COMMON, "auto_map": {"AutoModel": "modeling_ultrabert.UltrabertModel"},
         "attention_windows": [REACH, REACH, 0, REACH], "rope_theta": [NEAR, NEAR, FAR, NEAR]}
HEAD = {"head.linear1.weight": (WIDTH, HIDDEN), "head.linear2.weight": (HIDDEN, WIDTH),
        "cls.weight": (len(WORDS), HIDDEN)}
LABEL_HEAD = {"classifier.weight": (LABELS, HIDDEN), "classifier.bias": (LABELS,)}
LABELLED = {"id2label": {str(i): str(i) for i in range(LABELS)}}


def tensors_of(head, prefix="ultrabert."):
    """A model's tensors under their names."""
    return llama_tensors(prefix, HEADS, GROUPS, INNER, HIDDEN, LAYERS, head)


def states(tensors, ids, mask, kinds=KINDS):
    """`[batch, tokens, hidden]` after the last norm, in float64."""
    layers = [(FAR, None) if kind == "full_attention" else (NEAR, REACH) for kind in kinds]
    return llama_states("ultrabert.", tensors, ids, mask, HEADS, GROUPS, layers)


def gelu(x):
    """The tanh form."""
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("padding_free", [False, True])
@pytest.mark.parametrize(("config", "kinds"), [
    (TODAY, KINDS), (FIRST, KINDS), ({**FIRST, "sliding_window": 9}, KINDS),
    ({**FIRST, "layer_types": KINDS[::-1]} | {"rope_theta": [NEAR, FAR, NEAR, NEAR]}, KINDS[::-1]),
    ({**TODAY, "layer_types": KINDS[2:3] * LAYERS}, KINDS[2:3] * LAYERS)])
def test_states_and_logits(config, kinds, padding_free, tmp_path):
    """Rows are longer than what a window reaches, on both sides of a token."""
    tensors = tensors_of(HEAD)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    model.encoder.backbone.padding_free = padding_free
    assert model.fresh_variables == () and model.config.longest == 32
    batch = examples()
    ids, _, mask, positions = batch
    chosen = np.take_along_axis(states(tensors, ids, mask, kinds), positions[..., None], axis=1)
    for name in ("linear1", "linear2"):
        chosen = gelu(chosen @ tensors[f"head.{name}.weight"].T)
    logits = model(as_inputs(*batch))["masked_lm_logits"]
    np.testing.assert_allclose(logits, chosen @ tensors["cls.weight"].T, atol=5e-5)


def test_names_of_modules(tmp_path):
    """As transformers calls them in memory: read, and written as its files have them."""
    modules = {name.replace("ultrabert.", "model.").replace("cls.", "head.decoder."): value
               for name, value in tensors_of(HEAD).items()}
    read = hf_safetensors.read(write(tmp_path / "model", TODAY, modules))
    check_written(read, tensors_of(HEAD), tmp_path / "again")


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_labels_of_texts(pooling, tmp_path):
    config = {**TODAY, **LABELLED, "architectures": ["UltrabertForSequenceClassification"],
              "classifier_pooling": pooling}
    tensors = tensors_of(LABEL_HEAD)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    batch = examples()
    inputs = {name: value for name, value in as_inputs(*batch).items() if "masked" not in name}
    ids, _, mask, _ = batch
    hidden = states(tensors, ids, mask)
    pooled = {"cls": hidden[:, 0],
              "mean": (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)}[pooling]
    np.testing.assert_allclose(
        model(inputs), pooled @ tensors["classifier.weight"].T + tensors["classifier.bias"],
        atol=5e-5)


@pytest.mark.parametrize(("name", "head"), [
    ("UltrabertForMaskedLM", HEAD), ("UltrabertModel", {}),
    ("UltrabertForSequenceClassification", LABEL_HEAD),
    ("UltrabertForTokenClassification", LABEL_HEAD),
    ("UltrabertForQuestionAnswering", {"qa_outputs.weight": (2, HIDDEN), "qa_outputs.bias": (2,)})])
def test_written_as_read(name, head, tmp_path):
    """Tensors come back byte for byte, with today's configuration."""
    config = {**FIRST, "architectures": [name], "classifier_pooling": "mean",
              **(LABELLED if head is LABEL_HEAD else {})}
    tensors = tensors_of(head, "" if name == "UltrabertModel" else "ultrabert.")
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors))
    check_written(read, tensors, tmp_path / "again")
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    assert {key: written[key] for key in ("layer_types", "sliding_window", "rope_parameters")} == {
        key: TODAY[key] for key in ("layer_types", "sliding_window", "rope_parameters")}
    assert written["classifier_pooling"] == "mean" and "rope_theta" not in written
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == tensors.keys()


def test_what_a_file_leaves_out(tmp_path):
    """Every third layer sees everything then, from the third on."""
    config = {key: TODAY[key] for key in COMMON}
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors_of(HEAD))).config
    assert (read.local_attention, read.rotary_base, read.local_rotary_base) == (256, 2.56e6, 1e4)
    assert [read.sees_all(layer) for layer in range(LAYERS)] == [False, False, True, False]


@pytest.mark.parametrize(("config", "change", "message"), [
    (TODAY, {"attention_bias": True}, "attention_bias=True; expected False"),
    (TODAY, {"mlp_bias": True}, "mlp_bias=True; expected False"),
    (TODAY, {"tie_word_embeddings": True}, "tie_word_embeddings=True; expected False"),
    (TODAY, {"rope_parameters": {"rope_type": "default", "rope_theta": FAR}}, "rope_parameters="),
    (TODAY, {"layer_types": KINDS[2:] + KINDS[2:3] * 2}, "layer_types="),
    (TODAY, {"sliding_window": 0}, "sliding_window=0; expected an integer from 1 on"),
    (TODAY, {"classifier_pooling": "late"}, "classifier_pooling='late' is unknown"),
    (TODAY, {"global_window": 3}, "global_window=3, which we do not know"),
    (FIRST, {"attention_windows": [REACH, 3, 0, REACH]}, "attention_windows=.*; expected the same"),
    (FIRST, {"attention_windows": [REACH, 0]}, "attention_windows=.*; expected a list with one f"),
    (FIRST, {"rope_theta": FAR}, "rope_theta=50000.0; expected a list with one for each of 4"),
    (FIRST, {"rope_theta": [NEAR, FAR, FAR, NEAR]}, "rope_theta=.*; expected the same for all")])
def test_other_models_are_refused(config, change, message, tmp_path):
    folder = write(tmp_path / "model", {**config, **change}, tensors_of(HEAD))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)
