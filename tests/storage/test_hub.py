"""Models of the Hugging Face Hub, of a local server: fetched, cached, refused."""

import os

import pytest
from folders import files_of
from hub_server import HubServer, commit_of, forget, read_from

from bert_tf import cli
from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import hub, staging

constants = pytest.importorskip("huggingface_hub.constants")
BIG = bytes(range(256)) * 4000
FILES = {
    "README.md": b"words", "config.json": b"{}", "tokenizer.json": b"{ }", "vocab.txt": b"[PAD]\n",
    "modules.json": b"[]", "1_Pooling/config.json": b"{\n}", "2_Dense/config.json": b"{\n\n}",
    "router_config.json": b"{  }", "query_0_SparseStaticEmbedding/config.json": b"[{}]",
    "2_Dense/pytorch_model.bin": b"dense", "model.safetensors": BIG, "pytorch_model.bin": b"big",
    "tf_model.h5": b"h5", "flax_model.msgpack": b"flax", "rust_model.ot": b"rust",
    "onnx/model.onnx": b"onnx", "onnx/config.json": b"[ ]", "openvino/openvino_model.bin": b"vino"}
READ = sorted(["config.json", "tokenizer.json", "vocab.txt", "modules.json", "router_config.json",
               "query_0_SparseStaticEmbedding/config.json",
               "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/pytorch_model.bin",
               "model.safetensors"])


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A hub with `org/name`, which this process reads with an empty cache."""
    with HubServer() as server:
        server.repositories["org/name"] = {
            "main": dict(FILES), "v1.0": {**FILES, "config.json": b'{"old": 1}'}}
        read_from(server, tmp_path / "cache", monkeypatch)
        monkeypatch.chdir(tmp_path)
        yield server


def test_only_what_is_read_is_downloaded_once(server, monkeypatch):
    folder = hub.local("hf://org/name")
    assert files_of(folder) == {name: FILES[name] for name in READ}
    assert os.path.basename(folder) == commit_of(FILES)
    assert server.downloaded() == READ
    before = len(server.requests)
    assert hub.local("hf://org/name") == folder and len(server.requests) == before
    forget(monkeypatch)
    assert hub.local("org/name") == folder and server.downloaded() == READ
    assert staging.named(f"{folder}/config.json is bad") == "hf://org/name/config.json is bad"


def test_what_others_put_into_the_cache_is_not_the_model(server):
    from bert_tf.models.find import model_files

    folder = hub.local("hf://org/name")
    found = model_files("hf://org/name")
    assert sorted(map(os.path.basename, found)) == [name for name in READ if "/" not in name]
    for name in ("README.md", "pytorch_model.bin", "tf_model.h5"):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(FILES[name])
    assert model_files("hf://org/name") == found and len(model_files(folder)) == len(found) + 3


def test_a_pickle_only_where_there_is_nothing_else(server):
    del server.repositories["org/name"]["main"]["model.safetensors"]
    assert "pytorch_model.bin" in files_of(hub.local("hf://org/name"))


def test_an_adapter_and_what_it_adapts(server):
    from bert_tf.models.find import adapted_model, model_files

    own = {"adapter_config.json": b'{"base_model_name_or_path": "org/name", "revision": "v1.0"}',
           "adapter_model.safetensors": b"added"}
    server.repositories["org/adapter"] = {"main": {**own, "optimizer.pt": b"moments"}}
    folder = hub.local("hf://org/adapter")
    assert files_of(folder) == own
    base = adapted_model(folder)
    assert files_of(base)["config.json"] == b'{"old": 1}'
    assert {*map(os.path.dirname, model_files("hf://org/adapter"))} == {folder, base}
    del server.repositories["org/name"]
    own["adapter_config.json"] = b'{"base_model_name_or_path": "org/gone"}'
    server.repositories["org/adapter"]["main"] = own
    with pytest.raises(UsageError, match="names the model 'org/gone', which is neither.*gone"):
        adapted_model(hub.local("hf://org/adapter@main"))


def test_a_tokenizer_comes_without_weights(server, monkeypatch):
    assert "model.safetensors" not in files_of(hub.local("hf://org/name", weights=False))
    assert "model.safetensors" in files_of(hub.local("hf://org/name"))


def test_a_revision(server, monkeypatch):
    old = hub.local("hf://org/name@v1.0")
    assert files_of(old)["config.json"] == b'{"old": 1}'
    commit = os.path.basename(old)
    assert hub.local(f"org/name@{commit}") == old
    assert files_of(hub.local("hf://org/name"))["config.json"] == b"{}"
    forget(monkeypatch, offline=True)
    assert hub.local("hf://org/name@v1.0") == old


@pytest.mark.parametrize("how", ["variable", "stopped", "failing"])
def test_without_network_what_is_cached_is_read(server, monkeypatch, capsys, how):
    folder = hub.local("hf://org/name")
    forget(monkeypatch, offline=how == "variable")
    if how == "stopped":
        server.stop()
    elif how == "failing":
        server.refusals["org/name"] = 503, None
    assert hub.local("hf://org/name") == folder
    assert ("cannot be reached" in capsys.readouterr().out) == (how != "variable")
    with pytest.raises(BertTfError, match="cannot read hf://org/name@other: ") as raised:
        hub.local("hf://org/name@other")
    assert "\n" not in str(raised.value)
    assert ("HF_HUB_OFFLINE is set, and" in str(raised.value)) == (how == "variable")


def test_what_is_half_cached_is_refused_offline(server, monkeypatch):
    hub.local("hf://org/name", weights=False)
    forget(monkeypatch, offline=True)
    with pytest.raises(BertTfError, match="has no whole copy of it; try the same command with a"):
        hub.local("hf://org/name")


def test_an_interrupted_download_goes_on(server, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 50_000)  # 10 MB
    server.faults["model.safetensors"] = [100_000]
    assert files_of(hub.local("hf://org/name"))["model.safetensors"] == BIG
    ranges = [bounds for method, path, bounds in server.requests if path.startswith("/cdn/")
              and "safetensors" in path]
    assert ranges == [None, "bytes=100000-"]


def test_what_is_whole_is_kept_of_a_download_that_failed(server, monkeypatch):
    server.faults["model.safetensors"] = [lambda data: data[:1000]]
    with pytest.raises(BertTfError, match="no whole answer of .* try the same command") as raised:
        hub.local("hf://org/name")
    assert "\n" not in str(raised.value)
    kept = set(server.downloaded()) - {"model.safetensors"}
    server.requests.clear()
    assert files_of(hub.local("hf://org/name")) == {name: FILES[name] for name in READ}
    assert "model.safetensors" in server.downloaded() and not kept & {
        name for name in server.downloaded() if name != "model.safetensors"}


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_another_content_than_stated_is_not_kept(server, name):
    server.faults[name] = [lambda data: b"x" + data[1:]]
    with pytest.raises(BertTfError, match=f"hf://org/name/{name} is damaged: what arrived"):
        hub.local("hf://org/name")
    assert files_of(hub.local("hf://org/name"))[name] == FILES[name]


@pytest.mark.parametrize(("refusal", "error", "message"), [
    ((404, "RepoNotFound"), UsageError, "has no org/name, or it is private; try another name, or "),
    ((401, None), BertTfError, "answers 401; try HF_TOKEN"),
    ((403, None), BertTfError, "answers 403; try HF_TOKEN"),
    (("gated", "GatedRepo"), BertTfError, "its owners grant access one by one; try asking"),
])
def test_no_access(server, monkeypatch, refusal, error, message):
    server.refusals["org/name"] = refusal
    for path in ("hf://org/name", "org/name"):
        with pytest.raises(error, match=message) as raised:
            hub.local(path)
        assert "\n" not in str(raised.value)
        assert ("there is no org/name here" in str(raised.value)) == (path == "org/name")
    server.tokens.add("secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "config.json" in files_of(hub.local("hf://org/name"))


@pytest.mark.parametrize(("path", "message"), [
    ("hf://org/none", "has no org/none, or it is private"),
    ("hf://org/name@none", "org/name has no revision none; expected a branch, tag or commit"),
    ("hf://org/name/config.json", "expected hf://org/name or hf://org/name@revision"),
    ("hf://user:hunter2@org/name", "expected hf://org/name or hf://org/name@revision"),
    ("hf://", "expected hf://org/name or hf://org/name@revision"),
    ("hf://org/a--b", "hf://org/a--b names no repository"),
    ("hf://org/empty", "hf://org/empty holds no model; expected"),
])
def test_names_that_are_wrong(server, path, message):
    server.repositories["org/empty"] = {"main": {"README.md": b"words"}}
    with pytest.raises(UsageError, match=message) as raised:
        hub.local(path)
    assert "hunter2" not in str(raised.value) and "\n" not in str(raised.value)


def test_local_paths_ask_no_server(server, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "org").mkdir()
    for path in ("runs/typo", "org/name", "./org/name", "../org/name", "name", "/org/name",
                 "texts/vocab.txt", "s3://bucket/name", tmp_path, "a/b/c"):
        assert hub.local(path) is path and hub.repository(path) is None
    assert not server.requests


def test_without_the_package_the_error_says_what_to_install(server, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    assert cli.run(lambda argv: hub.local("hf://org/name")) == 2
    assert "try pip install 'bert_tf[hub]'" in capsys.readouterr().err


def test_a_served_folder_is_the_one_on_disk(server, shared):
    source = shared / "reference" / "hub" / "bert_bin"
    server.repositories["a/b"] = {"main": files_of(source)}
    found = files_of(hub.local("hf://a/b"))
    assert found.items() < files_of(source).items()
    assert set(files_of(source)) - set(found) == {"expected.json", "expected.npz"}
