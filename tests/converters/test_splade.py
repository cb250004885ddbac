"""Folders of sentence-transformers' SparseEncoder give its weights, go back, and say what they
cannot."""

import json
import shutil

import numpy as np
import pytest
from hub_models import expected_of
from safetensors.numpy import load_file, save_file

from bert_tf import cli, convert
from bert_tf.converters import ours, sentence_transformers
from bert_tf.embedder import TermWeigher, retriever_of
from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.find import find_model
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.pretrained import from_pretrained

PACKAGE = "sentence_transformers.sparse_encoder.models"
WEIGHTS = np.random.default_rng(3).random(800, np.float32)  # of modernbert_mlm's tokens
OPTIONS = {"max_seq_length": 24, "do_lower_case": False}


@pytest.fixture
def folder(shared, tmp_path):
    """`folder(name, pooling, kind, options)` is a masked LM of a family with a SpladePooling."""
    def make(name="distilbert_mlm", pooling=None, kind="MLMTransformer", options=OPTIONS):
        target = tmp_path / "theirs"
        shutil.copytree(shared / "reference" / "hub" / name, target)
        target.chmod(0o755)
        (target / "1_SpladePooling").mkdir()
        for file, values in {
                "modules.json": [{"idx": 0, "name": "0", "path": "", "type": f"{PACKAGE}.{kind}"},
                                 {"idx": 1, "name": "1", "path": "1_SpladePooling",
                                  "type": f"{PACKAGE}.SpladePooling"}],
                "sentence_bert_config.json": options,
                "config_sentence_transformers.json": {
                    "model_type": "SparseEncoder", "similarity_fn_name": "dot",
                    "prompts": {"query": "find: ", "document": ""}},
                "1_SpladePooling/config.json": pooling or {}}.items():
            (target / file).unlink(missing_ok=True)
            (target / file).write_text(json.dumps(values))
        return target
    return make


@pytest.mark.parametrize(("name", "pooling", "act"), [
    ("distilbert_mlm", "max", "relu"), ("modernbert_mlm", "sum", "log1p_relu"),
    pytest.param("xlm_roberta_mlm", "sum", "relu", marks=pytest.mark.long),
    pytest.param("camembert_mlm", "max", "log1p_relu", marks=pytest.mark.long)])
def test_weights_there_and_back(folder, name, pooling, act, tmp_path):
    source = folder(name, {"pooling_strategy": pooling, "activation_function": act,
                           "embedding_dimension": None})
    assert find_model(str(source)).kind == "sentence_transformers"
    checkpoint = sentence_transformers.read(str(source))
    assert not checkpoint.notes
    ours.write(checkpoint, str(tmp_path / "ours"))
    model = from_pretrained(str(tmp_path / "ours"), dtype="float32")
    assert isinstance(model, SparseEmbedder) and model.preprocessor.seq_length == 24
    assert model.prompts == {"query": "find: ", "document": ""}
    inputs, expected = expected_of(source, "single")
    weights = np.log1p(np.maximum(expected["logits"], 0)) * inputs["input_mask"][..., np.newaxis]
    weights = np.log1p(weights) if act == "log1p_relu" else weights
    np.testing.assert_allclose(model(inputs), getattr(weights, pooling)(1), rtol=1e-5, atol=2e-5)
    sentence_transformers.write(checkpoint, str(tmp_path / "back"))
    theirs, back = (load_file(path / "model.safetensors") for path in (source, tmp_path / "back"))
    for tensor, array in back.items():
        np.testing.assert_array_equal(theirs[tensor], array, tensor)
    again = sentence_transformers.read(str(tmp_path / "back"))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)


@pytest.fixture
def routed(folder):
    """`routed(**routes)` is `folder()` behind a Router, whose queries are weighed by a table."""
    def make(table=None, **routes):
        target = folder("modernbert_mlm")
        for name in ("document_0_MLMTransformer", "query_0_SparseStaticEmbedding"):
            (target / name).mkdir()
        (target / "1_SpladePooling").rename(target / "document_1_SpladePooling")
        for path in list(target.glob("*.*")):
            if path.is_file() and path.name not in ("config_sentence_transformers.json",
                                                    "expected.npz"):
                if path.name.startswith("tokenizer"):
                    shutil.copy(path, target / "query_0_SparseStaticEmbedding")
                path.rename(target / "document_0_MLMTransformer" / path.name)
        save_file({"weight": WEIGHTS if table is None else table},
                  target / "query_0_SparseStaticEmbedding" / "model.safetensors")
        kinds = {"query_0_SparseStaticEmbedding": f"{PACKAGE}.SparseStaticEmbedding",
                 "document_0_MLMTransformer": f"{PACKAGE}.MLMTransformer",
                 "document_1_SpladePooling": f"{PACKAGE}.SpladePooling"}
        structure = {"query": list(kinds)[:1], "document": list(kinds)[1:]}
        (target / "router_config.json").write_text(json.dumps({
            "types": kinds, "structure": {**structure, **routes},
            "parameters": {"default_route": "document", "allow_empty_key": True}}))
        (target / "modules.json").write_text(json.dumps([
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}]))
        return target
    return make


