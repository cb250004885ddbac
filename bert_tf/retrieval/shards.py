"""Passages and arrays that they are found by, on disk in shards, mapped into memory: as one list,
as one array.

A shard is a folder that appears whole: arrays, such as `float32.npy`, `int8.npy` or `bits.npy` (and
`int8.npy`, to rescore by), row by row the codes of its passages; `passages.jsonl`; `offsets.npy`,
where its lines begin; `shard.json`, how they are stored; `checksums.json`.
"""

import contextlib
import dataclasses
import json
import mmap
import os
import resource

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.retrieval.codes import DTYPES
from bert_tf.retrieval.corpus import Passage
from bert_tf.storage import checksums, disk, files

_PASSAGES, _OFFSETS, _ABOUT = "passages.jsonl", "offsets", "shard.json"
_MACOS_FILES = 10240  # the most that macOS lets a process open, where its own limit says unlimited


def shard_name(number):
    """Return the name of a shard's folder."""
    return f"shard-{number:05d}"


def write_shard(path, passages, arrays, about):
    """Write a shard.

    Args:
        path: its folder.
        passages: list of `Passage`.
        arrays: `{name: array}`.
        about: what `shard_about` returns, a dict of plain values.
    """
    lines = [(json.dumps(dataclasses.asdict(passage), ensure_ascii=False) + "\n").encode()
             for passage in passages]
    offsets = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    with checksums.new_folder(path) as folder:
        for name, values in (arrays | {_OFFSETS: offsets}).items():
            with disk.open_for_array(os.path.join(folder, f"{name}.npy")) as stream:
                np.save(stream, values)
        files.write_bytes(os.path.join(folder, _PASSAGES), b"".join(lines))
        files.write_json(os.path.join(folder, _ABOUT), about)


def shard_about(path):
    """Return what a shard was written with."""
    return files.read_json_object(os.path.join(path, _ABOUT))


class Codes:
    """The codes of all shards as one array, `[n, width]`, whose rows are float32 when taken.

    Args:
        folders: of the shards, in order.
        precision: one of `PRECISIONS`.
        decode: function from codes to float32 vectors.
    """

    ndim = 2

    def __init__(self, folders, precision, decode):
        _allow_many_files()
        self.arrays = [mapped(folder, precision, DTYPES[precision], 2) for folder in folders]
        self.starts = np.cumsum([0, *map(len, self.arrays)])
        self.decode = decode

    def __len__(self):
        return int(self.starts[-1])

    @property
    def shape(self):
        """`(n, width)` of the vectors."""
        return len(self), self.decode(self.arrays[0][:1]).shape[1]

    def __getitem__(self, rows):
        """Return the vectors of a slice, or of an ascending array of rows."""
        if isinstance(rows, slice):
            start, end, _ = rows.indices(len(self))
            count = max(end - start, 0)
            parts = [(array, slice(max(start - begin, 0), end - begin))
                     for array, begin in zip(self.arrays, self.starts, strict=False)
                     if begin < end and start < begin + len(array)]
        else:
            count, ends = len(rows), np.searchsorted(rows, self.starts)
            parts = [(array, rows[first:last] - begin) for array, begin, first, last in zip(
                self.arrays, self.starts, ends, ends[1:], strict=False) if first < last]
        if len(parts) == 1:
            [(array, places)] = parts
            return self.decode(array[places])
        vectors, filled = np.empty((count, self.shape[1]), np.float32), 0
        for array, places in parts:  # so that many vectors are not in memory twice
            part = self.decode(array[places])
            vectors[filled:filled + len(part)] = part
            filled += len(part)
        return vectors


class Passages:
    """The passages of all shards, mapped like their vectors: as they were when it was made, also
    where the index is built again meanwhile.

    Args:
        folders: of the shards, in order.
    """

    def __init__(self, folders):
        _allow_many_files()
        self._paths = [os.path.join(folder, _PASSAGES) for folder in folders]
        self._lines = list(map(_mapped_bytes, self._paths))
        self._offsets = [mapped(folder, _OFFSETS, np.int64) for folder in folders]
        self._starts = np.cumsum([0, *(len(offsets) - 1 for offsets in self._offsets)])

    def __len__(self):
        return int(self._starts[-1])

    @property
    def sizes(self):
        """The number of passages of each shard."""
        return np.diff(self._starts).tolist()

    def __getitem__(self, row):
        """Return a `Passage`."""
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        start, end = self._offsets[shard][row - self._starts[shard]:][:2].tolist()
        try:
            return Passage(**json.loads(self._lines[shard][start:end]))
        except (TypeError, ValueError) as error:
            raise BertTfError(explain(f"{self._paths[shard]} is damaged at byte {start}",
                                      attempt="building the index again")) from error


def _allow_many_files():
    """Raise the limit of open files as far as the system lets a process: each one that is mapped
    counts."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (most, max(now, _MACOS_FILES)):
        with contextlib.suppress(ValueError, OSError):  # where that is more than the system has
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
            return


def _mapped_bytes(path):
    with files.explained("read", path), open(path, "rb") as stream:
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise BertTfError(f"{path} is damaged: {error}") from error


def mapped(folder, name, dtype, ndim=1):
    """Map an array of a shard; BertTfError where its file holds another one."""
    path = os.path.join(folder, f"{name}.npy")
    with files.explained("read", path):
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise BertTfError(f"{path} is damaged: {error}") from error
    if array.dtype != dtype or array.ndim != ndim:
        raise BertTfError(explain(f"{path}: {array.dtype} of {array.ndim} axes",
                                  f"{np.dtype(dtype)} of {ndim}", "building the index again"))
    return array
