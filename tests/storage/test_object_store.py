"""Folders in an object store: whole or not there, whatever moment a process dies at."""

import errno
import gzip
import json
import sys
import threading

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bert_tf import cli
from bert_tf.data import records
from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import checksums, files, local_copies, object_store
from bert_tf.training.checkpoint import Checkpoints


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """An empty store in this process, and a cache of its own."""
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield MemoryFileSystem.store
    MemoryFileSystem.store.clear()


def _fill(path):
    with checksums.new_folder(path) as folder:
        for name in ("b", "z", "a"):
            files.write_text(f"{folder}/{name}", name * 100)
        files.make_folder(f"{folder}/inner")
        files.write_text(f"{folder}/inner/c", "c")


def _read(path):
    folder = checksums.opened(path)
    return {name: files.read_text(f"{folder}/{name}") for name in ("a", "b", "z", "inner/c")}


WHOLE = {"a": "a" * 100, "b": "b" * 100, "z": "z" * 100, "inner/c": "c"}


def _die_at(monkeypatch, method, call):
    """Let the process die before the given call of a method of the store."""
    real, calls = getattr(MemoryFileSystem, method), []

    def dying(self, *arguments, **options):
        calls.append(arguments)
        if len(calls) > call:  # all that comes later does not happen either
            raise Killed
        return real(self, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, method, dying)
    return calls


@pytest.mark.parametrize("call", range(6))
def test_a_folder_is_there_once_its_manifest_is(monkeypatch, store, call):
    monkeypatch.setattr(object_store, "_AT_ONCE", 1)
    with monkeypatch.context() as patch:
        calls = _die_at(patch, "put_file", call)
        if call < 5:
            with pytest.raises(Killed):
                _fill("memory://bucket/model")
            assert "/bucket/model/checksums.json" not in store
            with pytest.raises(BertTfError, match="bucket/model (is incomplete|.*no such)"):
                _read("memory://bucket/model")
            with pytest.raises(BertTfError, match="bucket/model (is incomplete|.*no such)"):
                local_copies.local("memory://bucket/model")
        else:
            _fill("memory://bucket/model")
            assert [name.rpartition("/")[2] for _, name in calls].index("checksums.json") == 4
            assert _read("memory://bucket/model") == WHOLE
            return
    # Of the killed upload nothing stays, and nothing is taken for another's.
    files.write_text("memory://bucket/model/left_over", "half")
    files.clean_temporary("memory://bucket")
    assert not store
    _fill("memory://bucket/model")
    assert sorted(store) == ["/bucket/model/a", "/bucket/model/b", "/bucket/model/checksums.json",
                             "/bucket/model/inner/c", "/bucket/model/z"]
    assert _read("memory://bucket/model") == WHOLE


def test_of_an_upload_that_was_killed_at_its_very_end_the_mark_goes(monkeypatch, store):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_at(patch, "rm_file", 0)
        _fill("memory://bucket/model")
    assert len(store) == 6 and _read("memory://bucket/model") == WHOLE
    files.clean_temporary("memory://bucket", "another")
    assert len(store) == 6
    files.clean_temporary("memory://bucket")
    assert len(store) == 5 and _read("memory://bucket/model") == WHOLE


def test_what_is_left_is_found_by_one_list(monkeypatch, store):
    for name in ("a", "b", "c"):
        files.write_text(f"memory://bucket/{name}.tfrecord", "")
    files.write_text("memory://bucket/half/.uploading", "")
    files.write_text("memory://bucket/.tmp-d-0123456789ab", "")
    asked, info = [], object_store._info
    monkeypatch.setattr(object_store, "_info", lambda path: asked.append(path) or info(path))
    files.clean_temporary("memory://bucket/")
    assert sorted(store) == [f"/bucket/{name}.tfrecord" for name in ("a", "b", "c")]
    assert asked and all(path.startswith("memory://bucket/half/") for path in asked)


def test_an_upload_goes_over_what_a_killed_one_left_and_over_nothing_else(monkeypatch, store):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_at(patch, "put_file", 2)
        _fill("memory://bucket/model")
    _fill("memory://bucket/model")
    assert _read("memory://bucket/model") == WHOLE
    for name in ("model", "somebody's"):
        files.write_text(f"memory://bucket/{name}/precious", "")
        before = dict(store)
        with pytest.raises(BertTfError, match=f"{name}: the folder exists already"):
            _fill(f"memory://bucket/{name}")
        assert store == before


@pytest.mark.parametrize("call", range(6))
def test_a_folder_is_gone_before_any_part_of_it_is(monkeypatch, store, call):
    _fill("memory://bucket/model")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_at(patch, "rm_file", call)
        files.discard("memory://bucket/model")
    if call == 0:
        assert _read("memory://bucket/model") == WHOLE
    else:
        with pytest.raises(BertTfError, match="is incomplete"):
            local_copies.local("memory://bucket/model")
        files.clean_temporary("memory://bucket")
        assert not store
    files.remove("memory://bucket/model")
    assert not store


