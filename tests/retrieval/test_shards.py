"""Shards as one array and one list: how many files and how much memory they take."""

import os
import resource
import tracemalloc

import numpy as np
import pytest

from bert_tf.errors import UnavailableError
from bert_tf.retrieval.corpus import Passage
from bert_tf.retrieval.shards import Codes, Passages, shard_name, write_shard
from bert_tf.storage import disk


def written(folder, count, rows, width=4):
    """Write shards of random vectors; return their paths and all vectors."""
    vectors = np.random.default_rng(0).normal(size=(count, rows, width)).astype(np.float32)
    paths = [str(folder / shard_name(number)) for number in range(count)]
    for path, part in zip(paths, vectors, strict=True):
        write_shard(path, [Passage("1", "text")] * rows, {"float32": part}, {})
    return paths, vectors.reshape(-1, width)


@pytest.fixture
def shards(tmp_path):
    """Some of one passage, while the process may open one further file unless it raises that
    limit."""
    made, before = written(tmp_path, 4, 1), resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)  # the lowest number that is free
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, before[1]))
    yield made
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_shards_than_files_may_be_open_by_default(shards):
    paths, vectors = shards
    passages = Passages(paths)
    codes = Codes(paths, "float32", np.asarray)
    assert len(passages) == 4 and passages[3] == Passage("1", "text")
    np.testing.assert_array_equal(codes[:], vectors)


def test_a_system_that_says_unlimited_and_means_fewer(shards, monkeypatch):
    """As macOS does."""
    given = []

    def set_limit(_, limits):
        given.append(limits)
        if limits[0] != 10240:
            raise ValueError("current limit exceeds maximum limit")

    with monkeypatch.context() as patched, pytest.raises(UnavailableError):
        patched.setattr(resource, "getrlimit", lambda _: (256, 1 << 62))
        patched.setattr(resource, "setrlimit", set_limit)
        Passages(shards[0])
    assert given == [(1 << 62, 1 << 62), (10240, 1 << 62)]


def test_where_the_limit_cannot_be_raised_it_is_named(shards, monkeypatch):
    with monkeypatch.context() as patched, pytest.raises(UnavailableError, match="ulimit -n"):
        patched.setattr(resource, "setrlimit", lambda *_: None)
        Passages(shards[0])


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def opened(_, mode):
        return open("/dev/full", mode)

    monkeypatch.setattr(disk, "open", opened, raising=False)
    with pytest.raises(UnavailableError, match="shard-00000: the disk is full .*; try freeing"):
        written(tmp_path, 1, 5000)
    assert not list(tmp_path.iterdir())


def test_vectors_of_several_shards_are_in_memory_once(tmp_path):
    paths, vectors = written(tmp_path, 8, 500, 64)
    codes = Codes(paths, "float32", np.asarray)
    for rows in (slice(100, 3900), np.arange(0, 4000, 2), np.arange(0), slice(10, 20)):
        tracemalloc.start()
        found = codes[rows]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(found, vectors[rows], strict=True)
        assert peak < 1.4 * found.nbytes + 50_000
