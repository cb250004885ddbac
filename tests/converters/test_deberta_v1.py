"""DeBERTa's first version: folders go in and out, beside the paper's formulas in NumPy."""

import json

import numpy as np
import pytest
from rotary_encoders import WORDS, as_inputs, check_written, drawn, examples, layer_norm, write
from safetensors.numpy import load_file
from scipy import special

import bert_tf
from bert_tf.converters import hf_safetensors
from bert_tf.errors import UsageError

HIDDEN, HEADS, INNER, LAYERS, LONGEST, LABELS = 12, 3, 20, 2, 16, 3
CONFIG = {"architectures": ["DebertaForMaskedLM"], "model_type": "deberta",
          "vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu",
          "max_position_embeddings": LONGEST, "max_relative_positions": -1,
          "layer_norm_eps": 1e-12, "relative_attention": True, "pos_att_type": "c2p|p2c",
          "position_biased_input": False}
BIASED = {"position_biased_input": True, "type_vocab_size": 2}
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
HEAD = {"cls.predictions.transform.dense.weight": (HIDDEN, HIDDEN),
        **{f"cls.predictions.transform.{name}": (HIDDEN,)
           for name in ("dense.bias", "LayerNorm.weight", "LayerNorm.bias")},
        "cls.predictions.bias": (len(WORDS),)}
CLASSIFIER = {"classifier.weight": (LABELS, HIDDEN), "classifier.bias": (LABELS,)}
POOLER = {"pooler.dense.weight": (HIDDEN, HIDDEN), "pooler.dense.bias": (HIDDEN,)}
LABELLED = {"id2label": {str(i): str(i) for i in range(LABELS)}}


def tensors_of(head, config=CONFIG, prefix="deberta."):
    """A model's tensors under their names."""
    positions = {"embeddings.position_embeddings.weight": (LONGEST, HIDDEN)}
    farthest = config["max_relative_positions"]
    return drawn(prefix, {
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,), "embeddings.LayerNorm.bias": (HIDDEN,),
        "encoder.rel_embeddings.weight": (2 * (LONGEST if farthest < 0 else farthest), HIDDEN),
        **(positions if config["position_biased_input"] else {}),
        **({"embeddings.token_type_embeddings.weight": (2, HIDDEN)}
           if config.get("type_vocab_size") else {})}, "encoder.layer.{}.", {
        "attention.self.in_proj.weight": (3 * HIDDEN, HIDDEN),
        "attention.self.q_bias": (HIDDEN,), "attention.self.v_bias": (HIDDEN,),
        **({"attention.self.pos_proj.weight": (HIDDEN, HIDDEN)}
           if "c2p" in config["pos_att_type"] else {}),
        **({"attention.self.pos_q_proj.weight": (HIDDEN, HIDDEN),
            "attention.self.pos_q_proj.bias": (HIDDEN,)}
           if "p2c" in config["pos_att_type"] else {}),
        "attention.output.dense.weight": (HIDDEN, HIDDEN), "attention.output.dense.bias": (HIDDEN,),
        "intermediate.dense.weight": (INNER, HIDDEN), "intermediate.dense.bias": (INNER,),
        "output.dense.weight": (HIDDEN, INNER), "output.dense.bias": (HIDDEN,),
        **{f"{norm}.{end}": (HIDDEN,) for norm in NORMS for end in ("weight", "bias")}},
        LAYERS, head)


def gelu(x):
    return x * special.ndtr(x)


def dense(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)


def by_head(x):
    """`[…, tokens, hidden]` -> `[…, heads, tokens, size]`."""
    return np.moveaxis(x.reshape(*x.shape[:-1], HEADS, -1), -2, -3)


