"""Folders of Qwen3 and Gemma 3 beside NumPy: heads of their own width, norms in attention and
around halves of a block, windows on both sides or before a position."""

import json

import numpy as np
import pytest
from rotary_encoders import WORDS, as_inputs, check_written, drawn, examples, rotate, silu, write

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint
from bert_tf.errors import UsageError
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

HIDDEN, HEADS, GROUPS, SIZE, INNER, LABELS = 16, 4, 2, 6, 24, 3
COMMON = {"vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_attention_heads": HEADS,
          "num_key_value_heads": GROUPS, "head_dim": SIZE, "intermediate_size": INNER,
          "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "attention_bias": False,
          "attention_dropout": 0.0, "use_cache": True}
# As the published files have it, with keys of older versions.
QWEN3 = {**COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
         "num_hidden_layers": 2, "hidden_act": "silu", "max_window_layers": 2, "rope_scaling": None,
         "rope_theta": 20000.0, "sliding_window": None, "use_sliding_window": False,
         "tie_word_embeddings": True, "bos_token_id": 3, "eos_token_id": 4}
GEMMA3 = {**COMMON, "architectures": ["Gemma3TextModel"], "model_type": "gemma3_text",
          "num_hidden_layers": 4, "hidden_activation": "gelu_pytorch_tanh",
          "_sliding_window_pattern": 6, "sliding_window_pattern": 3, "sliding_window": 4,
          "query_pre_attn_scalar": 20, "rope_theta": 20000.0, "rope_local_base_freq": 300.0,
          "rope_scaling": None, "attn_logit_softcapping": None, "final_logit_softcapping": None,
          "use_bidirectional_attention": True, "pad_token_id": 0}
LEFT = {**GEMMA3, "architectures": ["Gemma3ForCausalLM"], "use_bidirectional_attention": False,
        "sliding_window": 3}
SCORE = {"score.weight": (LABELS, HIDDEN)}
CLASSES = {"id2label": {str(i): str(i) for i in range(LABELS)}}


