"""Folders of jina-embeddings-v3, by either names of their tensors, beside NumPy."""

import json

import numpy as np
import pytest
import scipy.special
from rotary_encoders import (
    EPSILON,
    WORDS,
    as_inputs,
    attended,
    check_written,
    drawn,
    examples,
    layer_norm,
    write,
)

import bert_tf
from bert_tf.converters import hf_safetensors, sentence_transformers
from bert_tf.errors import UsageError

HIDDEN, HEADS, INNER, LAYERS, THETA, LABELS = 16, 2, 24, 2, 3000.0, 3
CONFIG = {"architectures": ["JinaEmbeddingsV3ForMaskedLM"], "model_type": "jina_embeddings_v3",
          "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu",
          "max_position_embeddings": 32, "type_vocab_size": 2, "pad_token_id": 0,
          "layer_norm_eps": EPSILON, "classifier_dropout": None, "tie_word_embeddings": True,
          "rope_parameters": {"rope_theta": THETA, "rope_type": "default"}}
EMBEDDINGS = {
    "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
    "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    "emb_ln.weight": (HIDDEN,), "emb_ln.bias": (HIDDEN,)}


def _of_linear(name, inputs, outputs):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


BLOCK = {**_of_linear("mixer.Wqkv", HIDDEN, 3 * HIDDEN),
         **_of_linear("mixer.out_proj", HIDDEN, HIDDEN), **_of_linear("mlp.fc1", HIDDEN, INNER),
         **_of_linear("mlp.fc2", INNER, HIDDEN),
         **{f"norm{n}.{end}": (HIDDEN,) for n in (1, 2) for end in ("weight", "bias")}}
HEAD = {**_of_linear("lm_head.dense", HIDDEN, HIDDEN), "lm_head.layer_norm.weight": (HIDDEN,),
        "lm_head.layer_norm.bias": (HIDDEN,), "lm_head.bias": (len(WORDS),)}
LABEL_HEAD = {**_of_linear("classifier.dense", HIDDEN, HIDDEN),
              **_of_linear("classifier.out_proj", HIDDEN, LABELS)}
TOKEN_HEAD, SPAN_HEAD = (_of_linear("classifier", HIDDEN, LABELS),
                         _of_linear("qa_outputs", HIDDEN, 2))
LABELLED = {"id2label": {str(i): str(i) for i in range(LABELS)}}


def tensors_of(head, prefix="roberta."):
    """A model's tensors under the names of its files."""
    return drawn(prefix, EMBEDDINGS, "encoder.layers.{}.", BLOCK, LAYERS, head)


def of_modules(tensors):
    """The same as transformers names them in memory."""
    names, found = {"emb_ln": "embeddings.LayerNorm", "encoder.layers": "layers",
                    "mixer.out_proj": "self_attn.o_proj", "norm1": "post_attention_layernorm",
                    "norm2": "post_mlp_layernorm"}, {}
    for name, value in tensors.items():
        for old, new in names.items():
            name = name.replace(old, new)
        parts = np.split(value, 3) if "Wqkv" in name else [value]
        found |= {name.replace("mixer.Wqkv", f"self_attn.{letter}_proj"): part
                  for letter, part in zip("qkv", parts, strict=False)}
    return found


def gelu(x):
    return x * scipy.special.ndtr(x)


def states(weights, ids, segments, mask, act):
    """`[batch, tokens, hidden]` after the last layer, in float64."""
    weights = {name.removeprefix("roberta."): value.astype(np.float64)
               for name, value in weights.items()}
    x = layer_norm(weights["embeddings.word_embeddings.weight"][ids]
                   + weights["embeddings.token_type_embeddings.weight"][segments],
                   weights, "emb_ln")
    for layer in range(LAYERS):
        own = {name.removeprefix(f"encoder.layers.{layer}."): value
               for name, value in weights.items()}

        def dense(x, name, own=own):
            return x @ own[f"{name}.weight"].T + own[f"{name}.bias"]

        context = attended(*np.split(dense(x, "mixer.Wqkv"), 3, axis=-1), mask, HEADS, THETA)
        x = layer_norm(x + dense(context, "mixer.out_proj"), own, "norm1")
        x = layer_norm(x + dense(act(dense(x, "mlp.fc1")), "mlp.fc2"), own, "norm2")
    return x


@pytest.mark.parametrize("named", [dict, of_modules])
@pytest.mark.parametrize(("change", "act"), [
    ({}, gelu), ({"hidden_act": "relu", "rope_parameters": None, "rope_theta": THETA},
                 lambda x: np.maximum(x, 0))])
def test_states_and_logits(named, change, act, tmp_path):
    """The head's activation is GELU, whatever that of the layers is."""
    weights = tensors_of(HEAD)
    folder = write(tmp_path / "model", {**CONFIG, **change}, named(weights))
    model = bert_tf.from_pretrained(folder)
    assert model.fresh_variables == () and model.config.longest == 32
    batch = examples()
    chosen = np.take_along_axis(states(weights, *batch[:3], act), batch[3][..., None], axis=1)
    hidden = gelu(chosen @ weights["lm_head.dense.weight"].T + weights["lm_head.dense.bias"])
    logits = (layer_norm(hidden, weights, "lm_head.layer_norm")
              @ weights["roberta.embeddings.word_embeddings.weight"].T + weights["lm_head.bias"])
    np.testing.assert_allclose(model(as_inputs(*batch))["masked_lm_logits"], logits, atol=2e-5)
    check_written(hf_safetensors.read(folder), weights, tmp_path / "again")


def test_labels_of_texts(tmp_path):
    weights = tensors_of(LABEL_HEAD)
    config = {**CONFIG, **LABELLED, "architectures": ["JinaEmbeddingsV3ForSequenceClassification"]}
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, weights))
    batch = examples()
    inputs = {name: value for name, value in as_inputs(*batch).items() if "masked" not in name}
    first = states(weights, *batch[:3], gelu)[:, 0]
    for name, act in (("dense", np.tanh), ("out_proj", np.asarray)):
        first = act(first @ weights[f"classifier.{name}.weight"].T
                    + weights[f"classifier.{name}.bias"])
    np.testing.assert_allclose(model(inputs), first, atol=2e-5)


