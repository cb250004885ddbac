"""Folders of GPT-2 beside keras-nlp's GPT-2 with the same weights, live; out and in again."""

import json

import keras_nlp
import numpy as np
import pytest
from rotary_encoders import as_inputs, check_written, drawn, examples, write

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint
from bert_tf.errors import UsageError

VOCAB, HIDDEN, LAYERS, HEADS, INNER, LONGEST, LABELS = 30, 16, 2, 4, 64, 12, 3
# As openai-community/gpt2 has it.
CONFIG = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
          "attn_pdrop": 0.1, "bos_token_id": 29, "embd_pdrop": 0.1, "eos_token_id": 29,
          "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "model_type": "gpt2",
          "n_ctx": LONGEST, "n_embd": HIDDEN, "n_head": HEADS, "n_layer": LAYERS,
          "n_positions": LONGEST, "resid_pdrop": 0.1, "summary_activation": None,
          "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
          "summary_type": "cls_index", "summary_use_proj": True, "vocab_size": VOCAB,
          "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}}
CLASSES = {"architectures": ["GPT2ForSequenceClassification"],
           "id2label": {str(i): f"label {i}" for i in range(LABELS)}}


def tensors_of(inner=INNER, prefix="transformer.", head=()):
    """A model's tensors under their names; Conv1D kernels are [in, out]."""
    return drawn(prefix, {"wte.weight": (VOCAB, HIDDEN), "wpe.weight": (LONGEST, HIDDEN),
                          "ln_f.weight": (HIDDEN,), "ln_f.bias": (HIDDEN,)},
                 "h.{}.", {"ln_1.weight": (HIDDEN,), "ln_1.bias": (HIDDEN,),
                           "ln_2.weight": (HIDDEN,), "ln_2.bias": (HIDDEN,),
                           "attn.c_attn.weight": (HIDDEN, 3 * HIDDEN),
                           "attn.c_attn.bias": (3 * HIDDEN,),
                           "attn.c_proj.weight": (HIDDEN, HIDDEN), "attn.c_proj.bias": (HIDDEN,),
                           "mlp.c_fc.weight": (HIDDEN, inner), "mlp.c_fc.bias": (inner,),
                           "mlp.c_proj.weight": (inner, HIDDEN), "mlp.c_proj.bias": (HIDDEN,)},
                 LAYERS, dict(head))


def live(tensors, inner=INNER):
    """keras-nlp's backbone with the weights of a bare file."""
    backbone = keras_nlp.models.GPT2Backbone(VOCAB, LAYERS, HEADS, HIDDEN, inner,
                                             max_sequence_length=LONGEST, dtype="float32")

    def assign(layer, name):
        weight, bias = layer.weights
        weight.assign(np.reshape(tensors[f"{name}.weight"], weight.shape))
        bias.assign(np.reshape(tensors[f"{name}.bias"], bias.shape))

    backbone.token_embedding.embeddings.assign(tensors["wte.weight"])
    backbone.get_layer("position_embedding").weights[0].assign(tensors["wpe.weight"])
    assign(backbone.get_layer("layer_norm"), "ln_f")
    for number in range(LAYERS):
        layer, own = backbone.get_layer(f"transformer_layer_{number}"), f"h.{number}"
        weights = {weight.path.partition("/")[2]: weight for weight in layer.weights}
        for part, kernel, bias in zip(
                ("query", "key", "value"), np.split(tensors[f"{own}.attn.c_attn.weight"], 3, 1),
                np.split(tensors[f"{own}.attn.c_attn.bias"], 3), strict=True):
            for name, value in (("kernel", kernel), ("bias", bias)):
                weight = weights[f"self_attention/{part}/{name}"]
                weight.assign(np.reshape(value, weight.shape))
        for ours, theirs in (("self_attention/attention_output", "attn.c_proj"),
                             ("self_attention_layer_norm", "ln_1"),
                             ("feedforward_intermediate_dense", "mlp.c_fc"),
                             ("feedforward_output_dense", "mlp.c_proj"),
                             ("feedforward_layer_norm", "ln_2")):
            ends = ("gamma", "beta") if "norm" in ours else ("kernel", "bias")
            for end, their_end in zip(ends, ("weight", "bias"), strict=True):
                weight = weights[f"{ours}/{end}"]
                weight.assign(np.reshape(tensors[f"{own}.{theirs}.{their_end}"], weight.shape))
    return backbone


