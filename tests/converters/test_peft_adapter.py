"""Adapters of PEFT, beside the same weights added in NumPy by the formulas of the papers."""

import json
import shutil

import numpy as np
import pytest
from hf_models import tensors
from safetensors.numpy import save_file
from test_stack import tiny

from bert_tf.converters import hf_safetensors, ours, sentence_transformers
from bert_tf.converters.formats import read_model
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.find import model_digest
from bert_tf.tasks.embedding.encoder import TextEncoder
from bert_tf.tasks.pretraining.masked_lm import Pretrainer
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

RANK, ALPHA = 2, 6
HIDDEN = tiny("bert").hidden_size
QUERY = "bert.encoder.layer.1.attention.self.query"


@pytest.fixture
def base(tmp_path):
    """`base(kind, family, …)`: the folder of a small model."""
    def write(kind, family, **options):
        kind(tiny(family), seed=1, **options).save_pretrained(str(tmp_path / "ours"))
        hf_safetensors.write(ours.read(str(tmp_path / "ours")), str(tmp_path / "base"))
        return tmp_path / "base"
    return write


def adapter(folder, base, arrays, **values):
    """Write an adapter's folder; None as a value takes a key away."""
    folder.mkdir()
    values = {"peft_type": "LORA", "base_model_name_or_path": str(base), "r": RANK,
              "lora_alpha": ALPHA, "task_type": "SEQ_CLS", "bias": "none"} | values
    (folder / "adapter_config.json").write_text(json.dumps(
        {key: value for key, value in values.items() if value is not None}))
    save_file({f"base_model.model.{name}": np.ascontiguousarray(array)
               for name, array in arrays.items()}, folder / "adapter_model.safetensors")
    return folder


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def pair(module, width, height, rank=RANK):
    """`lora_A` and `lora_B` of a module."""
    return {f"{module}.lora_A.weight": drawn(rank, width),
            f"{module}.lora_B.weight": drawn(height, rank)}


def product(arrays, module, scale):
    return scale * (arrays[f"{module}.lora_B.weight"].astype(np.float64)
                    @ arrays[f"{module}.lora_A.weight"])


def check(found, base, changed, architecture, tmp_path, **keys):
    """Compare what was read of an adapter with the folder of the merged model."""
    merged = tmp_path / "merged"
    shutil.copytree(base, merged)
    (merged / "checksums.json").unlink()
    values = json.loads((base / "config.json").read_text())
    (merged / "config.json").write_text(json.dumps(
        values | {"architectures": [architecture]} | keys))
    before = {name: array for name, array in tensors(base).items()
              if name.split(".")[0] not in ("cls", "lm_head")}
    save_file({name: np.ascontiguousarray(array, np.float32)
               for name, array in (before | changed).items()}, merged / "model.safetensors")
    right = hf_safetensors.read(str(merged))
    assert (found.config, found.task) == (right.config, right.task)
    assert found.tensors.shapes == right.tensors.shapes
    for name in right.tensors:
        np.testing.assert_allclose(found.tensors[name], right.tensors[name], rtol=1e-5, atol=1e-5,
                                   err_msg=name)


HEAD = {"classifier.weight": drawn(3, HIDDEN), "classifier.bias": drawn(3)}
THREE = {"id2label": None, "num_labels": 3}


def test_a_classifier_of_a_masked_lm(base, tmp_path):
    """Whose own head is left out; kernels of BERT lie as they lie, whatever is stated."""
    below = base(Pretrainer, "bert")
    arrays = pair(QUERY, HIDDEN, HIDDEN)
    folder = adapter(tmp_path / "adapter", below, arrays | HEAD, fan_in_fan_out=True,
                     use_dora=False, init_lora_weights=True, modules_to_save=["classifier"])
    kernel = f"{QUERY}.weight"
    check(read_model(str(folder)), below, HEAD | {kernel: tensors(below)[kernel] + product(
        arrays, QUERY, ALPHA / RANK)}, "BertForSequenceClassification", tmp_path, **THREE)


def test_a_score(base, tmp_path):
    below = base(Pretrainer, "bert")
    head = {name: array[:1] for name, array in HEAD.items()}
    folder = adapter(tmp_path / "adapter", below, pair(QUERY, HIDDEN, HIDDEN) | head)
    shutil.copy(below / "config.json", folder)  # as some folders have it, without weights
    found = read_model(str(folder))
    assert (found.task["problem"], found.task["labels"]) == ("regression", ["LABEL_0"])


