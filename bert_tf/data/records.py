"""TFRecord files of `tf.train.Example`: one feature table, a vectorised writer, random access.

A shard is a TFRecord file (`.tfrecord`) with an index beside it (`.index.npz`): `offsets`, where
each record begins and the last one ends, `num_tokens`, the real tokens of each, its `pair_labels`,
where there are any, and `used_tokens`, how many of the text are in a record, and of how many.
"""

import functools
import os
import struct
import zipfile
import zlib

import numpy as np
import tensorflow as tf

from bert_tf.data.crc32c import masked_crc32c
from bert_tf.errors import BertTfError, explain
from bert_tf.storage import files, local_copies, object_store
from bert_tf.storage.staging import CacheFullError

# Labels by what the second segment is: 1 where it is random, or was swapped with the first.
PAIR_LABELS = {"random": "next_sentence_labels", "swapped": "sentence_order_labels"}
_SEQUENCE_ALIASES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
# google-research/albert knows sentence order labels under the other name, with the same meaning.
_ALIASES = {**_SEQUENCE_ALIASES, "sentence_order_labels": "next_sentence_labels"}
_INDEX = ("offsets", "num_tokens", "pair_labels")
_FRAME = 16  # bytes around a record
_OPEN_FILES = 256
_AGAIN = "deleting its folder, which the same command then makes again"


def feature_table(masking, label, seq_length, max_predictions_per_seq):
    """Return the features of a record: `{name: (dtype, length)}`, length None where it varies.

    Dynamic records hold the unmasked tokens, unpadded. Static records have the names and padding
    of tf-models-official (`official/nlp/data/create_pretraining_data.py`), in both versions of
    its names; google-research/albert reads them too. `label` is one of `PAIR_LABELS` or None.
    """
    if masking == "dynamic":
        table = dict.fromkeys(("input_word_ids", "input_type_ids", "word_starts"),
                              (np.int64, None))
    else:
        table = dict.fromkeys(("input_mask", *_SEQUENCE_ALIASES, *_SEQUENCE_ALIASES.values()),
                              (np.int64, seq_length))
        table |= {"masked_lm_positions": (np.int64, max_predictions_per_seq),
                  "masked_lm_ids": (np.int64, max_predictions_per_seq),
                  "masked_lm_weights": (np.float32, max_predictions_per_seq)}
    if label:
        table[label] = (np.int64, 1)
        if masking == "static" and label in _ALIASES:
            table[_ALIASES[label]] = table[label]
    return table


def parse(table, records):
    """Parse serialised records, string `[batch]` -> `{name: tensor}`: int32 or float32 `[batch,
    length]`, or a RaggedTensor where the length varies."""
    names = set(table) - {alias for name, alias in _ALIASES.items() if name in table}
    features = {
        name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) if length is None
        else tf.io.FixedLenFeature([length], tf.as_dtype(dtype))
        for name, (dtype, length) in table.items() if name in names}
    parsed = tf.io.parse_example(records, features)
    return {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in parsed.items()}


# Rows of different lengths are pairs (flat values, lengths) here.

def concatenate(pieces):
    """Join `pieces`, each of the same number of rows, row by row."""
    lengths = np.stack([piece_lengths for _, piece_lengths in pieces], axis=1)
    ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
    joined = np.empty(ends[-1, -1] if lengths.size else 0, pieces[0][0].dtype)
    for column, (values, piece_lengths) in enumerate(pieces):
        shift = ends[:, column] - np.cumsum(piece_lengths)
        joined[np.arange(len(values)) + np.repeat(shift, piece_lengths)] = values
    return joined, lengths.sum(axis=1)


def take(rows, index):
    """Return the rows at `index`, in that order."""
    values, lengths = rows
    starts = np.cumsum(lengths) - lengths
    taken = lengths[index]
    shift = starts[index] - (np.cumsum(taken) - taken)
    return values[np.arange(taken.sum()) + np.repeat(shift, taken)], taken


def _varints(values, lengths):
    """Encode rows of non-negative integers as rows of protocol-buffer varints (uint8)."""
    sizes = np.ones(len(values), np.int64)
    for shift in range(7, int(values.max(initial=0)).bit_length(), 7):
        sizes += values >> shift > 0
    width = sizes.max(initial=1)
    if width == 1:
        return values.astype(np.uint8), lengths
    groups = np.empty((len(values), width), np.uint8)
    for place in range(width):
        groups[:, place] = values >> 7 * place & 127 | (sizes > place + 1) * 128
    ends = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([[0], np.cumsum(lengths)])
    return groups[np.arange(width) < sizes[:, None]], np.diff(ends[rows])


