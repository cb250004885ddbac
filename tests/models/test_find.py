"""What is at a path."""

import shutil

import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.models.find import OURS, deciding_files, find_model, model_digest, model_files
from bert_tf.storage import variables


def _fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


@pytest.mark.parametrize(("names", "kind", "inner"), [
    (["model_config.json", "task.json", "model.index"], "bert_tf", ""),
    (["run.json", "model_config.json", "model/model_config.json"], "bert_tf", "model"),
    (["saved_model.pb", "variables/variables.index", "assets.extra/model_config.json"],
     "saved_model", "assets.extra"),
    (["config.json", "model.safetensors"], "hf", ""),
    (["discriminator/config.json", "generator/config.json"], "hf", ""),
])
def test_files_tell_what_a_folder_is(names, kind, inner, tmp_path):
    _fill(tmp_path, *names)
    found = find_model(str(tmp_path))
    assert (found.kind, found.folder) == (kind, str(tmp_path / inner) if inner else str(tmp_path))
    assert found.run == (str(tmp_path) if inner == "model" else None)


def test_the_files_of_two_halves_are_those_of_a_model(tmp_path):
    names = ["discriminator/config.json", "generator/config.json", "vocab.txt"]
    _fill(tmp_path, *names)
    assert sorted(model_files(str(tmp_path))) == sorted(str(tmp_path / name) for name in names)


def test_the_files_of_a_checkpoint_are_those_that_describe_it_too(tmp_path):
    mine = ["bert_config.json", "m-10.data-00000-of-00001", "m-10.index", "tokenizer_config.json",
            "vocab.txt"]
    _fill(tmp_path, *mine, "m-1.index", "checkpoint", "notes.md")
    assert model_files(str(tmp_path / "m-10")) == [str(tmp_path / name) for name in mine]


def test_a_checkpoint_is_known_by_its_variables(tmp_path):
    prefix = str(tmp_path / "bert_model.ckpt")
    variables.write_variables(prefix, {"bert/pooler/dense/bias": [1.0]})
    assert find_model(prefix).kind == find_model(str(tmp_path)).kind == "google"
    (tmp_path / "config.json").write_text('{"registered_name": "keras_hub>BertBackbone"}')
    assert find_model(str(tmp_path)).kind == "google"
    for path in tmp_path.glob("bert_model*"):
        path.unlink()
    assert find_model(str(tmp_path)).kind == "keras_hub"


@pytest.mark.parametrize(("names", "kind"), [
    (["config.json", "pytorch_model.bin"], "hf"),
    (["config.json", "model.safetensors.index.json"], "hf"),
    (["modules.json", "config.json"], "sentence_transformers"),
])
def test_a_checkpoint_beside_another_format_and_an_index_of_another_program(tmp_path, names, kind):
    (tmp_path / "passages.index").write_bytes(b"IxFI")  # of FAISS
    _fill(tmp_path, *names)
    assert find_model(str(tmp_path)).kind == kind
    prefix = str(tmp_path / "bert_model.ckpt")
    variables.write_variables(prefix, {"bert/pooler/dense/bias": [1.0]})
    assert find_model(str(tmp_path)).kind == kind
    assert find_model(prefix).kind == "google"
    assert variables.find_checkpoint(str(tmp_path)) == prefix


@pytest.mark.parametrize(("names", "message"), [
    ([], "holds no model; expected a model folder"),
    (["vocab.txt"], "holds no model"),
    (["task.json", "model.index"], "holds no model"),
    (["saved_model.pb"], "is a version of a SavedModel .*; expected a model folder"),
    (["config.json"], "is a folder of Hugging Face transformers; expected a model folder"),
])
def test_another_kind_is_named(names, message, tmp_path):
    _fill(tmp_path, *names)
    with pytest.raises(UsageError, match=message):
        find_model(str(tmp_path), OURS)


def test_what_is_near_a_path_without_a_model_is_told(tmp_path):
    _fill(tmp_path, "multi/9/saved_model.pb", "multi/10/saved_model.pb", "multi/11/notes.txt")
    with pytest.raises(UsageError, match="nowhere does not exist; expected a model folder"):
        find_model(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="holds no model but versions; .*; try .*/multi/10$"):
        find_model(str(tmp_path / "multi"))
    with pytest.raises(UsageError, match="holds no model; expected a model folder[^;]*$"):
        find_model(str(tmp_path / "multi"), OURS)


def test_a_keras_file_is_read_by_another_function():
    """Nor is it taken for a repository of the Hub."""
    for path in ("best.keras", "no_folder/best.keras"):
        with pytest.raises(UsageError, match=f"^{path} holds no model; .* try bert_tf.load_model"):
            find_model(path)


def test_a_damaged_file_is_no_other_kind(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BertTfError, match="config.json"):
        find_model(str(tmp_path))


@pytest.mark.parametrize(("beside", "there", "lacks", "missing"), [
    ("bert_config.json", "m.ckpt.index", "data", "m.ckpt.data-00000-of-00001"),
    ("bert_config.json", "m.ckpt.data-00000-of-00001", "index", "m.ckpt.index"),
    ("vocab.txt", "model.safetensors", "config.json", "config.json")])
def test_a_checkpoint_of_which_half_did_not_arrive(beside, there, lacks, missing, tmp_path):
    _fill(tmp_path, beside, there)
    with pytest.raises(BertTfError, match=f"holds {there} without its {lacks}; "
                                          f"expected {missing} beside it"):
        find_model(str(tmp_path))


def test_a_run_that_has_no_model_yet(tmp_path):
    _fill(tmp_path, "run.json", "model_config.json")
    with pytest.raises(UsageError, match="is a run that has no model yet; try the command that"):
        find_model(str(tmp_path))


def test_every_module_of_sentence_transformers_counts(shared, tmp_path):
    source = next(path.parent for path in sorted((shared / "reference" / "hub").glob(
        "*/modules.json")))
    copy = tmp_path / "copy"
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    assert model_digest(str(copy)) == model_digest(str(source))
    copy.chmod(0o755)
    config = next(copy.glob("1_*/config.json"))
    config.parent.chmod(0o755)
    config.write_text(config.read_text() + " ")
    assert model_digest(str(copy)) != model_digest(str(source))


def test_a_checkpoint_in_a_folder_with_brackets(shared, tmp_path):
    folder = tmp_path / "bert[1]"
    shutil.copytree(shared / "reference" / "google_bert", folder, copy_function=shutil.copyfile)
    found = deciding_files(str(next(folder.glob("*.index")).with_suffix("")))
    assert {*found} == {str(path) for name in ("*.ckpt*", "bert_config.json", "vocab.txt")
                        for path in folder.glob(name)}