def test_scales_wrapped_names_and_biases(base, tmp_path):
    below = base(Pretrainer, "roberta", sentence_task=None)
    first, second = (f"roberta.encoder.layer.{i}.attention.self.value" for i in range(2))
    arrays = pair(first, HIDDEN, HIDDEN, 4) | pair(second, HIDDEN, HIDDEN)
    head = {"classifier.weight": drawn(3, HIDDEN), "classifier.bias": drawn(3)}
    folder = adapter(tmp_path / "adapter", below, arrays | {
        f"{first}.base_layer.bias": drawn(HIDDEN),
        "classifier.modules_to_save.default.weight": head["classifier.weight"],
        "classifier.original_module.weight": drawn(2, HIDDEN),
        "classifier.bias": head["classifier.bias"]}, use_rslora=True, task_type=None,
        auto_mapping={"base_model_class": "RobertaForTokenClassification"},
        alpha_pattern={"layer.1.*.value": 3, "value": 5}, rank_pattern={"layer.0.*.value": 4})
    check(read_model(str(folder)), below, head | {
        f"{first}.bias": drawn(HIDDEN),
        f"{first}.weight": tensors(below)[f"{first}.weight"] + product(arrays, first, 5 / 2),
        f"{second}.weight": tensors(below)[f"{second}.weight"] + product(
            arrays, second, 3 / np.sqrt(2))}, "RobertaForTokenClassification", tmp_path, **THREE)


def test_embeddings_and_directions_of_an_encoder(base, tmp_path):
    """Names of an encoder have no prefix, and DoRA's rows have a length of their own."""
    below = base(TextEncoder, "bert")
    query, words = "encoder.layer.0.attention.self.query", "embeddings.word_embeddings"
    before, sizes = tensors(below), np.abs(drawn(HIDDEN))
    rows = len(before[f"{words}.weight"])
    inner = {f"{words}.lora_embedding_A": drawn(RANK, rows),
             f"{words}.lora_embedding_B": drawn(HIDDEN, RANK)}
    arrays = pair(query, HIDDEN, HIDDEN)
    folder = adapter(tmp_path / "adapter", below, arrays | inner | {
        f"{query}.lora_magnitude_vector": sizes}, use_dora=True, task_type="FEATURE_EXTRACTION")
    turned = before[f"{query}.weight"] + product(arrays, query, ALPHA / RANK)
    check(read_model(str(folder)), below, {
        f"{words}.weight": before[f"{words}.weight"] + ALPHA / RANK * (
            inner[f"{words}.lora_embedding_B"] @ inner[f"{words}.lora_embedding_A"]).T,
        f"{query}.weight": sizes[:, None] * turned / np.linalg.norm(turned, axis=1)[:, None],
    }, "BertModel", tmp_path)


def test_kernels_that_lie_the_other_way(base, tmp_path):
    """Those of GPT-2 are [in, out]."""
    below = base(TextEncoder, "gpt2")
    module = "transformer.h.0.attn.c_attn"
    arrays = pair(module, HIDDEN, 3 * HIDDEN) | {"score.weight": drawn(3, HIDDEN)}
    folder = adapter(tmp_path / "adapter", below, arrays)
    before = {f"transformer.{name}": array for name, array in tensors(below).items()}
    found = read_model(str(folder))
    kernels = np.split(before[f"{module}.weight"] + product(arrays, module, ALPHA / RANK).T, 3, 1)
    for name, kernel in zip(("query", "key", "value"), kernels, strict=True):
        (ours_name,) = [each for each in found.tensors if each.endswith(
            f"layer_0/attention/self/{name}/kernel")]
        np.testing.assert_allclose(found.tensors[ours_name], kernel, rtol=1e-5, atol=1e-5)
    assert found.task["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"]


