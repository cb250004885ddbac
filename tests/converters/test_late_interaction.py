"""Folders with a vector for each token, of sentence-transformers, PyLate and Stanford, give these,
go back, and say what they cannot."""

import json
import shutil
import string

import numpy as np
import pytest
import tensorflow as tf
from hub_models import expected_of
from safetensors.numpy import load_file, save_file

from bert_tf import cli, convert
from bert_tf.converters import ours, sentence_transformers
from bert_tf.converters.formats import read_model
from bert_tf.embedder import Embedder, TokenEmbedder, retriever_of
from bert_tf.errors import UsageError
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.pretrained import from_pretrained

IDENTITY = "torch.nn.modules.linear.Identity"
TYPES = ["sentence_transformers.base.modules.transformer.Transformer",
         "sentence_transformers.base.modules.dense.Dense",
         "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
         "sentence_transformers.base.modules.normalize.Normalize"]
PYLATE = ["sentence_transformers.models.Transformer", "pylate.models.Dense.Dense"]
FIXED = {"strategy": "fixed", "attend": False, "token": None, "length": 12}
KERNEL = np.random.default_rng(1).normal(size=(5, 36)).astype("float32")


@pytest.fixture
def folder(shared, tmp_path):
    """`folder(name, types, about, options, dense, mask)` is an encoder with modules after it."""
    def make(name="bert_st_mean", types=TYPES, about=None, options=None, dense=None, mask=None):
        target = tmp_path / "theirs"
        shutil.copytree(shared / "reference" / "hub" / name, target)
        target.chmod(0o755)
        places = [f"{number}_{kind.rpartition('.')[2]}" for number, kind in enumerate(types)]
        for place in places[1:]:
            (target / place).mkdir()
        save_file({"linear.weight": KERNEL}, target / "1_Dense" / "model.safetensors")
        written = {
            "modules.json": [{"idx": number, "name": str(number), "path": place if number else "",
                              "type": kind} for number, (place, kind) in enumerate(
                                  zip(places, types, strict=True))],
            "sentence_bert_config.json": options or {},
            "config_sentence_transformers.json": {"model_type": "MultiVectorEncoder",
                                                  "prompts": {"query": "q: ", "document": ""},
                                                  "similarity_fn_name": None, **(about or {})},
            "1_Dense/config.json": {"in_features": 36, "out_features": 5, "bias": False,
                                    "activation_function": IDENTITY, **(dense or {})}}
        if len(types) == 4:
            written["2_MultiVectorMask/config.json"] = {"skiplist_words": [",", "."],
                                                        "skiplist_tasks": ["document"],
                                                        "keep_only_token_ids": None, **(mask or {})}
        for file, values in written.items():
            (target / file).unlink(missing_ok=True)
            (target / file).write_text(json.dumps(values))
        return target
    return make


def vectors_by_formula(source):
    """Of ids, those of all real tokens."""
    inputs, expected = expected_of(source, "single")
    vectors = expected["last_hidden_state"] @ KERNEL.T
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return inputs, vectors * inputs["input_mask"][..., np.newaxis]


@pytest.mark.parametrize("name", [
    "bert_st_mean", pytest.param("modernbert_st", marks=pytest.mark.long),
    pytest.param("xlm_roberta_st", marks=pytest.mark.long)])