def _varint(value):
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _field(number, content_size):
    """Return the head of a length-delimited protocol-buffer field."""
    return _varint(number << 3 | 2) + _varint(content_size)


@functools.lru_cache(1 << 16)
def _feature_head(name, dtype, size):
    """Return the bytes before `size` bytes of packed values in an entry of the map of features."""
    values = _field(1, size)  # Int64List.value or FloatList.value
    kind = _field(3 if dtype == np.int64 else 2, len(values) + size)  # Feature.int64_list, ….
    key = _field(1, len(name)) + name.encode()
    entry = key + _field(2, len(kind) + len(values) + size)
    content = len(entry) + len(kind) + len(values) + size
    return _field(1, content) + entry + kind + values  # Features.feature


def _heads(make, sizes):
    """Return the rows `make(size)` for every size."""
    distinct, index = np.unique(sizes, return_inverse=True)
    heads = [make(int(size)) for size in distinct]
    table = np.frombuffer(b"".join(heads), np.uint8), np.array([len(head) for head in heads])
    return take(table, index)


def serialize(table, columns):
    """Serialize the examples to rows of bytes, one `tf.train.Example` each.

    Args:
        table: from `feature_table`.
        columns: `{name: (flat values, lengths)}` of the table's types; integers are not negative.
    """
    pieces, packed = [], {}
    for name, (values, lengths) in columns.items():
        if values.dtype.kind == "f":
            packed[name] = np.ascontiguousarray(values, "<f4").view(np.uint8), 4 * lengths
        else:
            packed[name] = _varints(values, lengths)
    packed |= {alias: packed[name] for name, alias in _ALIASES.items() if name in packed}
    for name in sorted(table):
        head = functools.partial(_feature_head, name, table[name][0])
        pieces += [_heads(head, packed[name][1]), packed[name]]
    sizes = sum(lengths for _, lengths in pieces)
    return concatenate([_heads(functools.partial(_field, 1), sizes), *pieces])


def _fixed(array):
    """Return the bytes of each element as a row."""
    return array.view(np.uint8), np.full(len(array), array.itemsize)


def frame(rows):
    """Return rows of bytes in the TFRecord frame: length, its checksum, data, its checksum."""
    size = rows[1].astype("<u8")
    return concatenate([_fixed(size), _fixed(masked_crc32c(_fixed(size)).astype("<u4")), rows,
                        _fixed(masked_crc32c(rows).astype("<u4"))])


def index_path(path):
    """Return the path of the index of the shard at `path`."""
    return path.removesuffix(".tfrecord") + ".index.npz"


def write_shard(path, blocks, num_tokens, pair_labels, used_tokens=(0, 0)):
    """Write a shard and its index; the shard appears last, whole.

    Args:
        path: ends in `.tfrecord`.
        blocks: rows of framed records, in order.
        num_tokens: int `[records]`, real tokens of each record.
        pair_labels: int `[records]`, or empty.
        used_tokens: see `pairing.used_tokens`.
    """
    sizes = np.concatenate([[0], *(lengths for _, lengths in blocks)])
    with files.atomic_path(index_path(path)) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, offsets=np.cumsum(sizes), num_tokens=np.asarray(num_tokens, np.int32),
                 pair_labels=np.asarray(pair_labels, np.int8),
                 used_tokens=np.asarray(used_tokens, np.int64))
    with files.atomic_path(path) as temporary, open(temporary, "wb") as stream:
        for data, _ in blocks:
            stream.write(data.tobytes())


