"""A command that is refused before its work begins leaves no new file and no new folder."""

import pytest

from bert_tf import cli, convert, create_data, evaluate, export, finetune, learn_vocab, pretrain

PRETRAIN = [pretrain.main, "--input", "texts.txt", "--output_dir", "new/run", "--export_dir",
            "new/saved/run", "--train_steps", "1"]
CREATE = [create_data.main, "--input", "texts.txt", "--vocab", "vocab.txt", "--output_dir",
          "new/data"]
FINETUNE = [finetune.main, "--task", "classify", "--train", "table.tsv", "--dev", "0.5",
            "--output_dir", "new/run", "--export_dir", "new/saved/run"]
EVALUATE = [evaluate.main, "--model", "model", "--data", "table.tsv", "--output_dir", "new/out"]


@pytest.mark.parametrize("command", [
    [*PRETRAIN, "--input", "nowhere*.txt"],
    [*PRETRAIN, "--vocab", "nowhere.txt"],
    [*PRETRAIN, "--vocab", "table.tsv"],
    [*PRETRAIN, "--config", "nowhere.json"],
    [*PRETRAIN, "--init", "nowhere"],
    [*PRETRAIN, "--output_dir", "other"],
    [pretrain.main, "--output_dir", "other", "--overwrite"],  # nor Python's prose
    [*CREATE, "--input", "nowhere*.txt"],
    [*CREATE, "--vocab", "nowhere.txt"],
    [*CREATE, "--vocab", "table.tsv"],
    [*CREATE, "--seq_length", "3"],
    [*CREATE, "--format", "full_sentences", "--pairs", "random"],
    [*FINETUNE, "--train", "nowhere.tsv"],
    [*FINETUNE, "--dev", "nowhere.tsv"],
    [*FINETUNE, "--text_column", "txt"],
    [*FINETUNE, "--label_column", "text"],
    [*FINETUNE, "--task", "conll"],
    [*FINETUNE, "--init", "nowhere"],
    [*FINETUNE, "--init", "texts.txt"],
    [*FINETUNE, "--vocab", "nowhere.txt"],
    [*FINETUNE, "--config", "nowhere.json"],
    [*FINETUNE, "--seq_length", "100000"],
    [*FINETUNE, "--output_dir", "other", "--overwrite"],
    EVALUATE,
    [*EVALUATE, "--model", "nowhere"],
    [*EVALUATE, "--task", "classify", "--data", "nowhere.tsv"],
    [export.main, "--model", "nowhere", "--export_dir", "new/saved/run"],
    [export.main, "--model", "model", "--export_dir", "new/saved/run"],
    [convert.main, "--from", "hf", "nowhere", "--to", "google", "new/converted"],
    [convert.main, "--from", "bert_tf", "model", "--to", "hf", "new/converted"],
    [learn_vocab.main, "--input", "nowhere.txt", "--output", "new/vocab.txt"],
], ids=lambda command: f"{command[0].__module__}-{command[-2]}-{command[-1]}")
def test_what_is_refused_leaves_nothing(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("One sentence.\nAnother one.\n")
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\n")
    (tmp_path / "table.tsv").write_text("text\tlabel\none\ta\ntwo\tb\nthree\ta\nfour\tb\n")
    for folder in ("model", "other"):
        (tmp_path / folder / "model").mkdir(parents=True)
        (tmp_path / folder / "model" / "model_config.json").write_text("{}")

    def content():
        return {str(path): path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}

    before = content()
    main, *words = command
    assert cli.run(main, words) in (1, 2)
    assert "error: " in capsys.readouterr().err
    assert content() == before
