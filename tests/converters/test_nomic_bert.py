"""NomicBERT's folders, with today's configuration and that of its first files, beside NumPy."""

import json

import numpy as np
import pytest
from rotary_encoders import (
    EPSILON,
    WORDS,
    as_inputs,
    attended,
    drawn,
    examples,
    layer_norm,
    silu,
    write,
)
from safetensors.numpy import load_file

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint
from bert_tf.errors import UsageError

HIDDEN, HEADS, INNER, LAYERS, BASE = 16, 2, 24, 2, 1000.0
TODAY = {"architectures": ["NomicBertForMaskedLM"], "model_type": "nomic_bert",
         "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
         "num_attention_heads": HEADS, "intermediate_size": INNER, "head_dim": HIDDEN // HEADS,
         "max_position_embeddings": 32,
         "rope_parameters": {"rope_theta": BASE, "rope_type": "default"}}
FIRST = {"activation_function": "swiglu", "architectures": ["NomicBertForPreTraining"],
         "attn_pdrop": 0.0, "auto_map": {"AutoModel": "modeling.NomicBertModel"}, "causal": False,
         "dense_seq_output": True, "embd_pdrop": 0.0, "fused_bias_fc": True,
         "layer_norm_epsilon": EPSILON, "max_trained_positions": 32, "mlp_fc1_bias": False,
         "mlp_fc2_bias": False, "model_type": "nomic_bert", "n_embd": HIDDEN, "n_head": HEADS,
         "n_inner": INNER, "n_layer": LAYERS, "n_positions": 32, "pad_vocab_size_multiple": 64,
         "parallel_block": False, "prenorm": False, "qkv_proj_bias": False, "resid_pdrop": 0.0,
         "rotary_emb_base": BASE, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
         "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "scale_attn_weights": True,
         "type_vocab_size": 2, "use_flash_attn": True, "use_rms_norm": False,
         "vocab_size": len(WORDS)}


EMBEDDINGS = {
    "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
    "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    "emb_ln.weight": (HIDDEN,), "emb_ln.bias": (HIDDEN,)}
BLOCK = {
    "attn.Wqkv.weight": (3 * HIDDEN, HIDDEN), "attn.out_proj.weight": (HIDDEN, HIDDEN),
    "mlp.fc11.weight": (INNER, HIDDEN), "mlp.fc12.weight": (INNER, HIDDEN),
    "mlp.fc2.weight": (HIDDEN, INNER),
    **{f"norm{n}.{end}": (HIDDEN,) for n in (1, 2) for end in ("weight", "bias")}}
HEAD = {
    "cls.predictions.transform.dense.weight": (HIDDEN, HIDDEN),
    "cls.predictions.transform.dense.bias": (HIDDEN,),
    "cls.predictions.transform.layer_norm.weight": (HIDDEN,),
    "cls.predictions.transform.layer_norm.bias": (HIDDEN,),
    "cls.predictions.bias": (len(WORDS),)}


def tensors_of(prefix):
    """A masked LM's tensors under their names."""
    return drawn(prefix, EMBEDDINGS, "encoder.layers.{}.", BLOCK, LAYERS, HEAD)


def states(weights, ids, segments, mask):
    """`[batch, tokens, hidden]` after the last layer, in float64."""
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    x = (weights["embeddings.word_embeddings.weight"][ids]
         + weights["embeddings.token_type_embeddings.weight"][segments])
    x = layer_norm(x, weights, "emb_ln")
    for layer in range(LAYERS):
        own = {name.removeprefix(f"encoder.layers.{layer}."): value
               for name, value in weights.items()}
        context = attended(*np.split(x @ own["attn.Wqkv.weight"].T, 3, axis=-1), mask, HEADS, BASE)
        x = layer_norm(x + context @ own["attn.out_proj.weight"].T, own, "norm1")
        inner = x @ own["mlp.fc11.weight"].T * silu(x @ own["mlp.fc12.weight"].T)
        x = layer_norm(x + inner @ own["mlp.fc2.weight"].T, own, "norm2")
    return x


@pytest.mark.parametrize(("config", "prefix"), [(TODAY, "nomic_bert."), (FIRST, "bert."),
                                                ({**FIRST, **TODAY, "n_positions": 99}, "bert.")])
def test_states_and_logits(config, prefix, tmp_path):
    tensors = tensors_of(prefix)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    assert model.fresh_variables == () and model.config.longest == 32
    batch = examples()
    ids, segments, mask, positions = batch
    weights = {name.removeprefix(prefix): value for name, value in tensors.items()}
    expected = states(weights, ids, segments, mask)
    outputs = model(as_inputs(*batch))
    chosen = np.take_along_axis(expected, positions[..., None], axis=1)
    head = "cls.predictions.transform."
    hidden = silu(chosen @ weights[f"{head}dense.weight"].T + weights[f"{head}dense.bias"])
    logits = (layer_norm(hidden, weights, f"{head}layer_norm")
              @ weights["embeddings.word_embeddings.weight"].T + weights["cls.predictions.bias"])
    np.testing.assert_allclose(outputs["masked_lm_logits"], logits, atol=2e-5)


def test_written_as_read(tmp_path):
    """Tensors come back byte for byte under today's names; a classifier, too, with its pooler."""
    tensors = tensors_of("nomic_bert.")
    checkpoint = hf_safetensors.read(write(tmp_path / "model", TODAY, tensors))
    hf_safetensors.write(checkpoint, str(tmp_path / "again"))
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert written.keys() == tensors.keys()
    for name, value in tensors.items():
        assert written[name].tobytes() == value.tobytes(), name
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["architectures"] == TODAY["architectures"]
    assert config["rope_parameters"] == TODAY["rope_parameters"]
    assert hf_safetensors.read(str(tmp_path / "again")).config == checkpoint.config

    labelled = {**tensors, "nomic_bert.pooler.dense.weight": np.eye(HIDDEN, dtype=np.float32),
                "nomic_bert.pooler.dense.bias": np.zeros(HIDDEN, np.float32),
                "classifier.weight": np.ones((2, HIDDEN), np.float32),
                "classifier.bias": np.zeros(2, np.float32)}
    labelled = {name: value for name, value in labelled.items() if "predictions" not in name}
    config = {**TODAY, "architectures": ["NomicBertForSequenceClassification"]}
    read = hf_safetensors.read(write(tmp_path / "classifier", config, labelled))
    assert read.config.pooling == "dense" and isinstance(read, Checkpoint)
    hf_safetensors.write(read, str(tmp_path / "classifier_again"))
    assert load_file(tmp_path / "classifier_again" / "model.safetensors").keys() == labelled.keys()


@pytest.mark.parametrize(("change", "message"), [
    ({"num_experts": 8, "moe_every_n_layers": 2}, "num_experts=8; expected 0"),
    ({"qkv_proj_bias": True}, "qkv_proj_bias=True; expected False"),
    ({"prenorm": True}, "prenorm=True"),
    ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction=0.5; expected 1.0"),
    ({"rotary_scaling_factor": 2}, "rotary_scaling_factor=2"),
    ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_parameters="),
    ({"activation_function": "glu"}, "hidden_act='glu'"),
    ({"head_dim": 4}, "head_dim=4")])
def test_other_models_are_refused(change, message, tmp_path):
    folder = write(tmp_path / "model", {**FIRST, **change}, tensors_of("bert."))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)
