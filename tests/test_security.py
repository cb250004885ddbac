"""What SECURITY.md promises of the package as a whole; the rest is tested where it is done."""

import ast
import contextlib
import json
import os
import pathlib
import re
import zipfile

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.converters import safetensors_file, tokenizer_files, weight_files
from bert_tf.errors import BertTfError
from bert_tf.storage import checksums, files
from bert_tf.tokenization.load import load_tokenizer

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "bert_tf"
# Ruff's rules S see calls of pickle, eval, shells and unsafe archives (`make lint`); not these.
OFF = {"allow_pickle", "trust_remote_code"}  # arguments that may be False only
ON = {"safe_mode"}  # that may be True only
NEVER = {"enable_unsafe_deserialization", "CERT_NONE", "_create_unverified_context"}


def forbidden(source):
    """What a source text does that the package must not do, as `line: what`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg in OFF | ON and not (
                isinstance(node.value, ast.Constant) and node.value.value is (node.arg in ON)):
            yield f"{node.value.lineno}: {node.arg}={ast.unparse(node.value)}"
        name = getattr(node, "attr", getattr(node, "id", None))
        if name in NEVER:
            yield f"{node.lineno}: {name}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load") \
                and not any(keyword.arg == "allow_pickle" for keyword in node.keywords):
            yield f"{node.lineno}: np.load without allow_pickle=False"
        if isinstance(node, ast.Call) and name is None and ast.unparse(node.func).endswith(
                "saving.load_model") and not any(k.arg == "safe_mode" for k in node.keywords):
            yield f"{node.lineno}: load_model without safe_mode=True"


def test_nothing_takes_the_environment_as_a_whole():
    """So that no secret in it gets into a log or a record; the cluster's variables are named."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = [getattr(node, "value", None) for node in ast.walk(tree)
                 if isinstance(node, ast.Attribute | ast.Subscript)]
        found += [path.name for node in ast.walk(tree) if isinstance(node, ast.Attribute)
                  and ast.unparse(node) == "os.environ" and node not in named
                  and not any(isinstance(test, ast.Compare) and node in test.comparators
                              for test in ast.walk(tree))]
    assert found == ["cluster.py"]


def test_no_unsafe_loading():
    found = [f"{path.relative_to(REPOSITORY)} line {what}" for path in PACKAGE.rglob("*.py")
             for what in forbidden(path.read_text())]
    # That one asks what a port speaks and sends nothing of the user's.
    assert [each for each in found if "client/diagnosis.py" not in each] == []
    assert [each.rpartition(" ")[2] for each in found] == ["CERT_NONE"]
    for bad in ("np.load(p)", "np.load(p, allow_pickle=True)", "keras.saving.load_model(p)",
                "keras.saving.load_model(p, safe_mode=False)", "load(p, trust_remote_code=yes)",
                "keras.config.enable_unsafe_deserialization()"):
        assert [*forbidden(bad)], bad


def test_the_linter_looks_for_the_rest():
    rules = (REPOSITORY / "ruff.toml").read_text()
    assert re.search(r'select = \[.*"S"\]', rules)
    # Beside the draws, which are to be repeated, nothing is excepted in the package.
    assert re.search(r'ignore = \[.*\]', rules).group().count('"S') == 2  # SIM108, S311
    noted = [path for path in PACKAGE.rglob("*.py") if re.search(r"noqa: S\d", path.read_text())]
    assert not noted


def test_every_locked_package_has_hashes_and_make_asks_for_them():
    lock = (REPOSITORY / "requirements.lock").read_text()
    entries = re.findall(r"(?m)^(\S+?)==\S+.*?\\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", lock)
    names = re.findall(r"(?m)^([A-Za-z0-9_.\[\]-]+)(?:==| @ )", lock)
    assert len(names) > 100 and [name for name, _ in entries] == names
    found = re.findall(r"pip install (.*)", (REPOSITORY / "Makefile").read_text())
    installs = [each for each in found if "pyspark" not in each]  # for one test of `make test-all`
    assert len(installs) == 2 and len(found) == 3
    assert "--require-hashes -r requirements.lock" in installs[0] and "--no-deps" in installs[0]
    assert installs[1].split()[-2:] == ["-e", "."] and "--no-deps" in installs[1]
    assert "--no-build-isolation" in installs[1]  # or it would fetch what no lock names