def test_queries_of_a_table_there_and_back(routed, tmp_path):
    source = routed()
    assert retriever_of(str(source)) is TermWeigher
    checkpoint = sentence_transformers.read(str(source))
    ours.write(checkpoint, str(tmp_path / "ours"))
    model = from_pretrained(str(tmp_path / "ours"), dtype="float32")
    vocabulary = model.preprocessor.tokenizer.vocabulary
    found = model.sparse("the fox and the dog", queries=True)
    assert found == {token: WEIGHTS[vocabulary.id(token)] for token in found}
    assert {"the", "Ġand"} <= set(found)
    inputs, expected = expected_of(source, "single")
    weights = np.log1p(np.maximum(expected["logits"], 0)) * inputs["input_mask"][..., np.newaxis]
    np.testing.assert_allclose(model(inputs), weights.max(1), rtol=1e-5, atol=2e-5)
    sentence_transformers.write(checkpoint, str(tmp_path / "back"))
    for name in ("query_0_SparseStaticEmbedding", "document_0_MLMTransformer"):
        theirs, back = (load_file(folder / name / "model.safetensors")
                        for folder in (source, tmp_path / "back"))
        for tensor, array in back.items():
            np.testing.assert_array_equal(theirs[tensor], array, tensor)
    again = sentence_transformers.read(str(tmp_path / "back"))
    assert (again.config, again.task) == (checkpoint.config, checkpoint.task)


@pytest.mark.parametrize(("wrong", "message"), [
    ({"table": np.ones(7, np.float32)}, "weight"),
    ({"query": ["document_0_MLMTransformer"]}, "the routes .* expected query to SparseStatic"),
    ({"image": ["document_0_MLMTransformer"]}, "the routes"), ({"query": None}, "the routes")])
def test_other_routes_are_refused(routed, wrong, message):
    with pytest.raises(UsageError, match=message):
        sentence_transformers.read(str(routed(**wrong)))


@pytest.mark.parametrize("parameters", [["document"], {"route_mappings": {"query": "document"}}])
def test_other_parameters_of_a_router_are_refused(routed, parameters):
    path = routed() / "router_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "parameters": parameters}))
    with pytest.raises(UsageError, match="router_config.json: parameters=.*expected no route_map"):
        sentence_transformers.read(str(path.parent))


def test_a_route_out_of_the_folder_is_refused(routed):
    path = routed() / "router_config.json"
    path.write_text(path.read_text().replace('"query_0', '"../query_0'))
    with pytest.raises(BertTfError, match="'../query_0_.*' in .* points outside its folder"):
        sentence_transformers.read(str(path.parent))


def test_a_route_through_code_of_the_folder_is_refused(routed):
    path = routed() / "router_config.json"
    path.write_text(path.read_text().replace(f"{PACKAGE}.SpladePooling", "custom.SpladePooling"))
    with pytest.raises(UsageError, match="config.json: the module 'custom.SpladePooling'; expect"):
        sentence_transformers.read(str(path.parent))


def test_queries_must_be_tokenized_as_documents_are(routed):
    made = routed()
    path = made / "query_0_SparseStaticEmbedding" / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "normalizer": None}))
    with pytest.raises(UsageError, match="another tokenizer than that of documents"):
        sentence_transformers.read(str(made))


def test_a_transformer_must_be_said_to_fill_masks(folder):
    made = folder(kind="Transformer", options={**OPTIONS, "transformer_task": "fill-mask"})
    assert sentence_transformers.read(str(made)).task["task"] == "sparse_embedder"
    (made / "sentence_bert_config.json").write_text(json.dumps(OPTIONS))
    with pytest.raises(UsageError, match='transformer_task=\'feature-extraction\'; expected "fill'):
        sentence_transformers.read(str(made))


@pytest.mark.parametrize(("wrong", "message"), [
    ({"pooling": {"pooling_strategy": "mean"}}, "pooling_strategy='mean' is unknown"),
    ({"pooling": {"activation_function": "gelu"}}, "activation_function='gelu'"),
    ({"pooling": {"word_embedding_dimension": 7}}, "word_embedding_dimension=7; expected 6"),
    ({"kind": "SparseStaticEmbedding"}, "the modules SparseStaticEmbedding, SpladePooling"),
    ({"name": "distilbert_classification"}, "of the task 'classifier'; expected one with a masked"),
])
def test_what_is_not_computed_is_refused(folder, wrong, message):
    made = folder(**wrong)
    with pytest.raises(UsageError, match=message):
        sentence_transformers.read(str(made))


def test_a_limit_of_terms_that_is_not_heeded_is_told(folder):
    made = folder()
    about = made / "config_sentence_transformers.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "max_active_dims": 7}))
    [note] = sentence_transformers.read(str(made)).notes
    assert note.startswith(f"{about}: max_active_dims=7; ") and "top_k=7" in note


def test_windows_have_no_place_there(folder, tmp_path):
    checkpoint = sentence_transformers.read(str(folder()))
    checkpoint.task["reading"]["long"] = "windows"
    with pytest.raises(UsageError, match="long='windows' cannot be written"):
        sentence_transformers.write(checkpoint, str(tmp_path / "back"))


def test_the_command_names_what_reads_the_folder(folder, tmp_path, capsys):
    for source, target in ((("sentence_transformers", folder()), ("bert_tf", tmp_path / "ours")),
                           (("bert_tf", tmp_path / "ours"),
                            ("sentence_transformers", tmp_path / "back"))):
        assert cli.run(convert.main, ["--from", *map(str, source), "--to", *map(str, target)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"next: sentence_transformers.SparseEncoder({str(tmp_path / 'back')!r})")
