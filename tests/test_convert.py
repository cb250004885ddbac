"""The command that converts: what it says, what it refuses, what it never deletes."""

import json
import pathlib
import re
import shutil

import hf_models
import pytest

from bert_tf import cli, convert
from bert_tf.config import ModelConfig
from bert_tf.converters import hf_safetensors, keras_hub, ours
from bert_tf.converters.formats import FORMATS
from bert_tf.converters.tokenizer_files import casing_notes, plain_bert_notes
from bert_tf.errors import BertTfError
from bert_tf.saved_model.served_model import load_served
from bert_tf.saved_model.signatures import signatures
from bert_tf.tasks.pretraining.replaced_tokens import ReplacedTokens


def _run(capsys, *arguments):
    code = cli.run(convert.main, [str(argument) for argument in arguments])
    return code, capsys.readouterr()


def test_from_hf_to_ours_and_back(shared, tmp_path, capsys):
    source = shared / "reference" / "hf_bert"
    code, printed = _run(capsys, "--from", "hf", source, "--to", "bert_tf", tmp_path / "ours")
    assert code == 0
    lines = printed.out.splitlines()
    assert lines[0] == (f"read hf {source}: bert, pretraining with next_sentence, 3 layers, "
                        "188,882 parameters in 62 tensors")
    assert f"wrote bert_tf {tmp_path / 'ours'}" in lines
    assert lines[-1] == f"next: python -m bert_tf.export --model {tmp_path / 'ours'}"

    code, printed = _run(capsys, "--from", "bert_tf", tmp_path / "ours", "--to", "hf",
                         tmp_path / "hf/")
    assert code == 0
    hf = str(tmp_path / "hf")
    assert printed.out.splitlines()[-1] == (
        f"next: transformers.BertForPreTraining.from_pretrained({hf!r})")
    assert (source / "model.safetensors").read_bytes() == (
        tmp_path / "hf" / "model.safetensors").read_bytes()


