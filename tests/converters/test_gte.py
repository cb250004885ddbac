"""GTE's folders, of transformers' class and of the code that the first files came with, beside
NumPy."""

import numpy as np
import pytest
import scipy.special
from rotary_encoders import WORDS, as_inputs, attended, drawn, examples, layer_norm, write
from safetensors.numpy import load_file

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.errors import UsageError

HIDDEN, HEADS, INNER, LAYERS, THETA = 16, 2, 24, 2, 20000.0
COMMON = {"vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu",
          "max_position_embeddings": 32, "type_vocab_size": 2, "pad_token_id": 0}
TODAY = {**COMMON, "architectures": ["GteForMaskedLM"], "model_type": "gte",
         "rope_parameters": {"rope_theta": THETA, "rope_type": "default"}}
FIRST = {**COMMON, "architectures": ["NewForMaskedLM"], "model_type": "new",
         "auto_map": {"AutoModel": "modeling.NewModel"}, "layer_norm_type": "layer_norm",
         "logn_attention_clip1": False, "logn_attention_scale": False, "pack_qkv": True,
         "position_embedding_type": "rope", "rope_theta": THETA, "unpad_inputs": True,
         "rope_scaling": {"factor": 8.0, "type": "ntk"}, "use_memory_efficient_attention": True}


EMBEDDINGS = {
    "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
    "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    "embeddings.LayerNorm.weight": (HIDDEN,), "embeddings.LayerNorm.bias": (HIDDEN,)}
BLOCK = {
    "attention.qkv_proj.weight": (3 * HIDDEN, HIDDEN),
    "attention.qkv_proj.bias": (3 * HIDDEN,),
    "attention.o_proj.weight": (HIDDEN, HIDDEN), "attention.o_proj.bias": (HIDDEN,),
    "mlp.up_gate_proj.weight": (2 * INNER, HIDDEN),
    "mlp.down_proj.weight": (HIDDEN, INNER), "mlp.down_proj.bias": (HIDDEN,),
    **{f"{name}_ln.{end}": (HIDDEN,) for name in ("attn", "mlp")
       for end in ("weight", "bias")}}
HEAD = {
    "lm_head.dense.weight": (HIDDEN, HIDDEN), "lm_head.dense.bias": (HIDDEN,),
    "lm_head.norm.weight": (HIDDEN,), "lm_head.norm.bias": (HIDDEN,),
    "lm_head.decoder.bias": (len(WORDS),)}


def tensors_of(prefix):
    """A masked LM's tensors under their names."""
    return drawn(prefix, EMBEDDINGS, "encoder.layer.{}.", BLOCK, LAYERS, HEAD)


def gelu(x):
    return x * scipy.special.ndtr(x)


def states(weights, ids, segments, mask, *rotary):
    """`[batch, tokens, hidden]` after the last layer, in float64."""
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    x = (weights["embeddings.word_embeddings.weight"][ids]
         + weights["embeddings.token_type_embeddings.weight"][segments])
    x = layer_norm(x, weights, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        own = {name.removeprefix(f"encoder.layer.{layer}."): value
               for name, value in weights.items()}

        def dense(x, name, own=own):
            return x @ own[f"{name}.weight"].T + own.get(f"{name}.bias", 0)

        context = attended(*np.split(dense(x, "attention.qkv_proj"), 3, axis=-1), mask, HEADS,
                           *rotary)
        x = layer_norm(x + dense(context, "attention.o_proj"), own, "attn_ln")
        up, gate = np.split(dense(x, "mlp.up_gate_proj"), 2, axis=-1)
        x = layer_norm(x + dense(gelu(gate) * up, "mlp.down_proj"), own, "mlp_ln")
    return x


@pytest.mark.parametrize(("config", "prefix", "rotary"), [
    (TODAY, "gte.", (THETA, 1.0)),
    ({**TODAY, "rope_parameters": {"rope_theta": THETA, "rope_type": "linear", "factor": 1.5}},
     "gte.", (THETA, 1.5)),
    ({**FIRST, "rope_scaling": None}, "new.", (THETA, 1.0)),
    (FIRST, "new.", (8 * THETA, 8 ** (2 / (HIDDEN // HEADS))))])
def test_states_and_logits(config, prefix, rotary, tmp_path):
    tensors = tensors_of(prefix)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    assert model.fresh_variables == ()
    batch = examples()
    weights = {name.removeprefix(prefix): value for name, value in tensors.items()}
    chosen = np.take_along_axis(states(weights, *batch[:3], *rotary), batch[3][..., None], axis=1)
    hidden = gelu(chosen @ weights["lm_head.dense.weight"].T + weights["lm_head.dense.bias"])
    logits = (layer_norm(hidden, weights, "lm_head.norm")
              @ weights["embeddings.word_embeddings.weight"].T + weights["lm_head.decoder.bias"])
    np.testing.assert_allclose(model(as_inputs(*batch))["masked_lm_logits"], logits, atol=2e-5)


def test_written_as_read(tmp_path):
    """Tensors come back byte for byte, as of the class of transformers."""
    tensors = tensors_of("new.")
    checkpoint = hf_safetensors.read(write(tmp_path / "model", FIRST, tensors))
    hf_safetensors.write(checkpoint, str(tmp_path / "again"))
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert written.keys() == tensors_of("gte.").keys()
    for name, value in tensors.items():
        assert written[name.replace("new.", "gte.")].tobytes() == value.tobytes(), name
    assert hf_safetensors.read(str(tmp_path / "again")).config == checkpoint.config


@pytest.mark.parametrize(("change", "message"), [
    ({"layer_norm_type": "rms_norm"}, "layer_norm_type='rms_norm'; expected 'layer_norm'"),
    ({"position_embedding_type": "absolute"}, "position_embedding_type='absolute'; expected 'rope"),
    ({"pack_qkv": False}, "pack_qkv=False"), ({"logn_attention_scale": True}, "logn_attention"),
    ({"rope_scaling": {"factor": 8.0, "type": "dynamic"}}, "rope_scaling="),
    ({"rope_scaling": {"factor": 8.0, "type": "ntk", "mixed_b": 0.6}}, "rope_scaling="),
    ({"rope_scaling": None, "rope_parameters": {"rope_type": "yarn"}}, "rope_parameters=")])
def test_other_models_are_refused(change, message, tmp_path):
    folder = write(tmp_path / "model", {**FIRST, **change}, tensors_of("new."))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)