@pytest.mark.parametrize("call", [2, 4])
def test_what_a_killed_move_left_is_known(monkeypatch, store, call):
    monkeypatch.setattr(object_store, "_AT_ONCE", 1)
    _fill("memory://bucket/model")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_at(patch, "cp_file", call)
        files.rename("memory://bucket/model", "memory://bucket/moved")
    assert "/bucket/moved/a" in store
    files.clean_temporary("memory://bucket")
    assert len(store) == 5 and _read("memory://bucket/model") == WHOLE
    files.rename("memory://bucket/model", "memory://bucket/moved")
    assert len(store) == 5 and _read("memory://bucket/moved") == WHOLE


def test_a_half_uploaded_checkpoint_is_none(monkeypatch, store):
    kept = Checkpoints("memory://bucket/run/checkpoints", keep=2)
    weights = {"weights": np.arange(5.0)}
    with monkeypatch.context() as patch, pytest.raises(Killed):
        _die_at(patch, "put_file", 2)  # the state
        kept.save(3, weights, {})
    assert "/bucket/run/checkpoints/step_00000003/variables.index" in store
    assert kept.steps() == [] and kept.load_newest(pytest.fail) is None
    for step in (3, 4, 5):
        kept.save(step, {"weights": weights["weights"] * step}, {"note": "ü"})
    assert kept.steps() == [4, 5]
    tensors, state = kept.load_newest(pytest.fail)
    assert tensors["weights"].tolist() == (weights["weights"] * 5).tolist()
    assert state["step"] == 5 and state["note"] == "ü"
    kept.save(6, weights, {})
    data = next(name for name in store if "00006/variables.data" in name)
    store[data].seek(3)
    store[data].write(b"\x55")
    said = []
    assert kept.load_newest(said.append)[1]["step"] == 5
    assert "memory://bucket/run/checkpoints/step_00000006" in said[0] and "damaged" in said[0]


def test_files_are_read_written_and_listed_as_on_a_disk(tmp_path, store):
    for root in ("memory://bucket/texts", str(tmp_path / "texts")):
        files.write_bytes(f"{root}/b.txt.gz", gzip.compress("zwei\nÄ".encode()))
        files.write_text(f"{root}/a.txt", "one")
        files.write_json(f"{root}/deep/er/c.json", {"c": 1})
        assert files.expand([f"{root}/*.txt*"]) == [f"{root}/a.txt", f"{root}/b.txt.gz"]
        assert files.expand([f"{root}/**/*.json"]) == [f"{root}/deep/er/c.json"]
        files.write_text(f"{root}/x[1]/a.txt", "one")
        assert files.expand([f"{root}/x[1]/a.txt"]) == [f"{root}/x[1]/a.txt"]
        files.remove(f"{root}/x[1]")
        assert list(files.read_lines(f"{root}/b.txt.gz")) == ["zwei", "Ä"]
        assert files.list_folder(root) == ["a.txt", "b.txt.gz", "deep"]
        assert files.list_folder(f"{root}/none") == []
        assert files.exists(f"{root}/deep") and files.is_folder(f"{root}/deep")
        assert not files.is_file(f"{root}/deep") and files.size(f"{root}/a.txt") == 3
        files.copy(f"{root}/a.txt", f"{root}/deep/a.txt")
        files.rename(f"{root}/deep", f"{root}/moved")
        assert files.read_text(f"{root}/moved/a.txt") == "one"
        assert files.read_json(f"{root}/moved/er/c.json") == {"c": 1}
        assert files.inside(root, "a.txt") == f"{root}/a.txt"
        with pytest.raises(BertTfError, match="points outside its folder"):
            files.inside(root, "../a.txt")
        with open(local_copies.local(f"{root}/a.txt")) as stream:
            assert stream.read() == "one"
        files.remove(f"{root}/moved")
        files.remove(f"{root}/moved")
        assert not files.exists(f"{root}/moved") and files.exists(f"{root}/a.txt")
        with pytest.raises(UsageError, match="texts is a folder"):
            files.expand([root])
        with pytest.raises(UsageError, match="no file matches"):
            files.expand([f"{root}/*.pdf"])
        with pytest.raises(BertTfError, match=f"cannot read {root}/none"):
            files.read_text(f"{root}/none")
        with pytest.raises(BertTfError, match=r"b.txt.gz.* line 1.*not UTF-8|line 1: byte"):
            files.write_bytes(f"{root}/bad.txt", b"\xff")
            files.read_text(f"{root}/bad.txt")
    assert not any("cache" in name for name in store)


