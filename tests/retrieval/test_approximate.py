"""Nearest bits against all distances at once; what is wrong with a disk."""

import tracemalloc

import numpy as np
import pytest

from bert_tf.errors import UnavailableError
from bert_tf.retrieval import approximate
from bert_tf.retrieval.approximate import nearest_bits


@pytest.mark.parametrize("k", [3, 40, 5000])
def test_nearest_bits_of_many_shards(k):
    generator = np.random.default_rng(0)
    shards = list(generator.integers(0, 256, (64, 50, 4), dtype=np.uint8))
    shards.append(generator.integers(0, 256, (1, 4), dtype=np.uint8))
    queries = generator.integers(0, 256, (60, 4), dtype=np.uint8)
    nearest_bits(queries[:1], shards[:1], 1)  # imports what it needs
    tracemalloc.start()
    rows = nearest_bits(queries, shards, k)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    differing = np.bitwise_count(queries[:, None] ^ np.concatenate(shards)).sum(-1)
    assert rows.dtype == np.int64 and rows.shape == (60, min(k, 3201))
    np.testing.assert_array_equal(np.take_along_axis(differing, rows, 1),
                                  np.sort(differing, axis=1)[:, :k])
    if k == 5000:
        np.testing.assert_array_equal(rows, np.argsort(differing, axis=1, kind="stable"))
    else:  # of each shard the k nearest are not kept
        assert peak < 60 * (k + 50) * 50


def test_what_is_wrong_with_a_disk_is_told(tmp_path, monkeypatch):
    """faiss would raise a RuntimeError either way."""
    def full(_, mode):
        return open("/dev/full", mode)

    monkeypatch.setattr(approximate, "open", full, raising=False)
    path = str(tmp_path / "approximate.faiss")
    with pytest.raises(UnavailableError, match="approximate.faiss: the disk is full .*; try free"):
        approximate.build(np.eye(64, 32, dtype="float32"), path, 1)
    assert not list(tmp_path.iterdir())

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(approximate, "open", refused)
    with pytest.raises(UnavailableError, match="approximate.faiss: permission denied"):
        approximate.Approximate(path, 64)