def test_vectors_there_and_back(folder, name, tmp_path):
    attends = name == "modernbert_st"
    source = folder(name, options={"max_seq_length": 40, "document_length": 24,
                                   "query_expansion": {**FIXED, "attend": attends}})
    checkpoint = sentence_transformers.read(str(source))
    assert not checkpoint.notes and retriever_of(str(source)) is TokenEmbedder
    assert checkpoint.task == {
        "task": "multi_vector_embedder", "dim": 5, "query_length": 12, "expansion": 12,
        "attends_expansion": attends, "skiplist": [",", "."], "prompts": {"query": "q: "},
        "reading": {"seq_length": 24, "long": "head", "stride": 12, "pair": False}}
    ours.write(checkpoint, str(tmp_path / "ours"))
    model = from_pretrained(str(tmp_path / "ours"), dtype="float32")
    assert isinstance(model, MultiVectorEmbedder)
    inputs, expected = vectors_by_formula(source)
    np.testing.assert_allclose(model(inputs), expected, atol=2e-5)
    sentence_transformers.write(checkpoint, str(tmp_path / "back"))
    for file in ("model.safetensors", "1_Dense/model.safetensors"):
        theirs, back = (load_file(path / file) for path in (source, tmp_path / "back"))
        for tensor, array in back.items():
            np.testing.assert_array_equal(theirs[tensor], array, tensor)
    again = sentence_transformers.read(str(tmp_path / "back"))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)
    with pytest.raises(UsageError, match="gives a vector for each token; expected a model that"):
        Embedder(str(source))


@pytest.mark.parametrize(("options", "found"), [
    ({}, (48, 0, False, 48)), ({"query_length": 10}, (10, 0, False, 48)),
    ({"query_expansion": {"strategy": "min", "length": 8, "attend": True}, "query_length": 20},
     (20, 8, True, 48)),
    ({"query_expansion": {"strategy": "min", "length": 8}}, (48, 8, False, 48)),
    ({"query_expansion": FIXED, "document_length": 99}, (12, 12, False, 64))])
def test_lengths_of_queries_and_passages(folder, options, found):
    source = folder(options={"max_seq_length": 48, **options})
    task = sentence_transformers.read(str(source)).task
    assert (task["query_length"], task["expansion"], task["attends_expansion"],
            task["reading"]["seq_length"]) == found


@pytest.mark.parametrize(("about", "found"), [
    ({"query_prefix": "##e ", "document_prefix": "##d ", "query_length": 20, "document_length": 30,
      "attend_to_expansion_tokens": True, "skiplist_words": ["!"]},
     (20, 20, True, ["!"], 30, {"query": "##e q: ", "document": "##d "})),
    ({"query_length": 16, "do_query_expansion": False, "prompts": {}},
     (16, 0, False, list(string.punctuation), 64, {})),
    ({"query_prefix": "q: "}, (32, 32, False, list(string.punctuation), 64, {"query": "q: "}))])
def test_a_folder_of_pylate(folder, about, found, tmp_path):
    source = folder(types=PYLATE, about={"model_type": "ColBERT", **about})
    assert retriever_of(str(source)) is TokenEmbedder
    checkpoint = read_model(str(source))
    task = checkpoint.task
    assert (task["query_length"], task["expansion"], task["attends_expansion"], task["skiplist"],
            task["reading"]["seq_length"], task.get("prompts", {})) == found
    sentence_transformers.write(checkpoint, str(tmp_path / "back"))
    assert read_model(str(tmp_path / "back")).task == task
    stated = json.loads((tmp_path / "back" / "config_sentence_transformers.json").read_text())
    marked = {name for name in ("query_prefix", "document_prefix") if name in stated}
    assert marked == ({"query_prefix", "document_prefix"} if "document_prefix" in about else set())


