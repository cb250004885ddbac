"""Hostile checkpoints: nothing is allocated for what they claim, and TensorFlow never sees it."""

import numpy as np
import pytest
import tensorflow as tf
from harness import takes_at_most
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

from bert_tf.errors import BertTfError
from bert_tf.storage import tensor_bundle, variables


@pytest.fixture
def checkpoint(tmp_path):
    """A function that changes the index of a checkpoint, checksum included: its prefix."""

    def spoil(before, after):
        prefix = str(tmp_path / "model")
        variables.write_variables(prefix, {"weights": np.zeros((128, 128, 2), np.float32)})
        index = bytearray((tmp_path / "model.index").read_bytes())
        # The first block ends with where its keys start, once, and its type, 0.
        end = index.index(b"\0\0\0\0\1\0\0\0\0", index.index(b"weights")) + 9
        assert before in index[:end] and len(before) == len(after)
        index[:end] = index[:end].replace(before, after)
        index[end:end + 4] = masked_checksum(bytes(index[:end]), tmp_path)
        (tmp_path / "model.index").write_bytes(index)
        return prefix

    return spoil


def masked_checksum(data, folder):
    """The checksum that TensorFlow's files use, from a record written by TensorFlow."""
    path = str(folder / "record")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(data)
    with open(path, "rb") as stream:
        return stream.read()[-4:]


def test_what_tensorflow_writes_is_read_as_tensorflow_reads_it(tmp_path):
    prefix = str(tmp_path / "model")
    text = tf.Variable("a string of some length " * 20)
    tf.train.Checkpoint(**{f"v{i}": tf.Variable(np.full((i, 3), i, np.float32))
                           for i in range(300)}, text=text).write(prefix)
    entries, theirs = tensor_bundle.read_index(prefix), tf.train.load_checkpoint(prefix)
    assert {name: list(entry.shape) for name, entry in entries.items()} == (
        theirs.get_variable_to_shape_map())
    assert {name: entry.dtype for name, entry in entries.items()} == (
        theirs.get_variable_to_dtype_map())
    for name, entry in entries.items():
        if entry.dtype == tf.string:
            assert tensor_bundle.read_string(entry) == theirs.get_tensor(name)
    with pytest.raises(BertTfError, match="which is no number"):
        variables.read_variables(prefix)


def test_an_index_that_claims_gigabytes_is_refused_before_they_are_allocated(checkpoint):
    prefix = checkpoint(b"\x80\x01", b"\xff\x7f")  # 128 in base 128, and 16,383
    assert tf.train.load_checkpoint(prefix).get_variable_to_shape_map() == {
        "weights": [16383, 16383, 2]}
    with takes_at_most(100_000), pytest.raises(
            BertTfError, match=r"weights \(16383, 16383, 2\) takes 2147221512 .*131072"):
        variables.read_variables(prefix)


@pytest.mark.parametrize(("before", "after"), [
    (b"\x12\x03\x08\x80", b"\x12\x7f\x08\x80"),  # an entry that TensorFlow aborts on
    (b"weights\x08\x01", b"weights\x08\x7f"),  # a type that TensorFlow aborts on
    (b"weights", b"weig\nts"), (b"weights", b"weig\xffts"),
])
def test_an_index_that_makes_no_sense_is_one_clear_line(checkpoint, before, after):
    with pytest.raises(BertTfError, match="is damaged: its index cannot be read$"):
        variables.read_variables(checkpoint(before, after))


def _number(value):
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _block(entries):
    """A block of `(shared, rest of the key, value)`, with its type and checksum."""
    return b"".join(
        _number(shared) + _number(len(rest)) + _number(len(value)) + rest + value
        for shared, rest, value in entries) + bytes(4) + b"\1\0\0\0" + bytes(5)


def _write_index(prefix, blocks):
    data, handles = b"", []
    for block in blocks:
        handles.append((0, b"%05d" % len(handles), _number(len(data)) + _number(len(block) - 5)))
        data += block
    index = _block(handles)
    footer = bytes(2) + _number(len(data)) + _number(len(index) - 5)
    with open(f"{prefix}.index", "wb") as stream:
        stream.write(data + index + footer.ljust(40, b"\0") + tensor_bundle._MAGIC)


def test_keys_without_end_are_not_held_however_many_blocks_they_are_in(tmp_path):
    _write_index(tmp_path / "model", [
        _block([(0, b"%05d" % number * 2000, b""),
                *((10_000, b"%04d" % key, b"") for key in range(4_000))]) for number in range(5)])
    with takes_at_most(130_000), pytest.raises(
            BertTfError, match="is damaged: its index cannot be read$"):
        tensor_bundle.read_index(str(tmp_path / "model"))


def test_tensors_that_share_bytes_are_refused(tmp_path):
    entry = BundleEntryProto(dtype=1, size=4096, shape={"dim": [{"size": 1024}]})
    _write_index(tmp_path / "model", [_block([
        (0, b"", BundleHeaderProto(num_shards=1).SerializeToString()),
        *((0, b"layer_%d" % i, entry.SerializeToString()) for i in range(3))])])
    (tmp_path / "model.data-00000-of-00001").write_bytes(bytes(4096 * 2))
    with pytest.raises(BertTfError, match=r"tensors of 12288 bytes overlap in .* of 8192 bytes"):
        tensor_bundle.read_index(str(tmp_path / "model"))