def read_index(path):
    """Read the index of the shard at `path`: dict of `offsets` int64 `[records + 1]`, `num_tokens`
    int32 `[records]`, `pair_labels` int8 `[records]` or `[0]`, `used_tokens` int64 `[2]`, zeros
    in an index without it.

    Raises:
        BertTfError: the index is damaged or the shard has another size than it states.
    """
    index = index_path(path)
    if not files.exists(index):
        raise BertTfError(explain(f"{index} is missing", attempt=_AGAIN))
    try:
        with files.explained("read", index), files.open_stored(index) as stream, \
                np.load(stream, allow_pickle=False) as arrays:
            used = arrays["used_tokens"] if "used_tokens" in arrays else np.zeros(2, np.int64)
            arrays = {**{name: arrays[name] for name in _INDEX}, "used_tokens": used}
        _check_index(**arrays)
        offsets = arrays["offsets"]
    except (ValueError, KeyError, TypeError, EOFError, RuntimeError, MemoryError, zlib.error,
            struct.error, zipfile.BadZipFile) as error:
        raise BertTfError(explain(f"{index} is damaged: {error}", attempt=_AGAIN)) from error
    if not files.exists(path):
        raise BertTfError(explain(f"{path} is missing", attempt=_AGAIN))
    if files.size(path) != offsets[-1]:
        whole = int(np.searchsorted(offsets, files.size(path), "right")) - 1
        raise BertTfError(explain(f"{path} record {whole}: the file ends after "
                                  f"{files.size(path)} bytes", f"{offsets[-1]} bytes",
                                  _AGAIN))
    return arrays


def _check_index(offsets, num_tokens, pair_labels, used_tokens):
    """Raise ValueError unless the arrays are of a shard's records."""
    for array in (offsets, num_tokens, pair_labels, used_tokens):
        if not isinstance(array, np.ndarray):  # numpy gives what is no array as bytes
            raise ValueError("a part that is no array")
        if array.ndim != 1 or array.dtype.kind != "i":
            raise ValueError(f"an array {array.dtype} {array.shape}")
    count = len(offsets) - 1
    if count < 0 or len(num_tokens) != count or len(pair_labels) not in (0, count) or (
            len(used_tokens) != 2):
        raise ValueError("arrays of different lengths")
    if offsets[0] or offsets.min() < 0 or (offsets[1:] - _FRAME <= offsets[:-1]).any():
        raise ValueError("records that overlap")


class Records:
    """Random access to the records of several shards, numbered through from 0.

    Args:
        paths: the shards.

    Raises:
        BertTfError: a shard or its index is missing or damaged.
    """

    def __init__(self, paths):
        self.paths = list(paths)
        self.offsets = [index["offsets"] for index in files.each(read_index, self.paths)]
        self.first = np.cumsum([0, *(len(offsets) - 1 for offsets in self.offsets)])
        self._open = functools.lru_cache(_OPEN_FILES)(local_copies.opener())
        total = sum(int(offsets[-1]) for offsets in self.offsets)
        # What the cache cannot hold is not fetched in whole shards, again and again.
        self._in_ranges = bool(self.paths) and not local_copies.fits_local(self.paths[0], total)

    def __len__(self):
        return int(self.first[-1])

    def read(self, index):
        """Read the records at `index`, int64 `[n]` -> list of bytes; checksums are checked.

        Raises:
            BertTfError: a record is damaged; its file and its number there are named.
        """
        shards = np.searchsorted(self.first, index, "right") - 1
        positions = [(int(shard), int(record)) for shard, record in
                  zip(shards, index - self.first[shards], strict=True)]
        framed = self._ranges(positions) if self._in_ranges else [
            self._frame(*position) for position in positions]
        records = [data[12:-4] for data in framed]
        lengths = np.array([len(record) for record in records])
        sums = masked_crc32c((np.frombuffer(b"".join(records), np.uint8), lengths))
        for position, data, length, right in zip(positions, framed, lengths, sums, strict=True):
            if data[:8] != int(length).to_bytes(8, "little") or data[-4:] != right.tobytes():
                path, record = self.paths[position[0]], position[1]
                raise BertTfError(explain(f"{path} record {record} is damaged",
                                          attempt=_AGAIN))
        return records

    def _frame(self, shard, record):
        path = self.paths[shard]
        start, end = self.offsets[shard][record:record + 2].tolist()
        with files.explained("read", path):
            try:
                stream = self._open(path)  # held: another thread may push it out of the cache
            except CacheFullError:  # of what other processes use
                return self._ranges([(shard, record)])[0]
            data = os.pread(stream.fileno(), end - start, start)
        return data if len(data) == end - start > _FRAME else bytes(_FRAME + 1)

    def _ranges(self, positions):
        """Read `_frame` of several positions, requested at once."""
        ranges = [(self.paths[shard], *self.offsets[shard][record:record + 2].tolist())
                  for shard, record in positions]
        return [data if len(data) == end - start > _FRAME else bytes(_FRAME + 1)
                for (_, start, end), data
                in zip(ranges, object_store.read_ranges(ranges), strict=True)]