def test_what_to_do_with_a_discriminator_and_its_generator(tmp_path, capsys):
    config = ModelConfig.from_dict({
        "family": "electra", "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 12})
    ReplacedTokens(config, config, seed=1).save_pretrained(str(tmp_path / "pair"))
    code, printed = _run(capsys, "--from", "bert_tf", tmp_path / "pair", "--to", "hf",
                         tmp_path / "hf")
    folder = str(tmp_path / "hf" / "discriminator")
    assert (code, printed.out.splitlines()[-1]) == (
        0, f"next: transformers.ElectraForPreTraining.from_pretrained({folder!r})")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_tokenizer_of_rules_that_we_do_not_run_has_no_notes_of_casing(tmp_path, name):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    (tmp_path / name).write_text(json.dumps(
        {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}))
    assert plain_bert_notes(str(tmp_path)) == []
    assert casing_notes(str(tmp_path)) == ()


def test_the_list_names_every_format(capsys):
    code, printed = _run(capsys, "--list")
    assert code == 0
    assert all(name in printed.out for name in FORMATS)
    assert printed.out.count("keras_hub") == len(keras_hub.BACKBONES)
    assert re.search(r"^gte .*\n +hf +masked LM, encoder, classifier, tags$", printed.out,
                     re.MULTILINE)
    assert re.search(r"^big_bird +hf +in only, as a bert: next sentence, ", printed.out,
                     re.MULTILINE)
    assert re.search(r"^data2vec-text +hf +in only, as a roberta: masked LM, ", printed.out,
                     re.MULTILINE)
    assert re.search(r"^megatron-bert +hf +as a bert: next sentence, ", printed.out, re.MULTILINE)
    assert re.search(r"^gpt2 .*(\n .*)*\n +keras_hub +language model$", printed.out, re.MULTILINE)


def test_through_every_format_and_back(shared, tmp_path, capsys):
    """A BERT that all of them compute keeps every byte; `google` and `tf_models` say gelu_new."""
    source = ("hf", hf_models.changed(shared, "hf_bert", tmp_path / "in",
                                      {"hidden_act": "gelu_new"}))
    for name in ("google", "tf_models", "bert_tf", "hf"):
        target = name, tmp_path / name
        code, printed = _run(capsys, "--from", *source, "--to", *target)
        assert code == 0, printed.err
        assert "dropped" not in printed.out and "left behind" not in printed.out
        source = target
    assert (tmp_path / "in" / "model.safetensors").read_bytes() == (
        tmp_path / "hf" / "model.safetensors").read_bytes()


def test_what_is_left_behind_and_dropped_is_said(shared, tmp_path, capsys):
    folder = hf_models.changed(
        shared, "hf_bert_tasks/sequence_classification", tmp_path / "in",
        {"hidden_act": "gelu_new"}, lambda arrays: arrays | {
            "bert.embeddings.position_ids": arrays["bert.embeddings.LayerNorm.bias"]})
    code, printed = _run(capsys, "--from", "hf", folder, "--to", "google", tmp_path / "out")
    assert code == 0
    assert f"left behind in {folder}: bert.embeddings.position_ids\n" in printed.out
    assert ("dropped, google cannot hold: cls/classifier/output_weights, "
            "cls/classifier/output_bias\n") in printed.out


def test_an_existing_folder_is_replaced_only_where_that_is_said(shared, tmp_path, capsys):
    arguments = ["--from", "hf", shared / "reference" / "hf_gpt", "--to", "hf", tmp_path / "out"]
    ours.write(hf_models.read(shared, "hf_bert"), str(tmp_path / "out"))
    code, printed = _run(capsys, *arguments)
    assert code == 2
    assert printed.err == f"error: {tmp_path / 'out'} exists; try another place, or --overwrite\n"
    assert ours.read(str(tmp_path / "out")).config.family == "bert"
    assert _run(capsys, *arguments, "--overwrite")[0] == 0
    assert hf_safetensors.read(str(tmp_path / "out")).config.family == "gpt"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "model_config.json").exists()


def test_a_failed_overwrite_keeps_what_was_there(shared, tmp_path, capsys):
    hf_safetensors.write(hf_models.read(shared, "hf_gpt"), str(tmp_path / "out"))
    code, printed = _run(capsys, "--from", "hf", shared / "reference" / "hf_bert",
                         "--to", "google", tmp_path / "out", "--overwrite")
    assert code == 2 and "hidden_act='gelu' cannot be written" in printed.err
    assert hf_safetensors.read(str(tmp_path / "out")).config.family == "gpt"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_overwrite_deletes_only_models_and_never_the_source(shared, tmp_path, capsys):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_mother.txt").write_text("Dear mother")
    source = tmp_path / "letters" / "model"
    hf_safetensors.write(hf_models.read(shared, "hf_gpt"), str(source))
    for target, message in ((tmp_path / "letters", "would delete what --from reads"),
                            (source, "would delete what --from reads")):
        code, printed = _run(capsys, "--from", "hf", source, "--to", "bert_tf", target,
                             "--overwrite")
        assert code == 2 and message in printed.err
    code, printed = _run(capsys, "--from", "hf", shared / "reference" / "hf_gpt", "--to", "hf",
                         tmp_path / "letters", "--overwrite")
    assert code == 2 and "is no converted model" in printed.err
    assert (tmp_path / "letters" / "to_mother.txt").exists() and source.exists()


def test_overwrite_of_the_working_directory(shared, tmp_path, capsys, monkeypatch):
    ours.write(hf_models.read(shared, "hf_bert"), str(tmp_path / "out"))
    monkeypatch.chdir(tmp_path / "out")
    code, _ = _run(capsys, "--from", "hf", shared / "reference" / "hf_gpt", "--to", "bert_tf", ".",
                   "--overwrite")
    assert code == 0 and ours.read(str(tmp_path / "out")).config.family == "gpt"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_exchange_that_fails_is_undone(shared, tmp_path, capsys, monkeypatch):
    source, target = shared / "reference" / "hf_bert", tmp_path / "out"
    hf_safetensors.write(hf_models.read(shared, "hf_gpt"), str(target))
    rename, calls = convert.files.rename, []

    def second_fails(old, new):
        calls.append(new)
        if len(calls) == 2:
            raise BertTfError(f"cannot write {new}")
        rename(old, new)

    monkeypatch.setattr(convert.files, "rename", second_fails)
    code, printed = _run(capsys, "--from", "hf", source, "--to", "hf", target, "--overwrite")
    assert code == 1 and printed.err == f"error: cannot write {target}\n"
    assert hf_safetensors.read(str(target)).config.family == "gpt"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("vocab.txt", "".join(map("{}\n".format, range(400))), "vocab.txt has no [PAD]"),
    ("vocab.txt", SPECIAL + "a\na\n", "vocab.txt line 6: 'a' is there again in line 7"),
    ("vocab.txt", SPECIAL + "".join(map("{}\n".format, range(400))),
     "has 405 pieces; expected at most vocab_size=400"),
    ("spiece.model", "no model", "spiece.model is not a SentencePiece model"),
    ("tokenizer_config.json", "[]", "tokenizer_config.json: list; expected a JSON object"),
])
def test_a_vocabulary_that_the_model_cannot_use_is_refused(
        shared, tmp_path, capsys, name, text, expected):
    folder = tmp_path / "in"
    hf_models.changed(shared, "hf_bert", folder)
    if name.endswith(".json"):
        (folder / "vocab.txt").write_text(SPECIAL + "a\n")
    (folder / name).write_text(text)
    code, printed = _run(capsys, "--from", "hf", folder, "--to", "bert_tf", tmp_path / "out")
    assert code == (1 if name == "spiece.model" else 2)
    assert expected in printed.err and printed.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_shorter_than_the_table_is_said(shared, tmp_path, capsys):
    folder = tmp_path / "in\x1b"  # what is printed commands no terminal
    hf_models.changed(shared, "hf_bert", folder)
    (folder / "vocab.txt").write_text(SPECIAL + "a\n")
    code, printed = _run(capsys, "--from", "hf", folder, "--to", "bert_tf", tmp_path / "out\x1b")
    assert code == 0
    assert f"note: the vocabulary in {tmp_path}/in\\x1b has 6 pieces, vocab_size=400: " in (
        printed.out)
    assert f"read hf {tmp_path}/in\\x1b: bert, " in printed.out
    assert f"wrote bert_tf {tmp_path}/out\\x1b\n" in printed.out and "\x1b" not in printed.out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--from", "hff", "a", "--to", "hf", "b"], "FORMAT='hff' is unknown; expected one of bert_tf"),
    (["--from", "hf", "a"], "required: --to"),
    (["--from", "hf", "--to", "hf", "b"], "argument --from: expected 2 arguments"),
    (["--from", "hf", "a", "--to", "hf", "b"], "a holds no config.json"),
])
def test_wrong_usage_is_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed = _run(capsys, *arguments)
    assert code == (1 if "holds no config.json" in message else 2)
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert message in printed.err
    assert not list(tmp_path.iterdir())


