"""`pytorch_model.bin`: the numbers of real ones, and what is no list of tensors is refused."""

import io
import json
import os
import pickle
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest
from fuzzing.binary_files import old_torch_seed, torch_pickle, torch_seed
from safetensors.numpy import load_file, save_file

from bert_tf.converters import safetensors_file, tensor_pickle, torch_file, weight_files
from bert_tf.errors import BertTfError


def archive(pickled, storages=None, compression=zipfile.ZIP_STORED, **others):
    """The bytes of an archive with a pickle and storages `{key: bytes}`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as parts:
        parts.writestr("archive/data.pkl", pickled)
        for key, data in (storages or {"0": np.arange(6, dtype="<f4").tobytes()}).items():
            parts.writestr(f"archive/data/{key}", data)
        for name, data in others.items():
            parts.writestr(f"archive/{name}", data)
    return stream.getvalue()


def read(tmp_path, data):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(data)
    return torch_file.read_file(str(path))


def test_a_published_folder(shared):
    """Names, shapes and the ties of a real one; its numbers are those of the expected states."""
    folder = shared / "reference" / "hub" / "bert_bin"
    tensors = weight_files.read_folder(str(folder))
    assert tensors.shapes["bert.embeddings.word_embeddings.weight"] == (600, 36)
    assert len(tensors) == 60
    np.testing.assert_array_equal(tensors["cls.predictions.decoder.weight"],
                                  tensors["bert.embeddings.word_embeddings.weight"])
    with zipfile.ZipFile(folder / "pytorch_model.bin") as parts:
        first = np.frombuffer(parts.read("pytorch_model/data/0"), "<f4").reshape(600, 36)
    np.testing.assert_array_equal(tensors["bert.embeddings.word_embeddings.weight"], first)


@pytest.mark.parametrize(("storage", "dtype"), [
    (b"FloatStorage", np.float32), (b"DoubleStorage", np.float64), (b"HalfStorage", np.float16),
    (b"BFloat16Storage", ml_dtypes.bfloat16)])
def test_float_types_and_strided_parts_of_storages(tmp_path, storage, dtype):
    numbers = np.arange(6).astype(dtype)
    data = {"0": numbers.tobytes()}
    whole = read(tmp_path, archive(torch_pickle(storage=storage), data))["a"]
    assert whole.dtype == np.float32 and whole.tolist() == [[0, 1, 2], [3, 4, 5]]
    turned = torch_pickle(storage=storage, size=b"K\x03K\x02\x86", strides=b"K\x01K\x03\x86")
    assert read(tmp_path, archive(turned, data))["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    part = torch_pickle(storage=storage, offset=4, size=b"K\x02\x85", strides=b"K\x01\x85")
    assert read(tmp_path, archive(part, data))["a"].tolist() == [4, 5]
    empty = torch_pickle(storage=storage, offset=6, size=b"K\x00\x85", strides=b"K\x01\x85")
    assert read(tmp_path, archive(empty, data))["a"].shape == (0,)
    scalar = torch_pickle(storage=storage, offset=5, size=b")", strides=b")")
    assert read(tmp_path, archive(scalar, data))["a"] == 5


def test_integers_have_shapes_but_are_no_weights(tmp_path):
    data = archive(torch_pickle(storage=b"LongStorage"), {"0": np.arange(6).tobytes()})
    tensors = read(tmp_path, data)
    assert tensors.shapes == {"a": (2, 3)}
    with pytest.raises(BertTfError, match="a is of type int64; expected one of float32"):
        tensors["a"]


class Runs:
    def __init__(self, function, *arguments):
        self.what = function, arguments

    def __reduce__(self):
        return self.what


class Built:
    pass


def _text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def hostile():
    """Pickles that would do harm to who runs them, by what is wrong with them."""
    yield "a call", pickle.dumps({"a": Runs(os.system, "touch ran")}, 2), "posix.system|nt.system"
    yield "protocol 4", pickle.dumps({"a": Runs(os.mkdir, "ran")}, 4), "posix.mkdir|nt.mkdir"
    yield "eval", pickle.dumps({"a": Runs(eval, "1")}, 2), "eval"
    yield "an object", pickle.dumps({"a": Built()}, 2), "Built|copyreg"
    yield "protocol 0", b"cos\nsystem\n(S'touch ran'\ntR.", "os.system"
    yield "another function of torch", torch_pickle(b"ctorch.hub\nload\n"), "torch.hub.load"
    yield "a dotted name", b"\x80\x04" + _stack(b"torch._utils", b"os.system"), "os.system"
    yield "a name from a number", b"\x80\x04K\x01K\x02\x93.", "ValueError"
    yield "an instance", b"\x80\x02(cos\nsystem\no.", "os.system"
    yield "inst", b"(ios\nsystem\n.", "INST"
    yield "newobj", b"\x80\x02ccollections\nOrderedDict\n)\x81.", "NEWOBJ"
    yield "extension", b"\x80\x02\x82\x01.", "EXT1"
    yield "persistent by name", b"\x80\x02Pname\n.", "PERSID"
    yield "a call of a storage", b"\x80\x02ctorch\nFloatStorage\n)R.", "call of FloatStorage"
    yield "a call of a dict", b"\x80\x02})R.", "ValueError"
    yield "an ordered dict of something", b"\x80\x02ccollections\nOrderedDict\nK\x01\x85R.", "call"
    yield "attributes of a name", b"\x80\x02ctorch\nFloatStorage\n}b.", "attributes"
    yield "a number as a name", b"\x80\x02}K\x01K\x02s.", "as the name"
    yield "pop", b"\x80\x02}0.", "instruction POP"
    yield "dup", b"\x80\x02}2.", "instruction DUP"
    yield "list", b"\x80\x02].", "EMPTY_LIST"
    yield "set", b"\x80\x04\x8f.", "EMPTY_SET"
    yield "nothing", b"", "ValueError"
    yield "no end", b"\x80\x02}", "ValueError"
    yield "an empty stack", b"\x80\x02.", "ValueError"
    yield "no mark", b"\x80\x02t.", "IndexError"
    yield "memo of nothing", b"\x80\x02h\x07.", "KeyError"
    yield "memo at an empty stack", b"\x80\x02q\x00.", "IndexError"
    yield "a huge memo", b"\x80\x02}r\xff\xff\xff\xff.", "a dict; expected a dict of tensors"
    yield "claims", b"\x80\x04\x8d" + b"\xff" * 8 + b"a.", "ValueError"
    yield "laughs", b"\x80\x04)\x94" + b"h\x00h\x00h\x00\x87\x94" * 40 + b".", "a tuple"
    yield "deep", b"\x80\x02)" + b"\x85" * 100_000 + b".", "a tuple"
    yield "a later protocol", b"\x80\x09}.", "ValueError"
    yield "text only", b"\x80\x02" + _text(b"a") + b".", "text"
    yield "a dict of numbers", b"\x80\x02}" + _text(b"a") + b"K\x01s.", "'a' is a number"
    yield "out of range", torch_pickle(offset=1), "within the 6 numbers"
    yield "strides out of range", torch_pickle(strides=b"K\x09K\x01\x86"), "within the 6 numbers"
    yield "expanded", torch_pickle(size=b"K\xffK\xff\x86", strides=b"K\x00K\x00\x86"), "within"
    yield "negative", torch_pickle(strides=b"J\xff\xff\xff\xffK\x01\x86"), "another form"
    yield "axes unlike strides", torch_pickle(strides=b"K\x01\x85"), "another form"
    yield "huge", torch_pickle(size=b"\x8a\x09" + b"\xff" * 8 + b"\x00\x85",
                               strides=b"K\x00\x85"), "another form"


def _stack(module, name):
    return b"".join(b"\x8c" + bytes([len(text)]) + text for text in (module, name)) + b"\x93."


@pytest.mark.parametrize(("pickled", "message"), [
    pytest.param(pickled, message, id=name) for name, pickled, message in hostile()])
def test_hostile_pickles(tmp_path, monkeypatch, pickled, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertTfError, match=message):
        read(tmp_path, archive(pickled))
    assert os.listdir(tmp_path) == ["pytorch_model.bin"]


def test_a_pickle_of_many_bytes(tmp_path):
    with pytest.raises(BertTfError, match="bytes; expected at most"):
        read(tmp_path, archive(b"\x80\x02" + b"}" * tensor_pickle.MOST_BYTES))


def test_the_forms_that_torch_writes():
    parameter = b"\x80\x02}" + _text(b"b") + b"ctorch._utils\n_rebuild_parameter\n(" + (
        torch_pickle()[9:-2].partition(b"ctorch._utils")[1]
        + torch_pickle()[9:-2].partition(b"ctorch._utils")[2]) + b"\x89)tRs."
    record = tensor_pickle.read_records(io.BytesIO(parameter), "")["b"]
    assert (record.shape, record.strides, record.storage.dtype) == ((2, 3), (3, 1), "float32")
    # An OrderedDict with the attribute _metadata, as state_dict() has it.
    ordered = torch_pickle().replace(b"}q\x00(", b"ccollections\nOrderedDict\n)R(")[:-1] + (
        b"}" + _text(b"_metadata") + b"}sb.")
    assert list(tensor_pickle.read_records(io.BytesIO(ordered), "")) == ["a"]


def test_the_format_until_pytorch_1_5(tmp_path):
    numbers = np.arange(6, dtype="<f4")
    pickled = torch_pickle(size=b"K\x03K\x02\x86", strides=b"K\x01K\x03\x86", last=b"N")
    data = old_torch_seed(pickled, numbers=numbers.tobytes())
    assert read(tmp_path, data)["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    tensors = read(tmp_path, data)
    os.truncate(tmp_path / "pytorch_model.bin", len(data) - 1)
    with pytest.raises(BertTfError, match="became shorter while it was read"):
        tensors["a"]


SOUND = old_torch_seed()


@pytest.mark.parametrize(("data", "message"), [
    (SOUND[:15] + b"\x80\x02M\xe8\x03." + SOUND[21:], "another version of PyTorch's old format"),
    (SOUND[:15], "another version"),
    (old_torch_seed(order="big"), "in another order; expected little"),
    (old_torch_seed(keys=b"1"), "lists 1 storages, and its tensors are of 1"),
    (old_torch_seed(keys=b"0 1"), "lists 2 storages"),
    (old_torch_seed(count=7), "the numbers of storage '0'; expected 6 of type float32"),
    (old_torch_seed(count=-1 + (1 << 64)), "the numbers of storage '0'"),
    (SOUND[:-1], r"has \d+ bytes; expected \d+"),
    (SOUND + b"\0", r"has \d+ bytes; expected \d+"),
    (SOUND[:60], "is damaged: ValueError"),
    (old_torch_seed(torch_pickle(last=b"K\x01")), "a storage of another form"),
    (old_torch_seed(pickle.dumps({"a": Runs(os.system, "touch ran")}, 2)), "system, which no dict"),
    (SOUND[:21] + pickle.dumps(Runs(os.system, "touch ran"), 2) + SOUND[21:], "system, which no"),
])
def test_damaged_files_of_the_old_format(tmp_path, monkeypatch, data, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertTfError, match=message):
        read(tmp_path, data)
    assert os.listdir(tmp_path) == ["pytorch_model.bin"]


@pytest.mark.parametrize(("data", "message"), [
    (archive(torch_pickle(), compression=zipfile.ZIP_DEFLATED), "is compressed; expected"),
    (archive(torch_pickle(key=b"../0")), "are missing"),
    (archive(torch_pickle(key=b"/etc/passwd")), "are missing"),
    (archive(torch_pickle(key=b"7")), r"the numbers of 'a', data/7, are missing"),
    (archive(torch_pickle(), {"0": bytes(20)}), "data/0 has 20 bytes; expected 24, 6 of type"),
    (archive(torch_pickle(), byteorder=b"big"), "in another order"),
    (archive(torch_pickle()).replace(b"data.pkl", b"data.abc"), "has no data.pkl"),
    (archive(torch_pickle(), {"0": bytes(24), "b/data.pkl": b""}), "has 2 data.pkl; expected one"),
    (archive(torch_pickle())[:-30], "no zip archive"),
    (b"", "no zip archive"),
    (pickle.dumps({"a": 1}), "no zip archive")])
def test_damaged_archives(tmp_path, data, message):
    with pytest.raises(BertTfError, match=message):
        read(tmp_path, data)


def test_a_flipped_bit_and_no_numbers_are_noticed(tmp_path):
    sound = bytearray(archive(torch_pickle()))
    sound[sound.index(np.float32(5).tobytes()) + 1] ^= 4
    tensors = read(tmp_path, bytes(sound))
    with pytest.raises(BertTfError, match="data/0' is damaged"):
        tensors["a"]
    nan = archive(torch_pickle(), {"0": np.full(6, np.nan, "<f4").tobytes()})
    with pytest.raises(BertTfError, match="a holds NaN or infinity"):
        read(tmp_path, nan)["a"]


@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_shards(tmp_path, kind):
    form = {"safetensors": safetensors_file, "torch": torch_file}[kind]

    def write(name, *tensors):
        if kind == "safetensors":
            save_file({tensor: np.full(3, len(tensor), np.float32) for tensor in tensors},
                      tmp_path / name)
        else:
            (tmp_path / name).write_bytes(torch_seed(torch_pickle().replace(
                _text(b"a"), _text(tensors[0].encode()))))

    def index(**names):
        (tmp_path / form.INDEX).write_text(json.dumps({"weight_map": names}))

    write("one", "a")
    write("two", "bb")
    index(a="one", bb="two")
    tensors = weight_files.read_folder(str(tmp_path))
    assert set(tensors) == {"a", "bb"} and tensors["bb"].size
    index(a="one", bb="three")
    with pytest.raises(BertTfError, match="names three, which is missing; expected 2 files"):
        weight_files.read_folder(str(tmp_path))
    index(a="one", bb="two", c="two")
    with pytest.raises(BertTfError, match="two lacks c"):
        weight_files.read_folder(str(tmp_path))
    write("two", "a")
    index(a="one", bb="two")
    with pytest.raises(BertTfError, match="two lacks bb|a is in two, and one"):
        weight_files.read_folder(str(tmp_path))
    index(a="one")
    assert list(weight_files.read_folder(str(tmp_path))) == ["a"]
    write("one", "b")
    index(a="one")
    with pytest.raises(BertTfError, match="one lacks a"):
        weight_files.read_folder(str(tmp_path))


def test_overlapping_shards(tmp_path):
    save_file({"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float32)}, tmp_path / "one")
    save_file({"b": np.ones(2, np.float32)}, tmp_path / "two")
    index = tmp_path / safetensors_file.INDEX
    index.write_text(json.dumps({"weight_map": {"a": "one", "b": "two"}}))
    with pytest.raises(BertTfError, match="b is in one, and two; expected each tensor in the one"):
        weight_files.read_folder(str(tmp_path))
    assert load_file(tmp_path / "two")["b"].tolist() == [1, 1]
