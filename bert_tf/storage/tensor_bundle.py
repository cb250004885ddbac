"""The index of a TensorFlow checkpoint, read without trusting it.

TensorFlow's own reader allocates what an index claims, and aborts the process on entries that it
cannot parse. The index is a sorted string table (`tensorflow/core/lib/io/table_format.txt`) of
`BundleEntryProto`, one a tensor; a string stands in a data file as its length, four bytes of
checksum and its bytes (`tensorflow/core/util/tensor_bundle`).
"""

import math
from typing import NamedTuple

from bert_tf.errors import BertTfError
from bert_tf.storage import files

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48
_CHECKSUM = 4
_MOST_KEY_BYTES = 1 << 26
_LAST_DTYPE = 100  # those after are references to variables


class Entry(NamedTuple):
    """The location of a tensor."""

    shape: tuple[int, ...]
    dtype: object  # tf.DType
    path: str  # the data file
    offset: int  # in bytes
    size: int  # in bytes


def read_index(prefix):
    """Read `{name: Entry}` of the checkpoint `prefix`, in the order of the names.

    Raises:
        BertTfError: no checkpoint there, it is damaged, or a tensor takes more space than its data
            file has.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

    if not files.exists(prefix + ".index"):
        raise BertTfError(f"no checkpoint at {prefix}: {prefix}.index is missing")
    with files.explained("read", prefix), files.open_binary(prefix + ".index") as stream:
        data = stream.read()
    try:
        table = dict(_table(data))
        header = BundleHeaderProto.FromString(table.pop(b""))
        protos = {name.decode(): BundleEntryProto.FromString(value)
                  for name, value in table.items()}
        if not all(name.isprintable() for name in protos):
            raise ValueError("names that are no text")
        entries = {name: _entry(prefix, header, proto) for name, proto in protos.items()}
    except (DecodeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BertTfError(f"checkpoint {prefix} is damaged: its index cannot be read") from error
    _check_sizes(prefix, entries)
    return entries


def read_string(entry):
    """Read the bytes of a scalar string tensor.

    Raises:
        BertTfError: the string claims another length than its entry has.
    """
    with files.explained("read", entry.path), files.open_binary(entry.path) as stream:
        stream.seek(entry.offset)
        data = stream.read(entry.size)
    try:
        length, start = _number(data, 0)
    except IndexError:
        length, start = -1, 0
    if start + _CHECKSUM + length != len(data):
        raise BertTfError(f"{entry.path} is damaged: a string claims {length} bytes, its entry "
                          f"has {len(data)}")
    return data[start + _CHECKSUM:]


def _entry(prefix, header, proto):
    import tensorflow as tf

    shape = tuple(axis.size for axis in proto.shape.dim)
    if proto.slices or proto.shape.unknown_rank or min((*shape, proto.offset, proto.size)) < 0:
        raise ValueError("a tensor in slices or of unknown shape")
    if proto.dtype > _LAST_DTYPE:
        raise ValueError("a type for which TensorFlow aborts")
    path = f"{prefix}.data-{proto.shard_id:05d}-of-{header.num_shards:05d}"
    return Entry(shape, tf.as_dtype(proto.dtype), path, proto.offset, proto.size)


def _check_sizes(prefix, entries):
    held = {path: files.size(path) for path in {entry.path for entry in entries.values()}}
    taken = dict.fromkeys(held, 0)
    for name, entry in entries.items():
        # A string takes a byte at least.
        size = max(math.prod(entry.shape) * (entry.dtype.size or 1), entry.size)
        if size > held[entry.path] - entry.offset:
            raise BertTfError(
                f"checkpoint {prefix} is damaged: {name} {entry.shape} takes {size} bytes from "
                f"byte {entry.offset} of a data file of {held[entry.path]} bytes")
        taken[entry.path] += size
    for path, size in taken.items():
        if size > held[path]:
            raise BertTfError(f"checkpoint {prefix} is damaged: tensors of {size} bytes overlap "
                              f"in {path} of {held[path]} bytes")


def _table(table):
    """Yield the keys and values of a sorted string table."""
    if table[-len(_MAGIC):] != _MAGIC:
        raise ValueError("no index")
    footer = table[-_FOOTER:]
    blocks = [_handle(handle, 0)[:2] for _, handle in
              _bounded(_block(table, *_handle(footer, _handle(footer, 0)[2])[:2]))]
    if sum(size for _, size in blocks) > len(table):
        raise ValueError("blocks that overlap")
    yield from _bounded(pair for block in blocks for pair in _block(table, *block))


def _bounded(pairs):
    """Yield `pairs` unless their keys, which a few bytes may repeat, are larger than any index
    has."""
    key_bytes = 0
    for key, value in pairs:
        key_bytes += len(key)
        if key_bytes > _MOST_KEY_BYTES:
            raise ValueError("keys without end")
        yield key, value


def _block(table, offset, size):
    """Yield the keys and values of a block, each key given by what differs from the one before."""
    block = table[offset:offset + size]
    if len(block) != size or table[offset + size] != 0:
        raise ValueError("a block that is truncated or compressed")
    end = size - 4 * (int.from_bytes(block[-4:], "little") + 1)
    key, at = b"", 0
    while at < end:
        shared, at = _number(block, at)
        own, at = _number(block, at)
        length, at = _number(block, at)
        if at + own + length > end:
            raise ValueError("a truncated entry")
        key = key[:shared] + block[at:at + own]
        yield key, block[at + own:at + own + length]
        at += own + length


def _handle(data, at):
    """Return offset and size of a block, and where in `data` they end."""
    offset, at = _number(data, at)
    size, at = _number(data, at)
    return offset, size, at


def _number(data, at):
    """Return a number in base 128, lowest digit first, and where it ends."""
    number = shift = 0
    while data[at] & 128 and shift < 63:
        number |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return number | (data[at] & 127) << shift, at + 1
