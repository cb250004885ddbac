"""EuroBERT's folders, of transformers' classes and of the code that the first files came with,
beside NumPy."""

import numpy as np
import pytest
import scipy.special
from rotary_encoders import WORDS, as_inputs, examples, llama_states, llama_tensors, write
from safetensors.numpy import load_file

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint
from bert_tf.errors import UsageError

HIDDEN, HEADS, GROUPS, INNER, LAYERS, THETA, LABELS = 16, 4, 2, 24, 2, 20000.0, 3
COMMON = {"architectures": ["EuroBertForMaskedLM"], "model_type": "eurobert",
          "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "intermediate_size": INNER,
          "hidden_act": "silu", "max_position_embeddings": 32, "pad_token_id": 0,
          "rms_norm_eps": 1e-5, "attention_bias": False, "attention_dropout": 0.0,
          "mlp_bias": False, "head_dim": HIDDEN // HEADS, "pretraining_tp": 1,
          "tie_word_embeddings": False}
TODAY = {**COMMON, "classifier_pooling": "late",
         "rope_parameters": {"rope_theta": THETA, "rope_type": "default"}}
FIRST = {**COMMON, "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"},
         "clf_pooling": "late", "hidden_dropout": 0.0, "rope_scaling": None, "rope_theta": THETA,
         "bos_token": "[CLS]", "eos_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
HEAD = {"lm_head.weight": (len(WORDS), HIDDEN)}
LABEL_HEAD = {"dense.weight": (HIDDEN, HIDDEN), "dense.bias": (HIDDEN,),
              "classifier.weight": (LABELS, HIDDEN), "classifier.bias": (LABELS,)}
TOKEN_HEAD = {name: LABEL_HEAD[name] for name in ("classifier.weight", "classifier.bias")}


def tensors_of(head, prefix="model."):
    """A model's tensors under their names."""
    return llama_tensors(prefix, HEADS, GROUPS, INNER, HIDDEN, LAYERS, head)


def states(tensors, ids, mask):
    """`[batch, tokens, hidden]` after the last norm, in float64."""
    return llama_states("model.", tensors, ids, mask, HEADS, GROUPS, [(THETA, None)] * LAYERS)


def label_logits(tensors, hidden, mask, pooling):
    """Of a text, in each of the ways that the classifier has."""
    def dense(x):
        x = x @ tensors["dense.weight"].T + tensors["dense.bias"]
        x = x * scipy.special.ndtr(x)
        return x @ tensors["classifier.weight"].T + tensors["classifier.bias"]

    def mean(values):
        return (values * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)

    return {"bos": lambda: dense(hidden[:, 0]), "mean": lambda: dense(mean(hidden)),
            "late": lambda: mean(dense(hidden))}[pooling]()


@pytest.mark.parametrize("config", [TODAY, FIRST])
def test_states_and_logits(config, tmp_path):
    tensors = tensors_of(HEAD)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    assert model.fresh_variables == () and model.config.longest == 32
    batch = examples()
    ids, _, mask, positions = batch
    chosen = np.take_along_axis(states(tensors, ids, mask), positions[..., None], axis=1)
    logits = model(as_inputs(*batch))["masked_lm_logits"]
    np.testing.assert_allclose(logits, chosen @ tensors["lm_head.weight"].T, atol=3e-5)


@pytest.mark.parametrize("pooling", ["late", "bos", "mean"])
def test_labels_of_texts(pooling, tmp_path):
    config = {**FIRST, "architectures": ["EuroBertForSequenceClassification"],
              "id2label": {str(i): str(i) for i in range(LABELS)}, "clf_pooling": pooling}
    tensors = tensors_of(LABEL_HEAD)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    batch = examples()
    inputs = {name: value for name, value in as_inputs(*batch).items() if "masked" not in name}
    ids, _, mask, _ = batch
    wanted = label_logits(tensors, states(tensors, ids, mask), mask, pooling)
    logits = model(inputs)
    np.testing.assert_allclose(logits, wanted, atol=3e-5)
    # A text in one window, and in two of which one is empty.
    windows = {name: np.stack([value, np.zeros_like(value)], 1) for name, value in inputs.items()}
    np.testing.assert_allclose(model(windows), logits, atol=1e-5)
    outputs = model.encoder.backbone(inputs)
    np.testing.assert_allclose(model.result_of(inputs, outputs), logits, atol=1e-5)


@pytest.mark.parametrize(("name", "head"), [
    ("EuroBertForMaskedLM", HEAD), ("EuroBertModel", {}),
    ("EuroBertForSequenceClassification", LABEL_HEAD), ("EuroBertForTokenClassification",
                                                         TOKEN_HEAD)])
def test_written_as_read(name, head, tmp_path):
    """Tensors come back byte for byte, with today's configuration."""
    config = {**FIRST, "architectures": [name], "clf_pooling": "mean",
              **({"id2label": {str(i): str(i) for i in range(LABELS)}} if "class" in str(head)
                 else {})}
    tensors = tensors_of(head, "" if name == "EuroBertModel" else "model.")
    checkpoint = hf_safetensors.read(write(tmp_path / "model", config, tensors))
    hf_safetensors.write(checkpoint, str(tmp_path / "again"))
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert {each: value.tobytes() for each, value in written.items()} == {
        each: value.tobytes() for each, value in tensors.items()}
    again = hf_safetensors.read(str(tmp_path / "again"))
    assert again.config == checkpoint.config and again.config.pooling == "mean"


@pytest.mark.parametrize(("change", "message"), [
    ({"attention_bias": True}, "attention_bias=True; expected False"),
    ({"mlp_bias": True}, "mlp_bias=True; expected False"),
    ({"tie_word_embeddings": True}, "tie_word_embeddings=True; expected False"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling="),
    ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters="),
    ({"num_key_value_heads": 3}, "num_key_value_heads=3; expected 0, or a divisor of num_attent"),
    ({"head_dim": 8}, "head_dim=8"), ({"clf_pooling": "last"}, "classifier_pooling='last' is"),
    ({"architectures": ["EuroBertForQuestionAnswering"]}, "architectures=")])
def test_other_models_are_refused(change, message, tmp_path):
    folder = write(tmp_path / "model", {**FIRST, **change}, tensors_of(HEAD))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


@pytest.mark.parametrize("change", [{"norm": "layer_norm"}, {"masked_lm_head": "transform"},
                                    {"embedding_norm": True}, {"hidden_dropout_prob": 0.1}])
def test_what_a_folder_cannot_say_is_refused(change, tmp_path):
    checkpoint = hf_safetensors.read(write(tmp_path / "model", TODAY, tensors_of(HEAD)))
    with pytest.raises(UsageError, match=next(iter(change))):
        hf_safetensors.write(Checkpoint(checkpoint.config.replace(**change), checkpoint.task,
                                        checkpoint.tensors), str(tmp_path / "again"))