def test_a_published_classifier_is_said_to_read_pairs(shared, tmp_path, capsys):
    hub = shared / "reference" / "hub"
    _run(capsys, "--from", "hf", hub / "bert_cross_encoder", "--to", "bert_tf", tmp_path / "plain")
    silent = pathlib.Path(shutil.copytree(tmp_path / "plain", tmp_path / "silent"))
    (silent / "checksums.json").unlink()
    task = json.loads((silent / "task.json").read_text())
    del task["reading"]  # as of a checkpoint of google-research/bert
    (silent / "task.json").write_text(json.dumps(task))
    for name, source in (("hf", hub / "bert_cross_encoder"), ("bert_tf", tmp_path / "plain"),
                         ("bert_tf", silent)):
        target = tmp_path / f"of_{pathlib.Path(source).name}"
        code, _ = _run(capsys, "--from", name, source, "--to", "bert_tf", target, "--pair")
        assert code == 0
        assert signatures(load_served(str(target)))["predict"].inputs.keys() == {"text_a", "text_b"}
    for source, target in (("bert_ner_cased", "bert_tf"), ("bert_cross_encoder", "hf")):
        code, printed = _run(capsys, "--from", "hf", hub / source, "--to", target, tmp_path / "no",
                             "--pair")
        assert code == 2 and "; expected a classifier of texts whose files do not" in printed.err
        assert not (tmp_path / "no").exists()


def test_the_example_of_the_help_runs(shared, tmp_path, capsys):
    example = next(line for line in convert.__doc__.splitlines() if "python -m" in line).split()
    example = example[example.index("--from"):]
    places = iter((shared / "reference" / "hf_roberta", tmp_path / "out"))
    code, _ = _run(capsys, *(next(places) if word == "PATH" else word for word in example))
    assert code == 0
    assert json.loads((tmp_path / "out" / "task.json").read_text())["task"] == "pretraining"
