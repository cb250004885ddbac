"""`python -m bert_tf.export` as a user runs it."""

import os
import shutil
import subprocess
import sys

import pytest
from tiny_model import only_signatures

from bert_tf import cli, export


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model folder, to be copied."""
    from bert_tf.config import ModelConfig
    from bert_tf.models.pretrained import save_pretrained
    from bert_tf.tasks.pretraining.masked_lm import Pretrainer
    from bert_tf.tokenization.tokenizer import Tokenizer
    from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "fox", "dog"]))
    config = ModelConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                         intermediate_size=16, max_position_embeddings=16)
    folder = tmp_path_factory.mktemp("models") / "demo"
    save_pretrained(str(folder), Pretrainer(config), tokenizer)
    return folder


def test_a_model_folder_becomes_a_version_that_the_local_config_lists(saved, tmp_path, monkeypatch,
                                                                      capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(saved, "demo")
    (tmp_path / "serving").mkdir()
    with only_signatures("serving_default", "describe", "embed", "fill_mask", "next_sentence"):
        assert cli.run(export.main, ["--model", "demo"]) == 0
    assert capsys.readouterr().out == (
        "exported saved_models/demo/1\nsignatures: serving_default fill_mask "
        "next_sentence embed describe\n")
    assert (tmp_path / "saved_models/demo/1/saved_model.pb").exists()
    for name, folder in (("models.config", "/models"),
                         ("models.local.config", f"{tmp_path}/saved_models")):
        assert f'"{folder}/demo"' in (tmp_path / "serving" / name).read_text()


def test_the_serving_config_follows_what_was_copied_and_removed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved_models/copied/7").mkdir(parents=True)
    assert cli.run(export.main, ["--serving_config"]) == 2
    assert "expected a folder saved_models with a folder serving" in capsys.readouterr().err
    (tmp_path / "serving").mkdir()
    assert cli.run(export.main, ["--serving_config"]) == 0
    assert capsys.readouterr().out == (
        "wrote serving/models.config serving/models.local.config\n")
    config = tmp_path / "serving/models.local.config"
    assert str(tmp_path / "saved_models/copied") in config.read_text()
    (tmp_path / "saved_models/copied/7").rmdir()
    assert cli.run(export.main, ["--serving_config", "--export_dir", "saved_models/any"]) == 0
    assert "config {" not in config.read_text()
    capsys.readouterr()
    own = tmp_path / "serving/models.config"
    assert "config {" not in own.read_text()
    own.write_text("# mine\n" + own.read_text())
    (tmp_path / "saved_models/copied/7").mkdir()
    assert cli.run(export.main, ["--serving_config"]) == 0
    assert capsys.readouterr().out == "wrote serving/models.local.config\n"
    assert own.read_text().startswith("# mine\n") and "copied" not in own.read_text()
    assert "copied" in config.read_text()
    config.write_text("# mine, too\n")
    assert cli.run(export.main, ["--serving_config"]) == 0
    assert capsys.readouterr().out == "nothing is written: both files are your own\n"
    assert config.read_text() == "# mine, too\n"


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["--dtype", "float32"], 2, "nothing to do; expected --model, --serving_config or --check"),
    (["--model", "demo", "--pair"], 2, "; expected a classifier of texts whose files do not say"),
    (["--model", "nowhere"], 2, "nowhere does not exist; expected a model folder"),
    (["--model", "demo", "--seq_length", "99"], 2, "seq_length=99; expected 5 to 16"),
    (["--model", "demo", "--export_dir", "file"], 1, "cannot create file"),
    (["--model", "demo/without_checkpoint"], 1, "model"),
    (["--model", "demo/damaged"], 1, "damaged"),
])
def test_errors_are_one_line(saved, arguments, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(saved, "demo")
    (tmp_path / "file").touch()
    if "without" in arguments[1]:
        shutil.copytree(saved, arguments[1])
        os.remove(os.path.join(arguments[1], "model.index"))
    if "damaged" in arguments[1]:
        shutil.copytree(saved, arguments[1])
        with open(os.path.join(arguments[1], "model.data-00000-of-00001"), "r+b") as data:
            data.truncate(100)
    assert cli.run(export.main, arguments) == code
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error


def test_help_is_quick_because_nothing_heavy_is_imported():
    script = ("import sys\nfrom bert_tf import export\n"
              "try:\n    export.main(['--help'])\nexcept SystemExit:\n    pass\n"
              "print('tensorflow' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("False\n")


def test_a_sample_is_spread_over_all():
    for size, count in ((1240, 1024), (10, 3), (3, 10), (0, 4)):
        sample = export._spread(list(range(size)), count)
        assert len(sample) == min(size, count) and sample == sorted(set(sample))
        assert not sample or sample[0] == 0 and sample[-1] >= size - 1 - size / len(sample)
