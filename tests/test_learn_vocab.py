"""The command `python -m bert_tf.learn_vocab`."""

import json
import os
import re

import pytest

from bert_tf import cli, learn_vocab
from bert_tf.errors import BertTfError
from bert_tf.tokenization.load import load_tokenizer


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("the cat sat on the mat by the door\n" * 10)

    def run(*flags):
        code = cli.run(learn_vocab.main, ["--input", "*.txt", "--output", "out/vocab.txt", *flags])
        printed = capsys.readouterr()
        return code, printed.out, printed.err.strip().split("\n")[-1]
    return run


def test_learns_reuses_and_refuses(run, tmp_path):
    code, out, _ = run("--vocab_size", "40", "--lower_case")
    assert code == 0
    entries = (tmp_path / "out/vocab.txt").read_text().splitlines()
    assert f"{len(entries)} entries" in out
    assert "The text has no more pieces" in out
    assert {"the", "cat"} <= set(entries)
    assert json.loads((tmp_path / "out/tokenizer_config.json").read_text()) == {
        "lower_case": True, "strip_accents": False, "normalization": "nfc"}

    code, out, _ = run("--vocab_size", "40", "--lower_case")
    assert code == 0 and "there already" in out
    code, _, error = run("--vocab_size", "41", "--lower_case")
    assert code == 2 and "vocab_size was 40, now 41" in error and "--overwrite" in error
    assert run("--vocab_size", "30", "--overwrite")[0] == 0
    assert len((tmp_path / "out/vocab.txt").read_text().splitlines()) < len(entries)
    (tmp_path / "text.txt").write_text("another text\n" * 10)
    code, _, error = run("--vocab_size", "30")
    assert code == 2 and "the input files changed" in error


@pytest.mark.parametrize("pattern", ["*.txt", "*"])
def test_a_pattern_that_matches_the_vocabulary(run, pattern):
    flags = ("--vocab_size", "40", "--output", "vocab.txt", "--input", pattern)
    assert run(*flags)[0] == 0
    code, out, _ = run(*flags)
    assert code == 0 and "there already" in out


@pytest.mark.parametrize(("before", "now", "message"), [
    ([], ["--lower_case"], "lower_case=False, not True"),
    (["--lower_case", "--strip_accents"], [], "lower_case=True, not False; strip_accents=True, ")])
def test_a_folder_has_vocabularies_of_one_casing(run, before, now, message):
    assert run("--vocab_size", "40", *before)[0] == 0
    code, _, error = run("--vocab_size", "40", "--output", "out/other.txt", *now)
    assert code == 2 and f"another vocabulary in out has {message}" in error
    assert "try --output in another folder" in error
    assert run("--vocab_size", "40", "--output", "out/other.txt", *before)[0] == 0


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
def test_a_folder_has_tokenizers_of_one_kind(run, flags):
    assert run("--vocab_size", "300", "--type", "bpe", "--output", "out")[0] == 0
    code, _, error = run("--vocab_size", "40", *flags)
    assert code == 2 and error == ("error: out holds another tokenizer, vocab.json and merges.txt; "
                                   "try --output in another folder")
    assert len(load_tokenizer("out").encode("the cat")) > 2


def test_a_sentencepiece_model_of_any_name_stays_the_tokenizer_of_its_folder(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.model").write_bytes(b"")
    code, _, error = run("--vocab_size", "40")
    assert code == 2 and "out holds another tokenizer, mine.model" in error


def test_a_file_from_elsewhere_stays(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/vocab.txt").write_text("mine\n")
    code, _, error = run()
    assert code == 2 and "out/vocab.txt exists, from elsewhere" in error
    assert (tmp_path / "out/vocab.txt").read_text() == "mine\n"


def test_a_stopped_run_goes_on(run, tmp_path, monkeypatch):
    from bert_tf.storage import files

    names = ["tokenizer_config.json", "vocab.txt", "vocab.txt.manifest.json"]
    write = files.write_bytes

    def fail_at_each_once(path, data):
        # The vocabulary is renamed when its manifest is there.
        name = re.sub(r"\.tmp-(.*)-[0-9a-f]{12}", r"\1", os.path.basename(path))
        if names and name == names[0]:
            raise BertTfError(f"no room for {names.pop(0)}")
        write(path, data)

    monkeypatch.setattr(files, "write_bytes", fail_at_each_once)
    for name in list(names):
        code, _, error = run("--vocab_size", "40")
        assert code == 1 and error == f"error: no room for {name}"
    (tmp_path / "out/.tmp-vocab.txt-0123456789ab").touch()
    others = tmp_path / "out/.tmp-model-0123456789ab"  # which another command is writing, maybe
    others.mkdir()
    assert run("--vocab_size", "40")[0] == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        others.name, "tokenizer_config.json", "vocab.txt", "vocab.txt.manifest.json"]


@pytest.mark.parametrize(("data", "flags", "code", "message"), [
    (b"", [], 1, "text.txt holds no text"),
    (b"ok\n\xff", [], 1, "text.txt line 2"),
    (b"ok ok", ["--vocab_size", "5"], 2, "expected at least 16"),
    (b"ok ok", ["--output", "."], 2, "is a folder"),
    (b"ok ok", ["--input", "absent*"], 2, "no file matches absent*"),
])
def test_bad_input_is_one_line(run, tmp_path, data, flags, code, message):
    (tmp_path / "text.txt").write_bytes(data)
    returned, _, error = run(*flags)
    assert returned == code
    assert error.startswith("error: ") and message in error
    assert not (tmp_path / "out/vocab.txt").exists()
