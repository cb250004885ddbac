"""Records against TensorFlow's own protocol buffers and TFRecord reader."""

import tracemalloc
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.data import records
from bert_tf.errors import BertTfError

ids = st.one_of(st.integers(0, 200), st.integers(0, 2**31 - 1))


def _ragged(rows, dtype=np.int64):
    return (np.array([value for row in rows for value in row], dtype),
            np.array([len(row) for row in rows]))


def _write(path, rows):
    data, lengths = _ragged([list(row) for row in rows], np.uint8)
    records.write_shard(str(path), [records.frame((data, lengths))], [1] * len(rows), [])
    return str(path)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(ids, max_size=40), min_size=1, max_size=5))
def test_dynamic_examples_parse_as_protocol_buffers(rows):
    table = records.feature_table("dynamic", "next_sentence_labels", 64, 10)
    labels = [[len(row) % 2] for row in rows]
    columns = {"input_word_ids": rows, "input_type_ids": [[0] * len(row) for row in rows],
               "word_starts": [[1] * len(row) for row in rows], "next_sentence_labels": labels}
    data, lengths = records.serialize(
        table, {name: _ragged(values) for name, values in columns.items()})
    serialized = [part.tobytes() for part in np.split(data, np.cumsum(lengths)[:-1])]
    for number, text in enumerate(serialized):
        example = tf.train.Example.FromString(text)
        assert set(example.features.feature) == set(columns)
        for name, values in columns.items():
            assert list(example.features.feature[name].int64_list.value) == values[number]
    parsed = records.parse(table, tf.constant(serialized))
    assert parsed["input_word_ids"].to_list() == rows


def test_static_examples_parse_as_protocol_buffers():
    table = records.feature_table("static", None, 4, 2)
    columns = {"input_word_ids": [[7, 300, 70_000, 0]], "input_mask": [[1, 1, 1, 0]],
               "input_type_ids": [[0, 0, 1, 0]], "masked_lm_positions": [[1, 0]],
               "masked_lm_ids": [[500, 0]]}
    columns = {name: _ragged(rows) for name, rows in columns.items()}
    columns["masked_lm_weights"] = _ragged([[1.0, 0.0]], np.float32)
    data, _ = records.serialize(table, columns)
    feature = tf.train.Example.FromString(data.tobytes()).features.feature
    assert set(feature) == set(table)
    assert feature["input_ids"] == feature["input_word_ids"]
    assert list(feature["segment_ids"].int64_list.value) == [0, 0, 1, 0]
    assert list(feature["masked_lm_weights"].float_list.value) == [1.0, 0.0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=2000), min_size=1, max_size=6))
def test_frame_is_what_tensorflow_writes(tmp_path_factory, rows):
    path = str(tmp_path_factory.mktemp("frame") / "expected.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for row in rows:
            writer.write(row)
    data, _ = records.frame(_ragged([list(row) for row in rows], np.uint8))
    with open(path, "rb") as stream:
        assert stream.read() == data.tobytes()


@pytest.mark.parametrize("sizes", [[4095, 4096, 4097], [3, 8192, 12_289, 1], [300_000]])
def test_frame_of_long_records_is_what_tensorflow_writes(tmp_path, sizes):
    draw = np.random.default_rng(0)
    rows = [draw.bytes(size) for size in sizes]
    with tf.io.TFRecordWriter(str(tmp_path / "expected")) as writer:
        for row in rows:
            writer.write(row)
    tracemalloc.start()
    data, _ = records.frame((np.frombuffer(b"".join(rows), np.uint8), np.array(sizes)))
    assert tracemalloc.get_traced_memory()[1] < 50_000_000  # whatever the longest one is
    tracemalloc.stop()
    assert (tmp_path / "expected").read_bytes() == data.tobytes()


def test_random_access_over_several_shards(tmp_path):
    first, second = [b"a", b"bb", b"ccc"], [b"dddd", b"e"]
    files = records.Records([_write(tmp_path / "0.tfrecord", first),
                             _write(tmp_path / "1.tfrecord", second)])
    assert len(files) == 5
    assert files.read(np.array([4, 0, 3, 2, 0])) == [b"e", b"a", b"dddd", b"ccc", b"a"]


@pytest.mark.parametrize("damage", ["content", "length", "checksum"])
def test_damaged_record_is_named(tmp_path, damage):
    path = _write(tmp_path / "0.tfrecord", [b"first", b"second", b"third"])
    start = records.read_index(path)["offsets"][1]
    place = start + {"length": 1, "content": 14, "checksum": 12 + len(b"second")}[damage]
    with open(path, "r+b") as stream:
        stream.seek(place)
        value = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([value ^ 4]))
    files = records.Records([path])
    assert files.read(np.array([0, 2])) == [b"first", b"third"]
    with pytest.raises(BertTfError, match=r"0\.tfrecord record 1 is damaged; try deleting"):
        files.read(np.array([2, 1]))