@pytest.mark.parametrize("room", [10_000_000, 500])
def test_records_are_read_by_shard_or_where_the_cache_is_too_small_by_range(monkeypatch, room,
                                                                           tmp_path):
    monkeypatch.setenv("BERT_TF_CACHE_BYTES", str(room))
    table = {"input_word_ids": (np.int64, None)}
    expected = []
    for shard in range(3):
        rows = np.arange(40) + 100 * shard, np.array([10, 20, 10])
        framed = records.frame(records.serialize(table, {"input_word_ids": rows}))
        records.write_shard(f"memory://bucket/{shard}.tfrecord", [framed], [10, 20, 10], [])
        expected += np.split(rows[0], [10, 30])
    held = records.Records(f"memory://bucket/{shard}.tfrecord" for shard in range(3))
    order = np.array([8, 0, 4, 1, 1, 7])
    parsed = records.parse(table, held.read(order))["input_word_ids"]
    assert [row.numpy().tolist() for row in parsed] == [expected[i].tolist() for i in order]
    cached = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*.tfrecord"))
    assert cached <= room and bool(cached) == (room > 500)


@pytest.mark.parametrize(("content", "error"), [
    ("{", "lists no files and sizes"), ('{"files": 3}', "lists no files and sizes"),
    ('{"files": {"../x": {"size": 1, "blake2b": ""}}}', "files inside the folder"),
    ('{"files": {"/x": {"size": 1, "blake2b": ""}}}', "files inside the folder"),
    ('{"files": {"x": {"size": -1, "blake2b": ""}}}', "files inside the folder"),
    ('{"files": {"x": {"size": 2, "blake2b": ""}}}', "x is damaged"),
    ('{"files": {"x": {"size": 1, "blake2b": "0"}}}', "x is damaged"),
    ('{"files": {"y": {"size": 1, "blake2b": "0"}}}', "folder/y: no such")])
def test_a_manifest_is_not_trusted(tmp_path, content, error):
    files.write_text("memory://bucket/folder/x", "x")
    files.write_text("memory://bucket/folder/checksums.json", content)
    with pytest.raises(BertTfError, match=error):
        checksums.opened("memory://bucket/folder")
    assert not (tmp_path / "x").exists()


def test_errors_name_the_path_and_never_a_secret(monkeypatch, capsys):
    for path in ("s3://key:hunter2@bucket/x", "gs://hunter2@bucket"):
        with pytest.raises(UsageError, match="with credentials in it") as error:
            files.read_text(path)
        assert "hunter2" not in str(error.value)

        def main(argv, path=path):
            parser = cli.Parser("export", "")
            parser.add_argument("--model")
            parser.parse_args(argv)

        assert cli.run(main, ["--model", path]) == 2
        assert "hunter2" not in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"ftp://… .*s3://, gs://, memory://"):
        files.read_text("ftp://host/x")
    with pytest.raises(UsageError, match="s3:// has no bucket name"):
        files.read_text("s3://")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"pip install 'bert_tf\[cloud\]'"):
        files.read_text("s3://bucket/x")


def test_what_a_store_refuses_is_told_in_a_line(monkeypatch):
    class CredentialsError(Exception):
        __module__ = "google.auth.exceptions"

    for error, told in ((CredentialsError("none"), "no credentials found; try gcloud auth"),
                        (PermissionError("Forbidden"), "access denied for these credentials"),
                        (FileNotFoundError("The specified bucket is none"), "no such bucket"),
                        (OSError(22, "Bad\nname"), "the store reports: .*Bad name")):
        with (pytest.raises(BertTfError, match=told) as raised,
              object_store.explained("write", "gs://bucket/x")):
            raise error
        assert "gs://bucket/x" in str(raised.value)
    with pytest.raises(ZeroDivisionError), object_store.explained("write", "gs://bucket/x"):
        raise ZeroDivisionError


def test_google_cloud_storage_is_spoken_to_by_its_own_package(monkeypatch):
    """There is no such server here: the requests' names are what can be looked at."""
    import gcsfs

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")  # asks for no credentials
    asked = []

    def info(self, path, **options):
        asked.append(path)
        return {"name": path, "size": 7, "type": "file", "generation": "12"}

    monkeypatch.setattr(gcsfs.GCSFileSystem, "info", info)
    assert files.size("gs://bucket/a/b") == 7 and asked == ["bucket/a/b"]
    assert object_store.version("gs://bucket/a/b") == (7, "12")


def test_a_manifest_of_a_run_names_places_and_no_keys(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    _fill("memory://bucket/model")
    assert "hunter2" not in json.dumps(files.read_json("memory://bucket/model/checksums.json"))


def test_a_full_local_disk_is_no_failure_of_the_store():
    with pytest.raises(OSError, match="No space left"), object_store.explained("read", "s3://b/a"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_error_of_one_object_stops_the_others():
    stopped = threading.Event()

    def work(name):
        if name == "bad":
            raise BertTfError("bad")
        assert stopped.wait(60)

    with pytest.raises(BertTfError, match="bad"):
        files.each(work, ["s3://b/1", "bad", "s3://b/2"], stop=stopped.set)