def test_a_folder_of_stanford(folder, tmp_path):
    source = folder()
    tensors = load_file(source / "model.safetensors")
    source.joinpath("model.safetensors").unlink()
    save_file({**{f"bert.{name}": array for name, array in tensors.items()},
               "linear.weight": KERNEL}, source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    for name, values in (("config.json", {**config, "architectures": ["HF_ColBERT"]}),
                         ("artifact.metadata", {"query_token_id": "##e", "doc_token_id": "##d",
                                                "query_maxlen": 12, "doc_maxlen": 30})):
        (source / name).unlink(missing_ok=True)
        (source / name).write_text(json.dumps(values))
    (source / "modules.json").unlink()
    assert retriever_of(str(source)) is TokenEmbedder
    checkpoint = read_model(str(source))
    assert not checkpoint.dropped and checkpoint.task == {
        "task": "multi_vector_embedder", "dim": 5, "query_length": 12, "expansion": 12,
        "attends_expansion": False, "skiplist": list(string.punctuation),
        "prompts": {"query": "##e ", "document": "##d "},
        "reading": {"seq_length": 30, "long": "head", "stride": 15, "pair": False}}
    ours.write(checkpoint, str(tmp_path / "ours"))
    model = from_pretrained(str(tmp_path / "ours"), dtype="float32")
    inputs, expected = vectors_by_formula(source)
    np.testing.assert_allclose(model(inputs), expected, atol=2e-5)
    vocabulary = model.preprocessor.tokenizer.vocabulary
    assert model.read({"query": tf.constant(["a"])})["input_word_ids"][0, 1] == vocabulary.id("##e")


@pytest.mark.parametrize(("wrong", "message"), [
    ({"dense": {"bias": True}}, "bias=True; expected false"),
    ({"dense": {"activation_function": "torch.nn.modules.activation.Tanh"}}, "Tanh"),
    ({"dense": {"activation_function": None}}, "activation_function=None"),
    ({"dense": {"activation_function": "custom_act.Identity"}}, "custom_act.Identity"),
    ({"dense": {"use_residual": True}}, "use_residual=True"),
    ({"dense": {"out_features": 7}}, r"linear.weight expected \(7, 36\), found \(5, 36\)"),
    ({"mask": {"skiplist_tasks": ["query", "document"]}}, "skiplist_tasks=.* expected .\"document"),
    ({"mask": {"keep_only_token_ids": [3]}}, r"keep_only_token_ids=\[3\]; expected null"),
    ({"mask": {"skiplist_words": ",."}}, "skiplist_words=',.'; expected a list of words"),
    ({"options": {"query_expansion": {**FIXED, "token": "[PAD]"}}}, "token=.*; expected .*MASK"),
    ({"options": {"query_expansion": {**FIXED, "length": 65}}}, "query_length=65; expected 3 to"),
    ({"options": {"query_expansion": {**FIXED, "strategy": "all"}}}, "strategy fixed or min"),
    ({"options": {"document_length": 2}}, "document_length=2; expected an integer from 3 on"),
    ({"name": "modernbert_st", "options": {"query_expansion": FIXED}}, "none within 4"),
    ({"about": {"query_prefix": 3}}, "config_sentence_transformers.json: query_prefix=3; expected"),
    ({"types": PYLATE, "about": {"skiplist_words": 3}}, "_transformers.json: skiplist_words=3"),
    ({"types": [*TYPES[:2], TYPES[3]]}, "the modules Transformer, Dense, Normalize"),
])
def test_what_is_not_computed_is_refused(folder, wrong, message):
    made = folder(**wrong)
    with pytest.raises(UsageError, match=message):
        sentence_transformers.read(str(made))


def test_so_is_a_projection_whose_activation_is_not_said(folder):
    made = folder()
    (made / "1_Dense" / "config.json").write_text(json.dumps({"out_features": 5}))
    with pytest.raises(UsageError, match="config.json: activation_function=None; expected \"to"):
        sentence_transformers.read(str(made))


def test_so_is_what_theirs_would_compute_otherwise(folder, tmp_path):
    checkpoint = sentence_transformers.read(str(folder("modernbert_st")))
    checkpoint.task["expansion"] = checkpoint.task["query_length"]
    with pytest.raises(UsageError, match="of which the last may see none within 4; expected at m"):
        sentence_transformers.write(checkpoint, str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()


def test_the_command_names_what_reads_the_folder(folder, tmp_path, capsys):
    for source, target in ((("sentence_transformers", folder()), ("bert_tf", tmp_path / "ours")),
                           (("bert_tf", tmp_path / "ours"),
                            ("sentence_transformers", tmp_path / "back"))):
        assert cli.run(convert.main, ["--from", *map(str, source), "--to", *map(str, target)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"next: sentence_transformers.MultiVectorEncoder({str(tmp_path / 'back')!r})")