def test_short_and_missing_files_are_named(tmp_path):
    path = _write(tmp_path / "0.tfrecord", [b"first", b"second"])
    size = records.read_index(path)["offsets"][-1]
    with open(path, "r+b") as stream:
        stream.truncate(size - 3)
    with pytest.raises(BertTfError, match=r"0\.tfrecord record 1: the file ends"):
        records.Records([path])
    with open(records.index_path(path), "r+b") as stream:
        stream.truncate(100)
    with pytest.raises(BertTfError, match=r"0\.index\.npz is damaged"):
        records.Records([path])
    with pytest.raises(BertTfError, match="is missing; try"):
        records.Records([str(tmp_path / "1.tfrecord")])


@pytest.mark.parametrize("arrays", [
    {"offsets": []}, {"offsets": [[0, 90]]}, {"offsets": np.array([0, 90], "M8[s]")},
    {"offsets": [0.0, 90.0]}, {"offsets": [0, 1 << 62, 90], "num_tokens": [1, 1]},
    {"offsets": [0, 40, 20, 90], "num_tokens": [1] * 3}, {"offsets": [-20, 90]},
    {"offsets": [0, -(1 << 63), 90], "num_tokens": [1, 1]}, {"num_tokens": [1, 2]},
    {"num_tokens": [[1]]}, {"pair_labels": [0, 1]}, {"pair_labels": ["0"]}, {"used_tokens": [1]},
    {"offsets": None}, {"offsets": np.array([[1]], object)}])
def test_an_index_that_makes_no_sense(tmp_path, arrays):
    path = str(tmp_path / "0.tfrecord")
    (tmp_path / "0.tfrecord").write_bytes(bytes(90))
    arrays = {"offsets": [0, 90], "num_tokens": [1], "pair_labels": np.zeros(0, int), **arrays}
    np.savez(records.index_path(path), **{name: np.asarray(value) for name, value in arrays.items()
                                          if value is not None})
    with pytest.raises(BertTfError, match=r"0\.index\.npz is damaged: .*; try deleting"):
        records.Records([path])


def test_an_index_of_before_does_not_tell_what_was_used(tmp_path):
    path = _write(tmp_path / "0.tfrecord", [b"first", b"second"])
    index = records.read_index(path)
    del index["used_tokens"]
    np.savez(records.index_path(path), **index)
    assert records.read_index(path)["used_tokens"].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["offsets", "num_tokens", "pair_labels", "used_tokens"])
def test_an_index_with_a_part_that_is_no_array(tmp_path, name):
    path = _write(tmp_path / "0.tfrecord", [b"first", b"second"])
    with zipfile.ZipFile(records.index_path(path)) as index:
        parts = {part: index.read(part) for part in index.namelist()}
    with zipfile.ZipFile(records.index_path(path), "w") as index:
        for part, data in parts.items():
            index.writestr(part, b"no array" if part == f"{name}.npy" else data)
    with pytest.raises(BertTfError, match=r"0\.index\.npz is damaged: a part that is no array"):
        records.Records([path])
