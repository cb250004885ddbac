"""The one string in a TF2 checkpoint, its object graph, read without trusting its length.

TensorFlow's own reader allocates what the string claims to take, and crashes where that is too
much. The index is a sorted string table (`tensorflow/core/lib/io/table_format.txt`) of
`BundleEntryProto`; a string stands in the data file as its length, four bytes of checksum and its
bytes (`tensorflow/core/util/tensor_bundle`).
"""

from bert_tf import files
from bert_tf.errors import BertTfError

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48
_CHECKSUM = 4


def read_string(prefix, name):
    """The bytes of the scalar string tensor `name` in the checkpoint `prefix`.

    Raises:
        BertTfError: it is not there, or the checkpoint is damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

    try:
        entries = dict(_table(_read(prefix + ".index")))
        header = BundleHeaderProto.FromString(entries[b""])
        entry = BundleEntryProto.FromString(entries[name.encode()])
        path = f"{prefix}.data-{entry.shard_id:05d}-of-{header.num_shards:05d}"
        if not 0 <= entry.offset <= entry.offset + entry.size <= files.size(path):
            raise ValueError("an entry ends behind its data")
        with files.open_binary(path) as stream:
            stream.seek(entry.offset)
            data = stream.read(entry.size)
        length, start = _number(data, 0)
        if start + _CHECKSUM + length != len(data):
            raise ValueError("a string is longer than its place")
        return data[start + _CHECKSUM:]
    except (DecodeError, IndexError, KeyError, ValueError) as error:
        raise BertTfError(f"checkpoint {prefix} is damaged: {name}: {error}") from error


def _read(path):
    with files.explained("read", path), files.open_binary(path) as stream:
        return stream.read()


def _table(table):
    """Yield the keys and values of a sorted string table."""
    if table[-len(_MAGIC):] != _MAGIC:
        raise ValueError("no index")
    footer = table[-_FOOTER:]
    index = _block(table, *_handle(footer, _handle(footer, 0)[2])[:2])
    for _, handle in index:
        yield from _block(table, *_handle(handle, 0)[:2])


def _block(table, offset, size):
    """The keys and values of a block, each key given by what differs from the one before."""
    block = table[offset:offset + size]
    if len(block) != size or table[offset + size] != 0:
        raise ValueError("an index that is cut or compressed")
    restarts = int.from_bytes(block[-4:], "little")
    pairs, key, at = [], b"", 0
    while at < size - 4 * (restarts + 1):
        shared, at = _number(block, at)
        own, at = _number(block, at)
        length, at = _number(block, at)
        key = key[:shared] + block[at:at + own]
        pairs.append((key, block[at + own:at + own + length]))
        at += own + length
    return pairs


def _handle(data, at):
    """Offset and size of a block, and where in `data` they end."""
    offset, at = _number(data, at)
    size, at = _number(data, at)
    return offset, size, at


def _number(data, at):
    """A number in base 128, lowest digit first, and where it ends."""
    number = shift = 0
    while data[at] & 128 and shift < 63:
        number |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return number | (data[at] & 127) << shift, at + 1
