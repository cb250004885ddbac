"""Text in a store to a served model in a store, by commands, with a kill amid an upload."""

import json

import fsspec
import numpy as np
import pytest
from folders import files_of
from store_server import BUCKET, Store, is_upload_of
from tensorflow_serving.config import model_server_config_pb2

from bert_tf.data import python_prose
from bert_tf.errors import BertTfError
from bert_tf.pretrain import main as pretrain
from bert_tf.pretrain import run as pretraining_run
from bert_tf.serving.server.loaded_version import LoadedVersion
from bert_tf.serving.server.wanted_versions import find_versions
from bert_tf.storage import checksums, files, lease, local_copies

MODEL = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 64, "max_position_embeddings": 32, "hidden_dropout_prob": 0.1,
         "attention_probs_dropout_prob": 0.1, "family": "bert"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    pytest.importorskip("moto")
    with Store(tmp_path_factory.mktemp("store")) as store:
        yield store


def _flags(root):
    return ["--input", f"{root}/texts/*.txt", "--config", f"{root}/model.json", "--output_dir",
            f"{root}/runs/tiny", "--export_dir", f"{root}/served/tiny", "--vocab_size", "300",
            "--split", "sentences", "--seq_length", "32", "--train_steps", "8", "--batch_size",
            "8", "--checkpoint_every", "4", "--eval_every", "8", "--eval_examples", "16",
            "--holdout", "0.2", "--log_every", "1", "--num_processes", "1"]


def _losses(lines):
    return {(line["step"], line["split"]): line["loss"] for line in map(json.loads, lines)
            if "restart" not in line}


@pytest.mark.long
def test_a_run_in_a_store_survives_a_kill_and_is_loaded(store, tmp_path, monkeypatch):
    root, text = f"s3://{BUCKET}", python_prose.text()[:30_000]
    for name, data in (("texts/a.txt", text), ("model.json", json.dumps(MODEL))):
        store.objects.pipe_file(f"{BUCKET}/{name}", data.encode())
        files.write_text(f"{tmp_path}/{name}", data)
    with monkeypatch.context() as patch:  # what is compared is there before the export
        patch.setattr(pretraining_run, "export_saved_model", lambda *arguments, **options: None)
        assert pretrain(_flags(tmp_path)) is None  # on the two devices that all tests have
    flags = [*_flags(root), "--num_devices", "2"]
    killed, told = store.run_killed(is_upload_of("step_00000008/variables.data"), "pretrain",
                                    *flags)
    assert killed, told
    there = store.read("runs/tiny/checkpoints")
    assert "step_00000004/state.json" in there and "step_00000008/state.json" not in there
    assert any(name.startswith("step_00000008/") for name in there)
    told = store.run("pretrain", *flags)
    assert f"exported {root}/served/tiny/1" in told

    local = tmp_path / "runs/tiny"
    mine = files_of(local)
    theirs = store.read("runs/tiny")
    assert {name for name in theirs if "events" not in name} == {
        name for name in mine if "events" not in name}
    same = [name for name in mine if name.startswith(("model/", "data/train", "data/eval"))
            or "step_00000008/variables" in name]
    assert len(same) >= 12, same
    assert [name for name in same if mine[name] != theirs[name]] == []
    lines = theirs["metrics.jsonl"].decode().splitlines()
    assert lines.count('{"restart": 4}') == 1
    assert _losses(lines) == _losses((local / "metrics.jsonl").read_text().splitlines())
    assert not any(b"hunter2" in data for data in store.read("").values())

    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    served, settings = f"{root}/served/tiny", model_server_config_pb2.ModelConfig()
    settings.base_path = served
    assert find_versions({"tiny": settings}) == {"tiny": {1: f"{served}/1"}}
    # A second version that is not whole: its manifest has not come yet.
    version = store.read("served/tiny/1")
    manifest = version.pop("checksums.json")
    for name, data in version.items():
        store.objects.pipe_file(f"{BUCKET}/served/tiny/2/{name}", data)
    assert find_versions({"tiny": settings}) == {"tiny": {1: f"{served}/1"}}
    with (pytest.raises(BertTfError, match="tiny/2 is incomplete"),
          local_copies.staged(f"{served}/2")):
        pass
    store.objects.pipe_file(f"{BUCKET}/served/tiny/2/checksums.json", manifest)
    assert find_versions({"tiny": settings}) == {"tiny": {2: f"{served}/2"}}
    with local_copies.staged(f"{served}/2") as folder:
        signature = LoadedVersion(folder).signatures["embed"]
    answer = signature.run({"text": np.array([b"A statement."], object)})
    assert answer["embedding"].shape == (1, 32)


def test_what_consoles_show_as_empty_folders_is_no_file_and_goes_with_the_folder(
        store, monkeypatch):
    for name, value in store.environment.items():
        if name.startswith("AWS"):
            monkeypatch.setenv(name, value)
    type(store.objects).clear_instance_cache()
    root, model = f"s3://{BUCKET}/console", f"s3://{BUCKET}/console/m"
    for key in ("console/", "console/m/", "console/m/inner/"):
        store.objects.call_s3("put_object", Bucket=BUCKET, Key=key, Body=b"")
    files.write_text(f"{root}/a.txt", "a")
    assert files.expand([f"{root}/**"]) == [f"{root}/a.txt"]
    with checksums.new_folder(model) as folder:
        files.write_text(f"{folder}/b", "b")
    assert files.list_folder(model) == ["b", "checksums.json"]
    store.objects.call_s3("put_object", Bucket=BUCKET, Key="console/m/inner/", Body=b"")
    files.remove(model)
    assert not files.exists(model) and files.list_folder(root) == ["a.txt"]
    files.remove(root)
    assert not files.exists(root)


def test_a_lease_that_another_took_while_it_was_renewed_stays_the_others(store, monkeypatch):
    for name, value in store.environment.items():
        if name.startswith("AWS"):
            monkeypatch.setenv(name, value)
    type(store.objects).clear_instance_cache()
    one, other = (lease.Lease(f"s3://{BUCKET}/leased") for _ in range(2))
    one.take()
    read = lease._read

    def paused(path):
        found = read(path)
        monkeypatch.setattr(lease, "_read", read)
        other._write(IfMatch=found["mark"])
        return found

    monkeypatch.setattr(lease, "_read", paused)
    with pytest.raises(lease.HeldError):
        one._renew()
    assert read(one._path)["owner"] == other._owner
    one._renew()
    with pytest.raises(BertTfError, match="was taken over by"):
        one.check()
    one.release()
    assert read(one._path)["owner"] == other._owner


@pytest.mark.long
def test_what_is_wrong_with_a_store_is_told(store, monkeypatch):
    for name, value in store.environment.items():
        if name.startswith("AWS"):
            monkeypatch.setenv(name, value)
    system = type(fsspec.filesystem("s3"))
    system.clear_instance_cache()
    for action in (files.read_text, lambda path: files.write_text(path, "")):
        with pytest.raises(BertTfError, match="s3://nowhere/x: (there is no such bucket|no such)"):
            action("s3://nowhere/x")
    system.clear_instance_cache()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(BertTfError, match=f"s3://{BUCKET}/x: no credentials.*AWS_ACCESS_KEY_ID"):
        files.read_text(f"s3://{BUCKET}/x")
    system.clear_instance_cache()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(BertTfError, match=f"s3://{BUCKET}/x: the store is unreachable") as told:
        files.write_text(f"s3://{BUCKET}/x", "")
    assert "hunter2" not in str(told.value)
    system.clear_instance_cache()
