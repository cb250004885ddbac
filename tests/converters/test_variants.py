"""Folders that are a family of ours under other names or with other values."""

import json
import math

import keras
import numpy as np
import pytest
from rotary_encoders import WORDS, as_inputs, attended, check_written, drawn, examples, layer_norm
from rotary_encoders import write as write_folder
from safetensors.numpy import load_file, save_file
from same import check_same, near
from test_hf_bert import ENCODER, LABELS, MASKED_LM, bert, write

import bert_tf
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_bert, hf_config, hf_safetensors
from bert_tf.converters.checkpoint import Checkpoint, Tensors, parameter_shapes
from bert_tf.errors import UsageError

HIDDEN, HEADS, INNER, LAYERS, POSITIONS = 16, 2, 24, 2, 32
SIZES = {"vocab_size": len(WORDS), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
         "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "relu",
         "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
         "max_position_embeddings": POSITIONS, "initializer_range": 0.02, "layer_norm_eps": 1e-12}
# Of a type: how its classes and the names of its encoder begin, the norms before the halves of a
# block and after the last, the dense layer, norm and bias of its head, and the rest of its values.
PRE_NORM = {
    "megatron-bert": ("MegatronBert", "bert.", ("attention.ln", "ln", "ln"), (
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias"), {"type_vocab_size": 2, "pad_token_id": 0}),
    "xlm-roberta-xl": ("XLMRobertaXL", "roberta.", (
        "attention.self_attn_layer_norm", "LayerNorm", "LayerNorm"), (
        "lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        {"type_vocab_size": 1, "pad_token_id": 1}),
}


def roberta(task):
    """A `Checkpoint` of a small RoBERTa."""
    config = ModelConfig.from_dict({"family": "roberta", **SIZES, "padding_id": 1,
                                    "head_act": "gelu" if task == MASKED_LM else ""})
    shapes = parameter_shapes(config, task)
    return Checkpoint(config, task, Tensors.of(drawn("", shapes, "", {}, 0, {})))


@pytest.mark.parametrize("task", [ENCODER, MASKED_LM, *LABELS, {"task": "span"}])
def test_data2vec_is_a_roberta(task, tmp_path):
    checkpoint = roberta(task)
    folder = write(checkpoint, tmp_path / "data2vec", "data2vec-text", "", lambda tensors: {
        name.replace("roberta.", "data2vec_text."): array for name, array in tensors.items()})
    config = json.loads((tmp_path / "data2vec/config.json").read_text())
    config["architectures"] = [config["architectures"][0].replace("Roberta", "Data2VecText")]
    (tmp_path / "data2vec/config.json").write_text(json.dumps(config))
    check_same(hf_safetensors.read(folder), checkpoint)
    hf_safetensors.write(hf_safetensors.read(folder), str(tmp_path / "again"))
    check_same(hf_safetensors.read(str(tmp_path / "again")), checkpoint)


def pre_norm(kind, end, head=True):
    """`(config.json, tensors)` of a type with LayerNorm before each half, for the class that ends
    with `end`."""
    name, prefix, (attention, inner, last), (dense, norm, bias), values = PRE_NORM[kind]
    tables = {"word": len(WORDS), "position": POSITIONS, "token_type": values["type_vocab_size"]}
    encoder = {f"embeddings.{table}_embeddings.weight": (rows, HIDDEN)
               for table, rows in tables.items()} | {
                   f"encoder.{last}.{end}": (HIDDEN,) for end in ("weight", "bias")}
    block = {f"{each}.{end}": shape[:size] for each, shape in {
        **{f"attention.{part}": (HIDDEN, HIDDEN) for part in (
            "self.query", "self.key", "self.value", "output.dense")},
        "intermediate.dense": (INNER, HIDDEN), "output.dense": (HIDDEN, INNER),
        attention: (HIDDEN,), inner: (HIDDEN,)}.items()
        for end, size in (("weight", 2), ("bias", 1))}
    of_head = {f"{dense}.weight": (HIDDEN, HIDDEN), f"{bias}": (len(WORDS),), **dict.fromkeys(
        (f"{dense}.bias", f"{norm}.weight", f"{norm}.bias"), (HIDDEN,))}
    config = {"architectures": [f"{name}{end}"], "model_type": kind, **SIZES, **values}
    return config, drawn(prefix if head else "", encoder, "encoder.layer.{}.", block, LAYERS,
                         of_head if head else {})


ROFORMER = {"model_type": "roformer", **SIZES, "type_vocab_size": 2, "pad_token_id": 0,
            "rotary_value": False}
WIDTH = 12
TWO = {"classifier.weight": (2, HIDDEN), "classifier.bias": (2,)}


def roformer(end, head, width=WIDTH, **change):
    """`(config.json, tensors)` of a RoFormer with a head, `{name: shape}`, for the class that ends
    with `end`."""
    bare = end == "Model"
    embeddings = {"embeddings.word_embeddings.weight": (len(WORDS), width),
                  "embeddings.token_type_embeddings.weight": (2, width),
                  "embeddings.LayerNorm.weight": (width,), "embeddings.LayerNorm.bias": (width,)}
    if width != HIDDEN:
        embeddings |= {"embeddings_project.weight": (HIDDEN, width),
                       "embeddings_project.bias": (HIDDEN,)}
    block = {f"{each}.{part}": shape[:size] for each, shape in {
        **{f"attention.{each}": (HIDDEN, HIDDEN) for each in (
            "self.query", "self.key", "self.value", "output.dense")},
        "intermediate.dense": (INNER, HIDDEN), "output.dense": (HIDDEN, INNER),
        "attention.output.LayerNorm": (HIDDEN,), "output.LayerNorm": (HIDDEN,)}.items()
        for part, size in (("weight", 2), ("bias", 1))}
    prefix = "" if bare else "roformer."
    size = HIDDEN // HEADS
    angle = np.arange(POSITIONS)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    table = np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32)
    config = {"architectures": [f"RoFormer{end}"], **ROFORMER, "embedding_size": width} | change
    return config, drawn(prefix, embeddings, "encoder.layer.{}.", block, LAYERS, head) | {
        f"{prefix}encoder.embed_positions.weight": table}


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def expected(kind, tensors, ids, segments, mask, positions):
    """Hidden states and logits of the positions, in float64."""
    _, prefix, (attention, inner, last), (dense, norm, bias), values = PRE_NORM[kind]
    weights = {name.removeprefix(prefix): array.astype(np.float64)
               for name, array in tensors.items()}

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    words, places, types = (weights[f"embeddings.{table}_embeddings.weight"]
                            for table in ("word", "position", "token_type"))
    first = values["pad_token_id"] + 1 if kind == "xlm-roberta-xl" else 0
    x = words[ids] + places[first + np.arange(ids.shape[1])] + types[segments]
    for block in (f"encoder.layer.{layer}" for layer in range(LAYERS)):
        entering = layer_norm(x, weights, f"{block}.{attention}")
        parts = [linear(entering, f"{block}.attention.self.{part}")
                 for part in ("query", "key", "value")]
        context = attended(*parts, mask, HEADS, 1.0, np.inf)
        x = x + linear(context, f"{block}.attention.output.dense")
        entering = layer_norm(x, weights, f"{block}.{inner}")
        x = x + linear(np.maximum(linear(entering, f"{block}.intermediate.dense"), 0),
                       f"{block}.output.dense")
    x = layer_norm(x, weights, f"encoder.{last}")
    act = gelu if kind == "xlm-roberta-xl" else lambda x: np.maximum(x, 0)  # whatever is said
    asked = np.take_along_axis(x, positions[..., None], 1)
    return x, layer_norm(act(linear(asked, dense)), weights, norm) @ words.T + weights[bias]


@pytest.mark.parametrize("kind", PRE_NORM)
def test_norms_before_each_half(kind, tmp_path):
    config, tensors = pre_norm(kind, "ForMaskedLM")
    ids, segments, mask, positions = examples()
    segments = segments * (config["type_vocab_size"] > 1)
    states, logits = expected(kind, tensors, ids, segments, mask, positions)
    folder = write_folder(tmp_path / "model", config, tensors)
    model, inputs = bert_tf.from_pretrained(folder), as_inputs(ids, segments, mask, positions)
    near(model.backbone({name: value for name, value in inputs.items() if "lm" not in name})[
        "sequence_output"][mask], states[mask])
    near(keras.ops.reshape(model(inputs)["masked_lm_logits"], logits.shape), logits)
    read = hf_safetensors.read(folder)
    check_written(read, tensors, tmp_path / "again")
    written = json.loads((tmp_path / "again/config.json").read_text())
    assert {key: written[key] for key in config} == config


def turned(x):
    """Queries or keys `[batch, tokens, hidden]` of which each pair of neighbours is turned as a
    complex number."""
    pairs = x.reshape(*x.shape[:2], HEADS, -1, 2)
    size = HIDDEN // HEADS
    angle = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    moved = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angle)[:, None]
    return np.stack([moved.real, moved.imag], -1).reshape(x.shape)


def roformer_states(tensors, ids, segments, mask):
    """`[batch, tokens, hidden]`, in float64."""
    weights = {name.removeprefix("roformer."): array.astype(np.float64)
               for name, array in tensors.items()}

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = layer_norm(weights["embeddings.word_embeddings.weight"][ids]
                   + weights["embeddings.token_type_embeddings.weight"][segments], weights,
                   "embeddings.LayerNorm")
    if "embeddings_project.bias" in weights:
        x = linear(x, "embeddings_project")
    for block in (f"encoder.layer.{layer}" for layer in range(LAYERS)):
        query, key, value = (linear(x, f"{block}.attention.self.{part}")
                             for part in ("query", "key", "value"))
        context = attended(turned(query), turned(key), value, mask, HEADS, 1.0, np.inf)
        x = layer_norm(x + linear(context, f"{block}.attention.output.dense"), weights,
                       f"{block}.attention.output.LayerNorm")
        inner = np.maximum(linear(x, f"{block}.intermediate.dense"), 0)
        x = layer_norm(x + linear(inner, f"{block}.output.dense"), weights,
                       f"{block}.output.LayerNorm")
    return x


def of_masked_lm(width):
    head = "cls.predictions.transform"
    return {f"{head}.dense.weight": (width, HIDDEN), "cls.predictions.bias": (len(WORDS),),
            **dict.fromkeys((f"{head}.dense.bias", f"{head}.LayerNorm.weight",
                             f"{head}.LayerNorm.bias"), (width,))}


@pytest.mark.parametrize("width", [WIDTH, HIDDEN])
def test_roformer_turns_neighbours(width, tmp_path):
    config, tensors = roformer("ForMaskedLM", of_masked_lm(width), width)
    ids, segments, mask, positions = examples()
    states = roformer_states(tensors, ids, segments, mask)
    head = "cls.predictions.transform"
    asked = np.take_along_axis(states, positions[..., None], 1)
    inner = np.maximum(asked @ tensors[f"{head}.dense.weight"].T + tensors[f"{head}.dense.bias"], 0)
    logits = layer_norm(inner, tensors, f"{head}.LayerNorm") @ tensors[
        "roformer.embeddings.word_embeddings.weight"].T + tensors["cls.predictions.bias"]
    folder = write_folder(tmp_path / "model", config, tensors)
    model, inputs = bert_tf.from_pretrained(folder), as_inputs(ids, segments, mask, positions)
    near(model.backbone({name: value for name, value in inputs.items() if "lm" not in name})[
        "sequence_output"][mask], states[mask])
    near(keras.ops.reshape(model(inputs)["masked_lm_logits"], logits.shape), logits)
    check_written(hf_safetensors.read(folder), tensors, tmp_path / "again")
    written = json.loads((tmp_path / "again/config.json").read_text())
    assert written | {"rotary_value": False} == written | config


@pytest.mark.parametrize(("end", "head"), [
    ("Model", {}), ("ForTokenClassification", TWO),
    ("ForQuestionAnswering", {"qa_outputs.weight": (2, HIDDEN), "qa_outputs.bias": (2,)})])
def test_other_roformers_come_back(end, head, tmp_path):
    config, tensors = roformer(end, head)
    check_written(hf_safetensors.read(write_folder(tmp_path / "model", config, tensors)), tensors,
                  tmp_path / "again")


def test_roformer_classifies_by_the_first_state(tmp_path):
    """With the activation of its layers, and no pooler."""
    head = {"classifier.dense.weight": (HIDDEN, HIDDEN), "classifier.dense.bias": (HIDDEN,),
            "classifier.out_proj.weight": (2, HIDDEN), "classifier.out_proj.bias": (2,)}
    config, tensors = roformer("ForSequenceClassification", head)
    ids, segments, mask, positions = examples()
    first = roformer_states(tensors, ids, segments, mask)[:, 0]
    inner = np.maximum(first @ tensors["classifier.dense.weight"].T
                       + tensors["classifier.dense.bias"], 0)
    folder = write_folder(tmp_path / "model", config, tensors)
    inputs = as_inputs(ids, segments, mask, positions)
    del inputs["masked_lm_positions"]
    near(bert_tf.from_pretrained(folder)(inputs), inner @ tensors["classifier.out_proj.weight"].T
         + tensors["classifier.out_proj.bias"])
    check_written(hf_safetensors.read(folder), tensors, tmp_path / "again")


@pytest.mark.parametrize(("change", "message"), [
    ({"rotary_value": True}, "rotary_value=True; expected False"),
    ({"is_decoder": True}, "is_decoder=True; expected False"),
    ({"embedding_size": 8}, r"word_embeddings.weight expected \(30, 8\), found \(30, 12\)"),
    ({"architectures": ["RoFormerForCausalLM"]}, "expected one of RoFormerForMaskedLM")])
def test_other_roformers_are_refused(change, message, tmp_path):
    config, tensors = roformer("ForMaskedLM", of_masked_lm(WIDTH), **change)
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(write_folder(tmp_path / "model", config, tensors))


def rembert(checkpoint, path, **keys):
    """Write the folder of a BERT with narrower embeddings, a RemBERT's, and return its path."""
    path.mkdir()
    hf_safetensors.write_model(checkpoint, str(path))
    config = json.loads((path / "config.json").read_text())
    assert config["model_type"] == "rembert" and not config["tie_word_embeddings"]
    (path / "config.json").write_text(json.dumps(config | keys))
    return str(path)


@pytest.mark.parametrize("task", [ENCODER, *LABELS, {"task": "span"}])
def test_rembert_has_narrower_embeddings(task, tmp_path):
    checkpoint = bert(task, embedding_size=WIDTH)
    check_same(hf_safetensors.read(rembert(checkpoint, tmp_path / "rembert")), checkpoint)
    tensors = load_file(tmp_path / "rembert/model.safetensors")
    prefix = "" if task == ENCODER else "rembert."
    kernel = tensors[f"{prefix}encoder.embedding_hidden_mapping_in.weight"]
    assert (kernel == checkpoint.tensors["bert/embeddings_project/kernel"].T).all()
    assert all(name.startswith((prefix, "classifier.", "qa_outputs.")) for name in tensors)


def test_the_encoder_of_a_rembert_with_a_masked_lm_head(tmp_path):
    """Whose table is its own, and wider."""
    checkpoint = bert(ENCODER, embedding_size=WIDTH)
    folder = rembert(checkpoint, tmp_path / "rembert", architectures=["RemBertForMaskedLM"])
    path = tmp_path / "rembert/model.safetensors"
    head = drawn("", {"cls.predictions.decoder.weight": (30, 40),
                      "cls.predictions.dense.weight": (40, HIDDEN)}, "", {}, 0, {})
    save_file({f"rembert.{name}": array for name, array in load_file(path).items()} | head, path)
    found = hf_safetensors.read(folder)
    check_same(found, checkpoint)
    assert {*found.dropped} == head.keys()


def test_other_remberts_are_refused(tmp_path):
    folder = rembert(bert(ENCODER, embedding_size=WIDTH), tmp_path / "rembert",
                     input_embedding_size=HIDDEN)
    with pytest.raises(UsageError, match="input_embedding_size=16; expected another than hidden_s"):
        hf_safetensors.read(folder)
    with pytest.raises(UsageError, match="no class for {'task': 'pretraining'"):
        hf_safetensors.write(bert(MASKED_LM, embedding_size=WIDTH), str(tmp_path / "none"))


@pytest.mark.parametrize(("kind", "head"), [
    ("megatron-bert", {}), ("xlm-roberta-xl", {}), ("megatron-bert", TWO)])
def test_encoders_and_labels_come_back(kind, head, tmp_path):
    end = "ForTokenClassification" if head else "Model"
    config, tensors = pre_norm(kind, end, head=bool(head))
    tensors = {name: array for name, array in tensors.items()
               if not name.startswith("cls.")} | drawn("", head, "", {}, 0, {})
    check_written(hf_safetensors.read(write_folder(tmp_path / "model", config, tensors)), tensors,
                  tmp_path / "again")
    written = json.loads((tmp_path / "again/config.json").read_text())
    assert written["architectures"] == config["architectures"]


def test_what_their_files_leave_out():
    """As their configuration classes have it."""
    def read(kind):
        values = hf_bert.filled({"model_type": kind}, "config.json")
        return hf_config.read_config(values, "config.json", False, False)

    for values in ({"model_type": "roformer"}, {"model_type": "rembert"}):  # of their own, too
        assert hf_config.read_config(values, "config.json", False, False) == read(
            values["model_type"])
    large, huge, base = map(read, ("megatron-bert", "xlm-roberta-xl", "data2vec-text"))
    assert (large.vocab_size, large.hidden_size, large.num_hidden_layers) == (29056, 1024, 24)
    assert (huge.intermediate_size, huge.layer_norm_eps, huge.padding_id) == (10240, 1e-5, 1)
    assert (base.vocab_size, base.layer_norm_eps, base.type_vocab_size) == (30522, 1e-12, 2)


def test_a_pre_norm_bert_of_ours_is_written_as_megatrons(tmp_path):
    checkpoint = bert(MASKED_LM, norm_position="pre", embedding_norm=False)
    hf_safetensors.write(checkpoint, str(tmp_path / "out"))
    assert "bert.encoder.ln.weight" in load_file(tmp_path / "out/model.safetensors")
    check_same(hf_safetensors.read(str(tmp_path / "out")), checkpoint)
    with pytest.raises(UsageError, match="norm_position='pre' cannot be written to the config"):
        hf_safetensors.write(bert(MASKED_LM, norm_position="pre"), str(tmp_path / "none"))


@pytest.mark.parametrize("kind", PRE_NORM)
@pytest.mark.parametrize(("change", "message"), [
    ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'; expect"),
    ({"is_decoder": True}, "is_decoder=True; expected False"),
    ({"add_cross_attention": True}, "add_cross_attention=True; expected False"),
    ({"architectures": ["BertForMaskedLM"]}, "expected one of ")])
def test_what_is_refused(kind, change, message, tmp_path):
    config, tensors = pre_norm(kind, "ForMaskedLM")
    with pytest.raises(UsageError, match=message):
        hf_safetensors.read(write_folder(tmp_path / "model", config | change, tensors))
