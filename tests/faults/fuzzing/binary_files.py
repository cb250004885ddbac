"""Weights of all formats, and examples as bert_tf and others store them."""

import io
import json
import math
import os
import pickle

from fuzzing.target import Bytes, Target, bytes_or_json, folder, json_seeds, write

INDEX = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors"}}


def _safetensors():
    from bert_tf.converters import safetensors_file

    def check(data):
        tensors = safetensors_file.read_file(write("fuzz.safetensors", data))
        for name, shape in tensors.shapes.items():
            assert tensors[name].shape == shape

    return check


def _shards():
    from bert_tf.converters import safetensors_file, weight_files

    inside = os.path.join(folder(), "shards")
    os.makedirs(inside, exist_ok=True)
    for name in ("shards/model-1.safetensors", "outside.safetensors"):
        write(name, _safetensors_seed())

    def check(data):
        write(f"shards/{safetensors_file.INDEX}", bytes_or_json((INDEX,), data))
        tensors = weight_files.read_folder(inside)
        assert all(tensors[name].shape == tensors.shapes[name] for name in tensors)

    return check


def _torch():
    """A whole archive of any bytes, and a sound one with a pickle of any bytes."""
    from bert_tf.converters import tensor_pickle, torch_file

    def check(data):
        if data[:1] == b"\0":
            for record in tensor_pickle.read_records(io.BytesIO(data[1:]), "fuzz").values():
                assert math.prod(record.shape) <= record.storage.size
            return
        pickled = data[1:] if data[:1] == b"\1" else None
        path = write("fuzz.bin", torch_seed(pickled) if pickled is not None else data)
        tensors = torch_file.read_file(path)
        for name, shape in tensors.shapes.items():
            assert tensors[name].shape == shape

    return check


def torch_seed(pickled=None):
    """An archive as `torch.save` writes it, with two tensors of one storage."""
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/data.pkl", torch_pickle() if pickled is None else pickled)
        archive.writestr("m/byteorder", "little")
        archive.writestr("m/data/0", bytes(24))
    return stream.getvalue()


def old_torch_seed(pickled=None, order="little", keys=b"0", numbers=bytes(24), count=6):
    """The same as PyTorch wrote it until 1.5, of one storage."""
    parts = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001,
                                            "little_endian": order == "little"})
    return b"".join((*(pickle.dumps(part, 2) for part in parts), pickled or torch_pickle(last=b"N"),
                     pickle.dumps([key.decode() for key in keys.split()], 2),
                     count.to_bytes(8, "little"), numbers))


def torch_pickle(name=b"ctorch._utils\n_rebuild_tensor_v2\n", offset=0, size=b"K\x02K\x03\x86",
                 strides=b"K\x03K\x01\x86", key=b"0", numbers=6, storage=b"FloatStorage", last=b""):
    """The pickle of one tensor, instruction by instruction."""
    def text(value):
        return b"X" + len(value).to_bytes(4, "little") + value

    return (b"\x80\x02}q\x00(" + text(b"a") + name + b"((" + text(b"storage") + b"ctorch\n"
            + storage + b"\n" + text(key) + text(b"cpu") + b"K" + bytes([numbers]) + last + b"tQK"
            + bytes([offset]) + size + strides + b"\x89ccollections\nOrderedDict\n)RtR" + b"u.")


def _tensor_bundle():
    from bert_tf.storage import tensor_bundle

    def check(data):
        prefix = write("bundle.index", data).removesuffix(".index")
        for entry in tensor_bundle.read_index(prefix).values():
            assert entry.offset + entry.size <= os.path.getsize(entry.path)
            if math.prod(entry.shape) == 1 and not entry.dtype.size:
                tensor_bundle.read_string(entry)

    write("bundle.data-00000-of-00001", bytes(range(256)))
    return check


def _hdf5():
    from bert_tf.converters import hdf5_file

    def check(data):
        hdf5_file.array_shapes(write("fuzz.h5", data))

    return check