def tensors_of(config, head=(), prefix="model."):
    """A model's tensors under their names."""
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"] != "qwen3":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    widths = {"q": HEADS * SIZE, "k": GROUPS * SIZE, "v": GROUPS * SIZE}
    return drawn(prefix, {"embed_tokens.weight": (len(WORDS), HIDDEN), "norm.weight": (HIDDEN,)},
                 "layers.{}.", {
                     **{f"{name}.weight": (HIDDEN,) for name in norms},
                     **{f"self_attn.{part}_proj.weight": (width, HIDDEN)
                        for part, width in widths.items()},
                     "self_attn.o_proj.weight": (HIDDEN, HEADS * SIZE),
                     "self_attn.q_norm.weight": (SIZE,), "self_attn.k_norm.weight": (SIZE,),
                     "mlp.gate_proj.weight": (INNER, HIDDEN), "mlp.up_proj.weight": (INNER, HIDDEN),
                     "mlp.down_proj.weight": (HIDDEN, INNER)},
                 config["num_hidden_layers"], dict(head))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def states(config, tensors, ids, mask):
    """`[batch, tokens, hidden]` after the last norm, in float64."""
    weights = {name.removeprefix("model.").removesuffix(".weight"): value.astype(np.float64)
               for name, value in tensors.items()}
    gemma, both = config["model_type"] != "qwen3", config.get("use_bidirectional_attention")
    act = gelu if gemma else silu

    def norm(x, gamma):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (gamma + gemma)

    x = weights["embed_tokens"][ids] * (np.sqrt(HIDDEN) if gemma else 1)
    distance = np.subtract.outer(*[np.arange(ids.shape[1])] * 2)
    for layer in range(config["num_hidden_layers"]):
        own = {name.removeprefix(f"layers.{layer}."): value.T for name, value in weights.items()}
        entering = norm(x, own["input_layernorm"])
        query, key, value = (
            (entering @ own[f"self_attn.{part}_proj"]).reshape(*ids.shape, -1, SIZE).swapaxes(1, 2)
            for part in "qkv")
        query, key = (norm(part, own[f"self_attn.{name}_norm"])
                      for part, name in ((query, "q"), (key, "k")))
        key, value = (np.repeat(part, HEADS // GROUPS, axis=1) for part in (key, value))
        local = gemma and (layer + 1) % config["sliding_window_pattern"]
        base = config["rope_local_base_freq" if local else "rope_theta"]
        scores = rotate(query, base) @ rotate(key, base).swapaxes(2, 3)
        scores /= np.sqrt(config.get("query_pre_attn_scalar", SIZE))
        window = config["sliding_window"] if local else 99
        seen = np.abs(distance) <= window // 2 if both else (distance >= 0) & (distance < window)
        scores = np.exp(scores) * (mask[:, None, None] & seen)
        context = scores / np.maximum(scores.sum(-1, keepdims=True), 1e-30) @ value
        made = context.swapaxes(1, 2).reshape(*ids.shape, -1) @ own["self_attn.o_proj"]
        x = x + (norm(made, own["post_attention_layernorm"]) if gemma else made)
        entering = norm(x, own["pre_feedforward_layernorm" if gemma
                               else "post_attention_layernorm"])
        made = (act(entering @ own["mlp.gate_proj"]) * (entering @ own["mlp.up_proj"])
                ) @ own["mlp.down_proj"]
        x = x + (norm(made, own["post_feedforward_layernorm"]) if gemma else made)
    return norm(x, weights["norm"])


def inputs_of(batch):
    return {name: value for name, value in as_inputs(*batch).items() if "masked" not in name}


@pytest.mark.parametrize("padding_free", [False, True])
@pytest.mark.parametrize("config", [GEMMA3, {**QWEN3, "architectures": ["Qwen3Model"]}, {
    **LEFT, "architectures": ["Gemma3TextModel"]}])
def test_states(config, padding_free, tmp_path):
    """Files of the bare model, as they are published."""
    tensors = tensors_of(config, prefix="")
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    model.backbone.padding_free = padding_free
    batch = examples()
    ids, _, mask, _ = batch
    outputs = model(inputs_of(batch))
    wanted = states(config, tensors, ids, mask) * mask[..., None]
    np.testing.assert_allclose(outputs["sequence_output"] * mask[..., None], wanted, atol=2e-5)
    last = mask.sum(1) - 1
    np.testing.assert_allclose(outputs["pooled_output"], wanted[np.arange(3), last], atol=2e-5)


@pytest.mark.parametrize(("config", "tied"), [(QWEN3, True), (LEFT, True), (QWEN3, False)])
def test_next_tokens(config, tied, tmp_path):
    """By the embeddings, or by a matrix of its own."""
    config = {**config, "tie_word_embeddings": tied}
    tensors = tensors_of(config, {} if tied else {"lm_head.weight": (len(WORDS), HIDDEN)})
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    batch = examples()
    ids, _, mask, _ = batch
    table = tensors["model.embed_tokens.weight" if tied else "lm_head.weight"]
    wanted = (states(config, tensors, ids, mask) @ table.T)[:, :-1] * mask[:, :-1, None]
    logits = model(inputs_of(batch))["language_model_logits"]
    np.testing.assert_allclose(logits * mask[:, :-1, None], wanted, atol=1e-4)


@pytest.mark.parametrize("labels", [LABELS, 1])
@pytest.mark.parametrize(("config", "name"), [
    (QWEN3, "Qwen3ForSequenceClassification"), (GEMMA3, "Gemma3TextForSequenceClassification")])
def test_labels_of_the_last_token(config, name, labels, tmp_path):
    """One number makes a reranker."""
    config = {**config, "architectures": [name],
              "id2label": {str(i): str(i) for i in range(labels)}}
    tensors = tensors_of(config, {"score.weight": (labels, HIDDEN)})
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    assert model.problem == ("regression" if labels == 1 else "single_label")
    batch = examples()
    ids, _, mask, _ = batch
    wanted = (states(config, tensors, ids, mask) @ tensors["score.weight"].T)[
        np.arange(3), mask.sum(1) - 1]
    np.testing.assert_allclose(model(inputs_of(batch)), wanted, atol=3e-5)


@pytest.mark.parametrize(("config", "changes", "head"), [
    (QWEN3, {}, {}),
    (QWEN3, {"tie_word_embeddings": False}, {"lm_head.weight": (len(WORDS), HIDDEN)}),
    (QWEN3, {"architectures": ["Qwen3Model"], "is_causal": False}, None),
    (QWEN3, {"architectures": ["Qwen3ForSequenceClassification"], **CLASSES}, SCORE),
    (GEMMA3, {}, None), (LEFT, {}, {}), (GEMMA3, {"layer_types": ["full_attention"] * 4}, None),
    (GEMMA3, {"layer_types": ["sliding_attention"] * 4}, None),
    (GEMMA3, {"layer_types": ["full_attention", "sliding_attention"] * 2}, None),
    (GEMMA3, {"architectures": ["Gemma3TextForSequenceClassification"], **CLASSES}, SCORE)])
def test_written_as_read(config, changes, head, tmp_path):
    """Tensors come back byte for byte, with a configuration that means the same."""
    config = {**config, **changes}
    tensors = tensors_of(config, head or {}, "" if head is None else "model.")
    checkpoint = hf_safetensors.read(write(tmp_path / "model", config, tensors))
    check_written(checkpoint, tensors, tmp_path / "again")
    if "layer_types" in changes:
        assert [checkpoint.config.sees_all(layer) for layer in range(4)] == [
            kind == "full_attention" for kind in changes["layer_types"]]


@pytest.mark.parametrize("config", [QWEN3, LEFT])
def test_generation_ends_where_ours_does(config, tmp_path):
    """Without the key transformers would go on, or end at the token that it takes for granted."""
    folder = write(tmp_path / "model", config, tensors_of(config))
    words = [*"abcdefgh", *SPECIAL_TOKENS]
    Tokenizer(Vocabulary(words)).save(folder)
    hf_safetensors.write(hf_safetensors.read(folder), str(tmp_path / "again"))
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    assert written["eos_token_id"] == words.index("[SEP]")


def test_both_forms_of_rotary_parameters(tmp_path):
    """Those of transformers 5 and the older keys say the same."""
    qwen3 = {key: value for key, value in QWEN3.items() if not key.startswith("rope")}
    gemma3 = {key: value for key, value in GEMMA3.items() if not key.startswith("rope")}
    for number, (old, new) in enumerate((
            (QWEN3, {**qwen3, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}),
            (GEMMA3, {**gemma3, "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 20000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}}))):
        tensors = tensors_of(old)
        folders = [write(tmp_path / f"{number}_{form}", config, tensors)
                   for form, config in (("old", old), ("new", new))]
        assert hf_safetensors.read(folders[0]).config == hf_safetensors.read(folders[1]).config


def test_what_a_file_leaves_out(tmp_path):
    """Padding is the token that begins texts; a copy of the embeddings is left out."""
    tensors = tensors_of(QWEN3)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    found = hf_safetensors.read(write(tmp_path / "model", QWEN3, tensors))
    assert found.config.padding_id == 3 and found.dropped == ("lm_head.weight",)
    # An encoder has no need of a matrix that decodes.
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1
    config = {**QWEN3, "tie_word_embeddings": False}
    found = hf_safetensors.read_encoder(write(tmp_path / "untied", config, tensors))
    assert found.dropped == ("lm_head.weight",)
    with pytest.raises(UsageError, match="lm_head.weight differs from model.embed_tokens.weight"):
        hf_safetensors.read(write(tmp_path / "other", QWEN3, tensors))


@pytest.mark.parametrize(("config", "change", "message"), [
    (QWEN3, {"attention_bias": True}, "attention_bias=True; expected False"),
    (QWEN3, {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling="),
    (QWEN3, {"rope_parameters": {"type": "yarn"}}, "rope_parameters="),
    (QWEN3, {"rope_parameters": {"full_attention": {"rope_theta": 1.0}}}, "rope_parameters="),
    (QWEN3, {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
     "use_sliding_window=True with max_window_layers=1"),
    (QWEN3, {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types="),
    (QWEN3, {"head_dim": 5}, "heads of 5; expected an even number"),
    (QWEN3, {"architectures": ["Qwen3ForTokenClassification"]}, "architectures="),
    (GEMMA3, {"model_type": "gemma3"}, "model_type='gemma3'"),
    (GEMMA3, {"final_logit_softcapping": 30.0}, "final_logit_softcapping=30.0"),
    (GEMMA3, {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping=50.0"),
    (GEMMA3, {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}, "rope_scaling="),
    (GEMMA3, {"rope_parameters": {"rope_theta": 1e6}}, "rope_parameters="),
    (GEMMA3, {"sliding_window": None}, "sliding_window=None; expected an integer from 2 on"),
    (GEMMA3, {"sliding_window": 1}, "sliding_window=1; expected an integer from 2 on"),
    (GEMMA3, {"is_causal": False}, "is_causal=False"),
    (GEMMA3, {"layer_types": [*["full_attention"] * 3, "sliding_attention"]}, "layer_types="),
    (GEMMA3, {"layer_types": "full_attention"}, "layer_types="),
    (GEMMA3, {"layer_types": ["full_attention"], "num_hidden_layers": 10**13}, "layer_types="),
    (GEMMA3, {"architectures": ["Gemma3ForCausalLM"]}, "attention='bidirectional' would see")])
def test_other_models_are_refused(config, change, message, tmp_path):
    folder = write(tmp_path / "model", {**config, **change}, tensors_of(config))
    with pytest.raises(UsageError, match=message):
        bert_tf.from_pretrained(folder)


@pytest.mark.parametrize(("config", "change"), [
    (QWEN3, {"masked_lm_head": "transform"}), (QWEN3, {"norm": "layer_norm"}),
    (QWEN3, {"query_key_norm": False}), (QWEN3, {"scale_embeddings": True}),
    (QWEN3, {"pooling": "mean"}), (GEMMA3, {"norm_position": "pre"}),
    (GEMMA3, {"rotary_factor": 2.0}), (GEMMA3, {"norm": "rms_norm"})])
def test_what_a_folder_cannot_say_is_refused(config, change, tmp_path):
    checkpoint = hf_safetensors.read(write(tmp_path / "model", config, tensors_of(config)))
    with pytest.raises(UsageError, match=next(iter(change))):
        hf_safetensors.write(Checkpoint(checkpoint.config.replace(**change), checkpoint.task,
                                        checkpoint.tensors), str(tmp_path / "again"))
