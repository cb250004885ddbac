"""The cache: bounded, shared by processes, and never a stale or a half copy."""

import concurrent.futures
import errno
import fcntl
import os
import random

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import files, local_copies, object_store, staging


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of an empty cache of 1,000 bytes; the store is empty too."""
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BERT_TF_CACHE_BYTES", "1000")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return tmp_path / "cache"


def _held(cache):
    """Bytes of all files in the cache but its own count."""
    return sum(path.stat().st_size for path in cache.rglob("*")
               if path.is_file() and path.name != "total")


def _read(path):
    with local_copies.staged(path) as local, open(local) as stream:
        return stream.read()


def test_what_changed_is_fetched_anew_and_nothing_else(cache, monkeypatch):
    fetched = []
    real = object_store.download
    monkeypatch.setattr(object_store, "download",
                        lambda paths, targets: (fetched.extend(paths), real(paths, targets)))
    for text in ("one", "two"):  # of one size
        files.write_text("memory://bucket/name", text)
        assert [_read("memory://bucket/name") for _ in range(3)] == [text] * 3
    files.write_text("memory://bucket/other", "two")
    assert _read("memory://bucket/other") == "two"
    assert fetched == ["memory://bucket/name"] * 2 + ["memory://bucket/other"]


def test_what_was_used_longest_ago_goes_first_and_what_is_in_use_never(cache):
    for name in "abcd":
        files.write_text(f"memory://bucket/{name}", name * 300)
    with local_copies.staged("memory://bucket/a") as first:
        for name in "bc":
            _read(f"memory://bucket/{name}")
        stream = local_copies.opener()("memory://bucket/b")
        _read("memory://bucket/d")  # room for two more than a, which is the oldest
        assert _held(cache) <= 1000
        with open(first) as held:
            assert held.read() == "a" * 300
        assert stream.read() == b"b" * 300
        kept = {path.name for path in cache.rglob("?")}
        assert kept == {"a", "b", "d"}
        with (local_copies.staged("memory://bucket/d"),
              pytest.raises(BertTfError, match="in use.*BYTES")):
            _read("memory://bucket/c")
        stream.close()
        with local_copies.staged("memory://bucket/d"):
            assert _read("memory://bucket/c") == "c" * 300
    files.write_text("memory://bucket/large", "x" * 1001)
    with pytest.raises(BertTfError, match="1001 bytes do not fit .* BERT_TF_CACHE_BYTES=2002"):
        _read("memory://bucket/large")


def test_a_copy_that_is_kept_outlives_any_need_for_room(cache):
    for name in "abcdef":
        files.write_text(f"memory://bucket/{name}", name * 300)
    kept = local_copies.local("memory://bucket/a")
    for name in "bcdef":
        assert _read(f"memory://bucket/{name}") == name * 300
    assert local_copies.local("memory://bucket/a") == kept and os.path.getsize(kept) == 300
    assert "memory://bucket/a is" in staging.named(f"{kept} is")


def test_many_at_once_read_what_is_there_within_the_bound(cache):
    """Threads lock against each other as processes do: a lock is of an open file."""
    sizes = {f"memory://bucket/{number}": 50 + 11 * number for number in range(12)}
    for path, size in sizes.items():
        files.write_text(path, path[-1] * size)

    def work(seed):
        draw = random.Random(seed)
        for _ in range(5):
            path = draw.choice(list(sizes))
            assert _read(path) == path[-1] * sizes[path]

    most = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for rest in range(10):  # what lies there can be counted while all rest
            list(pool.map(work, range(4 * rest, 4 * rest + 4)))
            assert _held(cache) <= 1000 >= int((cache / "total").read_text())
            most = max(most, _held(cache))
    assert most > 400
    assert not [name for name in os.listdir(cache) if name.startswith(".")]


def test_a_copy_gets_its_name_while_nobody_counts(cache, monkeypatch):
    """Who lists the folder just then would see neither name, and count too little."""
    files.write_text("memory://bucket/name", "one")
    real, renamed = os.rename, []

    def rename(source, target):
        with open(cache / "total") as stream, pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        renamed.append(source)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    _read("memory://bucket/name")
    assert len(renamed) == 1


def test_what_a_killed_process_left_is_not_taken_for_a_copy(cache, monkeypatch):
    files.write_text("memory://bucket/name", "whole")

    def dying(paths, targets):
        with open(targets[0], "w") as stream:
            stream.write("who")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(object_store, "download", dying)
        patch.setattr(staging.shutil, "rmtree", lambda *arguments, **options: None)  # killed
        _read("memory://bucket/name")
    (part,) = cache.glob(".part-*/name")
    assert part.read_text() == "who"
    assert _read("memory://bucket/name") == "whole"
    os.makedirs(cache / ".work-of-a-killed-process" / "folder")
    for number in range(5):
        files.write_text("memory://bucket/name", str(number) * 500)
        _read("memory://bucket/name")
    assert not [name for name in os.listdir(cache) if name.startswith(".")]


def test_what_changes_while_it_is_fetched_is_refused(monkeypatch):
    files.write_text("memory://bucket/name", "one")
    real = object_store.download

    def change(paths, targets):
        files.write_text("memory://bucket/name", "two")
        real(paths, targets)

    monkeypatch.setattr(object_store, "download", change)
    with pytest.raises(BertTfError, match="bucket/name is damaged, or was changed"):
        _read("memory://bucket/name")


def test_the_bound_is_a_number(monkeypatch):
    monkeypatch.setenv("BERT_TF_CACHE_BYTES", "20GB")
    files.write_text("memory://bucket/name", "one")
    with pytest.raises(UsageError, match="BERT_TF_CACHE_BYTES=20GB; expected a number of bytes"):
        local_copies.local("memory://bucket/name")


def test_a_cache_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(BertTfError, match="cannot create the cache .*: Not a directory; try "
                                          "BERT_TF_CACHE=FOLDER"):
        staging.cache_folder()


def test_a_cache_without_locks_is_refused(cache, monkeypatch):
    def flock(descriptor, how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    files.write_text("memory://bucket/name", "one")
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(BertTfError, match=f"cache {cache} has no locks.* try BERT_TF_CACHE=FOLDER"):
        _read("memory://bucket/name")