def _index():
    """The index of a shard, as a file of any bytes and as arrays of any values."""
    import numpy as np

    from bert_tf.data import records

    shard = write("fuzz.tfrecord", _shard())
    dtypes = ("<i8", "<i4", "<f8", "<u8", "?", "<i1", "<M8[s]", "<U1", "<c16")

    def check(data):
        data = Bytes(data)
        if data.byte() % 2:
            write("fuzz.index.npz", data.rest)
        else:
            arrays = {}
            for name in ("offsets", "num_tokens", "pair_labels"):
                if data.byte() % 16 == 15:
                    continue
                dtype, size = np.dtype(dtypes[data.byte() % 64 % len(dtypes)]), data.byte() % 8
                values = np.frombuffer(data.rest[:size * dtype.itemsize].ljust(
                    size * dtype.itemsize, b"\0"), dtype)
                data.rest = data.rest[size * dtype.itemsize:]
                arrays[name] = values.reshape(1, -1) if data.byte() % 16 == 15 else values
            stream = io.BytesIO()
            np.savez(stream, **arrays)
            write("fuzz.index.npz", stream.getvalue())
        read = records.Records([shard])
        if len(read):
            read.read(np.arange(len(read))[:4])

    return check


def _records():
    """A shard of any bytes after a sound index: whole records come out, or an error."""
    import numpy as np

    from bert_tf.data import records

    offsets = np.cumsum([0, 20, 30, 40])
    stream = io.BytesIO()
    np.savez(stream, offsets=offsets, num_tokens=np.ones(3, np.int32),
             pair_labels=np.zeros(0, np.int8))
    write("whole.index.npz", stream.getvalue())

    def check(data):
        path = write("whole.tfrecord", data)
        for record in records.Records([path]).read(np.arange(3)):
            assert record in data

    return check


def _examples():
    import tensorflow as tf

    from bert_tf.data import records
    from bert_tf.errors import BertTfError

    tables = [records.feature_table("dynamic", "next_sentence_labels", 8, 2),
              records.feature_table("static", None, 4, 2)]
    graphs = [tf.function(lambda given, table=table: records.parse(table, given),
                          input_signature=[tf.TensorSpec([1], tf.string)]) for table in tables]

    def check(data):
        choice = data[0] % 2 if data else 0
        try:
            parsed = graphs[choice](tf.constant([data[1:]]))
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            raise BertTfError("no example") from error  # as of explained_errors
        assert all(value.shape[0] == 1 for value in parsed.values())

    return check


def _safetensors_seed(shape=(2, 3)):
    header = json.dumps({"__metadata__": {"format": "pt"}, **{
        name: {"dtype": "F32", "shape": shape, "data_offsets": [24 * number, 24 * number + 24]}
        for number, name in enumerate("ab")}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(48)


def _shard():
    import numpy as np

    from bert_tf.data import records

    data, _ = records.frame((np.frombuffer(b"abcd" + b"e" * 14 + b"f" * 24, np.uint8),
                             np.array([4, 14, 24])))
    return data.tobytes()


def _index_seeds():
    import numpy as np

    stream = io.BytesIO()
    np.savez(stream, offsets=np.array([0, 20, 50, 90]), num_tokens=np.ones(3, np.int32),
             pair_labels=np.zeros(0, np.int8))
    return (b"\1" + stream.getvalue(), b"\0\0\0\4" + np.array([0, 20, 50, 90]).tobytes())


def _bundle_seed():
    from bert_tf.storage import variables

    prefix = os.path.join(folder(), "seed")
    variables.write_variables(prefix, {"a/b": [1.0, 2.0], "a/c": [[3]]})
    with open(prefix + ".index", "rb") as stream:
        return (stream.read(),)


def _hdf5_seed():
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("a/b", data=[1.0, 2.0])
    return (stream.getvalue(),)


def _example_seeds():
    import tensorflow as tf

    ids = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2, 3])) for name in (
        "input_word_ids", "input_type_ids", "word_starts")}
    ids["next_sentence_labels"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature=ids))
    return (b"\0" + example.SerializeToString(), b"\1" + example.SerializeToString())


TARGETS = (
    Target("safetensors", _safetensors, (_safetensors_seed(), _safetensors_seed(())), 300_000),
    Target("torch", _torch, lambda: (torch_seed(), old_torch_seed(), b"\0" + torch_pickle(),
                                     b"\1" + torch_pickle()), 300_000),
    Target("shards", _shards, json_seeds((INDEX,)), 200_000),
    Target("tensor_bundle", _tensor_bundle, _bundle_seed, 500_000),
    Target("hdf5", _hdf5, _hdf5_seed, 100_000, 4096),
    Target("index", _index, _index_seeds, 200_000, 1024),
    Target("records", _records, lambda: (_shard(), b""), 200_000),
    Target("examples", _examples, _example_seeds, 100_000),
)