def states(tensors, config, ids, segments, mask):
    """`[batch, tokens, hidden]` of the last layer, in float64 (paper, equations 2 to 4)."""
    weights = {name.removeprefix("deberta."): value.astype(np.float64)
               for name, value in tensors.items()}
    x = weights["embeddings.word_embeddings.weight"][ids]
    if config["position_biased_input"]:
        x = x + weights["embeddings.position_embeddings.weight"][:ids.shape[1]]
    if config.get("type_vocab_size"):
        x = x + weights["embeddings.token_type_embeddings.weight"][segments]
    x = layer_norm(x, weights, "embeddings.LayerNorm")
    table, place = weights["encoder.rel_embeddings.weight"], np.arange(ids.shape[1])
    farthest = len(table) // 2
    row = np.clip(place[:, None] - place, -farthest, farthest - 1) + farthest
    for layer in range(LAYERS):
        own = {name.removeprefix(f"encoder.layer.{layer}."): value
               for name, value in weights.items()}
        heads = by_head(dense(x, own, "attention.self.in_proj"))  # of each its three parts
        query, key, value = np.split(heads, 3, axis=-1)
        query = query + by_head(own["attention.self.q_bias"][None])
        value = value + by_head(own["attention.self.v_bias"][None])
        scores, terms = query @ key.swapaxes(2, 3), 1
        if "c2p" in config["pos_att_type"]:
            keys = by_head(dense(table, own, "attention.self.pos_proj"))[:, row]
            scores, terms = scores + np.einsum("bnfh,nfth->bnft", query, keys), terms + 1
        if "p2c" in config["pos_att_type"]:
            queries = by_head(dense(table, own, "attention.self.pos_q_proj"))[:, row]
            scores, terms = scores + np.einsum("bnth,nfth->bnft", key, queries), terms + 1
        scores = scores / np.sqrt(terms * query.shape[-1])
        context = special.softmax(np.where(mask[:, None, None], scores, -1e9), -1) @ value
        context = np.moveaxis(context, 1, 2).reshape(x.shape)
        x = layer_norm(x + dense(context, own, "attention.output.dense"), own, NORMS[0])
        inner = gelu(dense(x, own, "intermediate.dense"))
        x = layer_norm(x + dense(inner, own, "output.dense"), own, NORMS[1])
    return x


def logits_of(tensors, config):
    """Of the masked positions of `examples`."""
    ids, segments, mask, positions = examples()
    chosen = np.take_along_axis(states(tensors, config, ids, segments, mask),
                                positions[..., None], axis=1)
    name = "cls.predictions.transform"
    chosen = layer_norm(gelu(dense(chosen, tensors, f"{name}.dense")), tensors, f"{name}.LayerNorm")
    return (chosen @ tensors["deberta.embeddings.word_embeddings.weight"].T
            + tensors["cls.predictions.bias"])


@pytest.mark.parametrize("padding_free", [False, True])
@pytest.mark.parametrize("changes", [
    {}, BIASED | {"pos_att_type": ["p2c", "c2p"]}, {"pos_att_type": ["c2p"]},
    BIASED | {"pos_att_type": "p2c"}, {"max_relative_positions": 4}])
def test_states_and_logits(changes, padding_free, tmp_path):
    """Distances beyond the table have its last row."""
    config = CONFIG | changes
    tensors = tensors_of(HEAD, config)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    model.encoder.backbone.padding_free = padding_free
    assert model.fresh_variables == ()
    logits = model(as_inputs(*examples()))["masked_lm_logits"]
    np.testing.assert_allclose(logits, logits_of(tensors, config), atol=1e-5)


THEIRS = {
    "plain": [[0.045413, -0.086915, 1.024709, 0.115150], [-0.026587, -0.132450, 1.031252, 0.169175],
              [0.165070, 0.226090, 1.131944, 0.026235]],
    "biased": [[1.952890, -0.455437, 0.787865, -1.347716],
               [1.954760, -0.464124, 0.784062, -1.340583],
               [1.945592, -0.456516, 0.772053, -1.331944]]}


@pytest.mark.parametrize("name", THEIRS)
def test_the_formulas_are_those_of_transformers(name):
    """What transformers 5.24 computes with torch 2.13, of the last masked position of each row."""
    config = CONFIG | {"plain": {}, "biased": BIASED}[name]
    found = logits_of(tensors_of(HEAD, config), config)[:, 1, :4]
    np.testing.assert_allclose(found, THEIRS[name], atol=1e-5)


def test_labels_of_texts(tmp_path):
    config = {**CONFIG, **LABELLED, "architectures": ["DebertaForSequenceClassification"]}
    tensors = tensors_of(POOLER | CLASSIFIER)
    model = bert_tf.from_pretrained(write(tmp_path / "model", config, tensors))
    ids, segments, mask, _ = batch = examples()
    inputs = {name: value for name, value in as_inputs(*batch).items() if "masked" not in name}
    first = states(tensors, config, ids, segments, mask)[:, 0]
    logits = dense(gelu(dense(first, tensors, "pooler.dense")), tensors, "classifier")
    np.testing.assert_allclose(model(inputs), logits, atol=1e-5)