def test_a_published_folder_beside_keras_nlp(tmp_path):
    """Names have no prefix there, and the mask is a tensor; the head is the embeddings."""
    tensors = tensors_of(prefix="")
    buffers = {f"h.{i}.attn.{name}": value for i in range(LAYERS) for name, value in (
        ("bias", np.tri(LONGEST, dtype=np.float32)[None, None]),
        ("masked_bias", np.float32([-1e4])))}
    folder = write(tmp_path / "model", CONFIG, tensors | buffers)
    assert {*hf_safetensors.read(folder).dropped} == {*buffers}
    model = bert_tf.from_pretrained(folder)
    assert (model.config.padding_id, model.config.intermediate_size) == (29, INNER)
    ids, _, mask, _ = batch = examples()
    theirs = live(tensors)
    states = theirs({"token_ids": ids, "padding_mask": mask})
    wanted = theirs.token_embedding(states, reverse=True).numpy()
    logits = model(as_inputs(*batch))["language_model_logits"]
    np.testing.assert_allclose(logits * mask[:, :-1, None], wanted[:, :-1] * mask[:, :-1, None],
                               atol=1e-4)
    # The most probable token each time, with cells for keys and values and without.
    prompt = ids[:1, :5]
    for _ in range(4):
        states = theirs({"token_ids": prompt, "padding_mask": np.ones_like(prompt)})
        best = np.argmax(theirs.token_embedding(states, reverse=True)[:, -1], -1)
        prompt = np.concatenate([prompt, best[:, None]], 1)
    made = bert_tf.generate(model, ids[:1, :5], np.ones((1, 5), int), 4)
    assert made["output_word_ids"].numpy().tolist() == prompt[:, 5:].tolist()


def test_labels_of_the_last_token(tmp_path):
    bare = tensors_of(prefix="")
    score = {"score.weight": np.random.default_rng(3).normal(size=(LABELS, HIDDEN)).astype("f")}
    tensors = {f"transformer.{name}": value for name, value in bare.items()} | score
    model = bert_tf.from_pretrained(write(tmp_path / "model", {**CONFIG, **CLASSES}, tensors))
    ids, _, mask, _ = batch = examples()
    states = live(bare)({"token_ids": ids, "padding_mask": mask}).numpy()
    wanted = states[np.arange(3), mask.sum(1) - 1] @ score["score.weight"].T
    np.testing.assert_allclose(model(as_inputs(*batch)), wanted, atol=5e-5)


@pytest.mark.parametrize(("change", "arguments"), [
    ({}, {}), ({"architectures": ["GPT2Model"]}, {"prefix": ""}),
    ({"n_inner": 24, "activation_function": "relu"}, {"inner": 24}),
    (CLASSES, {"head": {"score.weight": (LABELS, HIDDEN)}})])
def test_written_as_read(change, arguments, tmp_path):
    """Tensors come back byte for byte, with a configuration that means the same."""
    tensors = tensors_of(**arguments)
    checkpoint = hf_safetensors.read(write(tmp_path / "model", {**CONFIG, **change}, tensors))
    check_written(checkpoint, tensors, tmp_path / "again")
    values = json.loads((tmp_path / "again" / "config.json").read_text())
    stated = {"n_inner": INNER, **CONFIG, **change, "pad_token_id": 29}
    for key in ("model_type", "architectures", "activation_function", "n_inner", "pad_token_id"):
        assert values[key] == stated[key]


@pytest.mark.parametrize(("change", "message"), [
    ({"scale_attn_weights": False}, "scale_attn_weights=False; expected True"),
    ({"scale_attn_by_inverse_layer_idx": True},
     "scale_attn_by_inverse_layer_idx=True; expected False"),
    ({"add_cross_attention": True}, "add_cross_attention=True; expected False"),
    ({"activation_function": "mish"}, "activation_function='mish' is unknown"),
    ({"embd_pdrop": 0.2}, "embd_pdrop=0.2; expected that of resid_pdrop, 0.1"),
    ({"n_inner": "4"}, "intermediate_size='4'"),
    ({"architectures": ["GPT2DoubleHeadsModel"]}, "architectures="),
    ({"model_type": "gpt_neo"}, "model_type='gpt_neo'")])
def test_other_models_are_refused(change, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(write(tmp_path / "model", {**CONFIG, **change}, tensors_of()))


def test_how_scores_are_divided_changes_no_number(tmp_path):
    changed = {**CONFIG, "reorder_and_upcast_attn": True}
    found = hf_safetensors.read(write(tmp_path / "model", changed, tensors_of()))
    assert found.config == hf_safetensors.read(
        write(tmp_path / "other", CONFIG, tensors_of())).config


def test_an_untied_head_is_refused(tmp_path):
    tensors = tensors_of(head={"lm_head.weight": (VOCAB, HIDDEN)})
    with pytest.raises(UsageError, match="lm_head.weight differs from transformer.wte.weight"):
        hf_safetensors.read(write(tmp_path / "model", CONFIG, tensors))


@pytest.mark.parametrize("change", [{"norm_position": "post"}, {"attention": "bidirectional"},
                                    {"use_bias": False}, {"pooling": "mean"}])
def test_what_a_folder_cannot_say_is_refused(change, tmp_path):
    checkpoint = hf_safetensors.read(write(tmp_path / "model", CONFIG, tensors_of()))
    with pytest.raises(UsageError, match=next(iter(change))):
        hf_safetensors.write(Checkpoint(checkpoint.config.replace(**change), checkpoint.task,
                                        checkpoint.tensors), str(tmp_path / "again"))