def test_text_and_the_digest_are_those_of_both(base, tmp_path):
    """The adapted model's tokenizer reads the text, and a change of either changes vectors."""
    below = base(TextEncoder, "bert")
    size = tiny("bert").vocab_size
    Tokenizer(Vocabulary([*SPECIAL_TOKENS, *(f"w{i}" for i in range(size - 5))])).save(str(below))
    folder = adapter(tmp_path / "st", below, pair("encoder.layer.0.attention.self.query",
                                                  HIDDEN, HIDDEN), task_type="FEATURE_EXTRACTION")
    before = model_digest(str(folder))
    (folder / "modules.json").write_text(json.dumps(
        [{"path": "", "type": "sentence_transformers.models.Transformer"},
         {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True}))
    found = sentence_transformers.read(str(folder))
    assert (found.task["pooling"], found.tokenizer) == ("mean", str(below))
    digests = {before, model_digest(str(folder))}
    values = json.loads((below / "config.json").read_text())
    (below / "config.json").write_text(json.dumps(values | {"layer_norm_eps": 1e-5}))
    assert len(digests | {model_digest(str(folder))}) == 3


@pytest.mark.parametrize("arrays, values, message", [
    ({}, {"peft_type": "IA3"}, "peft_type='IA3'.*'LORA'.*merge_and_unload"),
    ({}, {"init_lora_weights": "pissa"}, "'pissa', which changes the adapted model too"),
    ({}, {"layer_replication": [[0, 1], [0, 1]]}, "layer_replication=.*do not know"),
    ({}, {"base_model_name_or_path": None}, "base_model_name_or_path=None.*a folder or|the folder"),
    ({}, {"base_model_name_or_path": "/no/model"}, "names the model '/no/model', which is neither"),
    ({}, {"task_type": "SEQ_2_SEQ_LM"}, "task_type='SEQ_2_SEQ_LM'.*SEQ_CLS, TOKEN_CLS, QUESTION"),
    ({"lora_B": None}, {}, f"of {QUERY} there is lora_A alone"),
    ({"lora_B": drawn(HIDDEN, 3)}, {}, "have the ranks 2 and 3"),
    ({"lora_B": drawn(HIDDEN + 1, 2)}, {}, rf"changes {QUERY}.weight, \[17, 16\].*\[16, 16\]"),
    ({"lora_magnitude_vector": drawn(7)}, {}, r"magnitude_vector of .*: 7 numbers.*\[16, 16\]"),
    ({"lora_A": None, "lora_B": None}, {}, "holds no tensors of an adapter"),
    ({"base_layer.lora_A": drawn(2, HIDDEN)}, {}, "has two lora_A"),
    ({"lora_A": drawn(HIDDEN)}, {}, "are no matrices"),
    ({}, {"auto_mapping": "BertModel"}, "auto_mapping='BertModel'.*an object"),
    ({}, {"lora_alpha": 10 ** 400}, "lora_alpha=1000.*a number"),
    ({}, {"lora_alpha": float("nan")}, "lora_alpha=nan.*a number"),
    ({}, {"base_model_name_or_path": "s3://bucket/model"}, "nor on the Hub; try writing into"),
    ({}, {"lora_alpha": "6"}, "lora_alpha='6'.*a number"),
    ({}, {"alpha_pattern": {"(q+)+$": 2}}, r"alpha_pattern '\(q\+\)\+\$': more than names"),
])
def test_what_is_no_adapter_of_ours_is_refused(base, tmp_path, arrays, values, message):
    below = base(Pretrainer, "bert")
    held = pair(QUERY, HIDDEN, HIDDEN) | {
        f"{QUERY}.{part}" + (".weight" if part != "lora_magnitude_vector" else ""): array
        for part, array in arrays.items()}
    folder = adapter(tmp_path / "adapter", below, HEAD | {
        name: array for name, array in held.items() if array is not None}, **values)
    with pytest.raises(BertTfError, match=message):
        read_model(str(folder))


def test_tied_embeddings_alone_are_refused(base, tmp_path):
    """PEFT's decoder keeps the table of before."""
    below = base(Pretrainer, "bert", sentence_task=None)
    words = "bert.embeddings.word_embeddings"
    size = tensors(below)[f"{words}.weight"].shape[0]
    folder = adapter(tmp_path / "adapter", below, {
        f"{words}.lora_embedding_A": drawn(RANK, size),
        f"{words}.lora_embedding_B": drawn(HIDDEN, RANK)}, task_type=None)
    with pytest.raises(UsageError, match="where tokens are read, and not where .*merge_and_unload"):
        read_model(str(folder))


def test_files_that_are_missing(base, tmp_path):
    below = base(Pretrainer, "bert")
    folder = adapter(tmp_path / "adapter", below, HEAD)
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(BertTfError, match="without its weights.*adapter_model.safetensors or"):
        read_model(str(folder))
    (below / "config.json").unlink()
    with pytest.raises(UsageError, match="a folder of transformers with config.json"):
        read_model(str(folder))