@pytest.mark.parametrize(("name", "head"), [
    ("DebertaForMaskedLM", HEAD), ("DebertaModel", {}),
    ("DebertaForSequenceClassification", POOLER | CLASSIFIER),
    ("DebertaForTokenClassification", CLASSIFIER),
    ("DebertaForQuestionAnswering", {"qa_outputs.weight": (2, HIDDEN), "qa_outputs.bias": (2,)})])
def test_written_as_read(name, head, tmp_path):
    """Tensors come back byte for byte."""
    labelled = "classifier.bias" in head
    config = {**CONFIG, **BIASED, **(LABELLED if labelled else {}), "architectures": [name]}
    tensors = tensors_of(head, config, "" if name == "DebertaModel" else "deberta.")
    read = hf_safetensors.read(write(tmp_path / "model", config, tensors))
    check_written(read, tensors, tmp_path / "again")
    written = json.loads((tmp_path / "again" / "config.json").read_text())
    changed = {"max_relative_positions": LONGEST, "pos_att_type": ["p2c", "c2p"]}
    assert {key: written[key] for key in config} == config | changed
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == tensors.keys()


def of_training(tensors):
    """The same under the names of the head that models were trained with."""
    return {name.replace("cls.predictions.transform.", "lm_predictions.lm_head.").replace(
        "cls.predictions.", "lm_predictions.lm_head."): value for name, value in tensors.items()}


def test_the_head_that_is_no_legacy_one(tmp_path):
    """It computes the same, and is written as the other."""
    tensors = tensors_of(HEAD)
    folder = write(tmp_path / "model", CONFIG | {"legacy": False}, of_training(tensors))
    check_written(hf_safetensors.read(folder), tensors, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["legacy"] is True


def test_a_published_folder(tmp_path):
    """It names no class, and has a head and positions that transformers leaves out."""
    config = {key: value for key, value in CONFIG.items() if key != "architectures"}
    further = of_training(tensors_of(HEAD, CONFIG | {"position_biased_input": True}))
    positions = {"deberta.embeddings.position_embeddings.weight"}
    head = {name for name in further if name.startswith("lm_predictions.")}
    read = hf_safetensors.read(write(tmp_path / "model", config, further))
    assert read.task == {"task": "encoder"} and {*read.dropped} == positions | head
    read = hf_safetensors.read(write(tmp_path / "told", config | {"legacy": False}, further))
    assert read.task["task"] == "pretraining" and {*read.dropped} == positions
    labelled = {**LABELLED, "architectures": ["DebertaForSequenceClassification"], "legacy": False}
    read = hf_safetensors.read(write(tmp_path / "labels", config | labelled, {
        **further, **tensors_of({**POOLER, **CLASSIFIER})}))
    assert read.task["task"] == "classifier" and {*read.dropped} == positions | head


@pytest.mark.parametrize(("changes", "message"), [
    ({"relative_attention": False}, "relative_attention=False; expected True"),
    ({"pos_att_type": "p2p|c2p"}, "pos_att_type='p2p|c2p'; expected 'c2p', 'p2c', or both"),
    ({"pos_att_type": []}, r"pos_att_type=\[\]; expected 'c2p'"),
    ({"position_biased_input": 1}, "position_biased_input=1; expected true or false"),
    ({"legacy": "no"}, "legacy='no'; expected true or false"),
    ({"talking_head": True}, "talking_head=True, which we do not know"),
    ({"embedding_size": 6}, "embedding_size=6; expected that of hidden_size, 12"),
    ({"pooler_hidden_size": 6}, "pooler_hidden_size=6; expected that of hidden_size, 12"),
    ({"attention_head_size": 6}, "attention_head_size=6; expected hidden_size divided by"),
    ({"position_buckets": 8}, "position_buckets=8, which we do not know"),
    ({"max_relative_positions": "x"}, "position_buckets='x'")])
def test_other_models_are_refused(changes, message, tmp_path):
    folder = write(tmp_path / "model", CONFIG | changes, tensors_of(HEAD))
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(folder)


@pytest.mark.parametrize(("changes", "message"), [
    ({"key_bias": True}, "key_bias=True cannot be written"),
    ({"position_embedding": "sinusoidal"}, "position_embedding='sinusoidal' cannot be written")])
def test_what_version_1_cannot_be(changes, message, tmp_path):
    read = hf_safetensors.read(write(tmp_path / "model", CONFIG, tensors_of(HEAD)))
    assert hf_safetensors.refusal(read.config, read.task) is None
    assert message in hf_safetensors.refusal(read.config.replace(**changes), read.task)