@pytest.mark.parametrize(("name", "head"), [
    ("Model", _of_linear("pooler.dense", HIDDEN, HIDDEN)),
    ("ForSequenceClassification", LABEL_HEAD),
    ("ForTokenClassification", TOKEN_HEAD), ("ForQuestionAnswering", SPAN_HEAD)])
def test_written_as_read(name, head, tmp_path):
    config = {**CONFIG, "architectures": [f"JinaEmbeddingsV3{name}"],
              **(LABELLED if head in (LABEL_HEAD, TOKEN_HEAD) else {})}
    tensors = tensors_of(head, "" if name == "Model" else "roberta.")
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors))
    check_written(read, tensors, tmp_path / "again")
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    assert written["rope_parameters"] == CONFIG["rope_parameters"]


def test_vectors_of_sentence_transformers(tmp_path):
    """The mean of real tokens, from text and from a folder that is written again."""
    weights = tensors_of({}, "")
    folder = write(tmp_path / "model", {**CONFIG, "architectures": ["JinaEmbeddingsV3Model"]},
                   weights)
    for name, content in {
            "modules.json": [{"idx": number, "name": str(number), "path": path,
                              "type": f"sentence_transformers.models.{kind}"}
                             for number, (path, kind) in enumerate((
                                 ("", "Transformer"), ("1_Pooling", "Pooling")))],
            "sentence_bert_config.json": {"max_seq_length": 16},
            "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN,
                                      "pooling_mode_mean_tokens": True}}.items():
        (tmp_path / "model" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "model" / name).write_text(json.dumps(content))
    texts = ["w3 w0 w9", "w7"]
    ids = np.array([[2, 8, 5, 14, 3], [2, 12, 3, 0, 0]])
    mask = ids > 0
    wanted = (states(weights, ids, 0 * ids, mask, gelu) * mask[..., None]).sum(1) / mask.sum(
        1, keepdims=True)
    model = bert_tf.from_pretrained(folder)
    np.testing.assert_allclose(model.embed(texts), wanted, atol=2e-5)
    sentence_transformers.write(sentence_transformers.read(folder), str(tmp_path / "again"))
    again = bert_tf.from_pretrained(str(tmp_path / "again"))
    np.testing.assert_array_equal(again.embed(texts), model.embed(texts))


@pytest.mark.parametrize(("change", "message"), [
    ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_parameters="),
    ({"position_embedding_type": "absolute_too"}, "position_embedding_type='absolute_too'"),
    ({"is_decoder": True}, "is_decoder=True; expected False"),
    ({"rotary_emb_base": 1.0}, "rotary_emb_base=1.0, which we do not know"),
    ({"architectures": ["JinaEmbeddingsV3ForMultipleChoice"]}, "architectures=")])
def test_other_models_are_refused(change, message, tmp_path):
    folder = write(tmp_path / "model", {**CONFIG, **change}, tensors_of(HEAD))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


@pytest.mark.parametrize("modules", [False, True])
def test_the_first_folder_names_the_one_to_take(modules, tmp_path):
    """It has code of its own, for sentence-transformers too, and adapters in its weights."""
    name = "roberta.encoder.layers.0.mixer.Wqkv.parametrizations.weight"
    folder = write(tmp_path / "model", {
        **CONFIG, "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta",
        "position_embedding_type": "rotary", "lora_adaptations": ["retrieval.query"]},
        {f"{name}.original": np.zeros((48, 16), np.float32),
         f"{name}.0.lora_A": np.zeros((1, 4, 16), np.float32)})
    if modules:
        (tmp_path / "model" / "modules.json").write_text(json.dumps(
            [{"idx": 0, "name": "transformer", "path": "", "type": "custom_st.Transformer"}]))
    with pytest.raises(UsageError, match=r"lora_adaptations=\['retrieval.query'\].*; try jinaai/ji"
                                         "na-embeddings-v3-hf"):
        bert_tf.from_pretrained(folder)