def archive(path, **entries):
    """A `.keras` file of a small model, with other entries."""
    layer = entries.pop("layer", keras.layers.Dense(2))
    keras.Sequential([keras.Input((3,)), layer]).save(path)
    with zipfile.ZipFile(path, "a") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def change_config(path, change):
    """Rewrite `config.json` in a `.keras` file."""
    with zipfile.ZipFile(path) as file:
        held = {name: file.read(name) for name in file.namelist()}
    config = json.loads(held["config.json"])
    change(config)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in held.items():
            file.writestr(name, json.dumps(config) if name == "config.json" else content)


def test_a_keras_file_brings_no_code(tmp_path):
    marker = tmp_path / "marker"
    safe = str(tmp_path / "safe.keras")
    archive(safe)
    assert bert_tf.load_model(safe)(np.zeros((1, 3))).shape == (1, 2)
    for name in ("lambda.keras", "lambda.h5"):
        path = str(tmp_path / name)
        keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x * 2)]).save(path)
        with pytest.raises(ValueError, match="[Ll]ambda"):
            bert_tf.load_model(path)

    def call_something(config):
        config["config"]["layers"][1] |= {"module": "os", "class_name": "system",
                                          "config": {"command": f"touch {marker}"}}

    change_config(safe, call_something)
    with pytest.raises((TypeError, ValueError)):
        bert_tf.load_model(safe)
    with pytest.raises(TypeError):
        bert_tf.load_model(safe, safe_mode=False)
    assert not marker.exists()


def test_a_keras_file_stays_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = str(tmp_path / "here" / "model.keras")
    archive(path, **{"../outside": "a", "assets/../../outside": "b", str(tmp_path / "root"): "c"})
    with contextlib.suppress(ValueError):  # refused is as good
        bert_tf.load_model(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["here"]


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "link", "sub/link",
                                  "..", "a\0b"])
def test_names_and_links_that_lead_out_of_a_folder(tmp_path, name):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "sub" / "link").symlink_to("../../secret")
    with pytest.raises(BertTfError):
        files.inside(str(folder), name)


def test_links_that_stay(tmp_path):
    """Within the folder, and in a download of Hugging Face's hub, which consists of links."""
    snapshot = tmp_path / "models--a" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--a" / "blobs").mkdir()
    (tmp_path / "models--a" / "blobs" / "abc").write_text("[PAD]\n")
    (snapshot / "vocab.txt").symlink_to("../../blobs/abc")
    (snapshot / "same").symlink_to("vocab.txt")
    (tmp_path / "other").symlink_to(snapshot)
    for folder in (snapshot, tmp_path / "other"):
        for name in ("vocab.txt", "same"):
            assert files.read_text(files.inside(str(folder), name)) == "[PAD]"
    (snapshot / "up").symlink_to("../../blobs/../secret")
    (tmp_path / "models--a" / "secret").write_text("")
    with pytest.raises(BertTfError, match="points outside its folder"):
        files.inside(str(snapshot), "up")


def test_checkpoints_of_others_take_no_files_from_elsewhere(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.txt").symlink_to(secret)
    with pytest.raises(BertTfError, match="vocab.txt.* points outside its folder"):
        tokenizer_files.tokenizer_folder(str(folder))
    for name in ("../secret", "/etc/passwd", "vocab.txt"):
        (folder / safetensors_file.INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(BertTfError, match="a file beside it|points outside"):
            weight_files.read_folder(str(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "modules.json", "1_Pooling",
                                  "bert_model.ckpt.index", "model.weights.h5", "bert_config.json",
                                  "assets/tokenizer/vocabulary.txt"])
def test_no_file_of_a_model_is_elsewhere_or_a_pipe(tmp_path, name):
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    (folder / name).parent.mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "config.json").write_text("{}")
    (folder / "unrelated").symlink_to(elsewhere)
    (folder / name).symlink_to(elsewhere if name == "1_Pooling" else elsewhere / "config.json")
    with pytest.raises(BertTfError, match=f"{name}.* points outside its folder"):
        checksums.opened(str(folder), own=False)
    (folder / name).unlink()
    assert checksums.opened(str(folder), own=False) == str(folder)
    os.mkfifo(folder / "sentence_bert_config.json")
    with pytest.raises(BertTfError, match="sentence_bert_config.json is a pipe or a device"):
        checksums.opened(str(folder), own=False)


def test_a_tokenizer_takes_no_file_from_elsewhere(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.txt").write_text("[PAD]\n")
    (tmp_path / "secret").write_text("{}")
    (folder / "tokenizer.json").symlink_to(tmp_path / "secret")
    with pytest.raises(BertTfError, match="tokenizer.json.* points outside its folder"):
        load_tokenizer(str(folder))
