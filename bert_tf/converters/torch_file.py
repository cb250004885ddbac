"""Tensors in `pytorch_model.bin`: a zip archive of numbers and one pickle that says what they are,
or, until PyTorch 1.5, what `torch_legacy_file` reads.

Reading is bounded by the size of the file: its parts are not compressed, and of the pickle nothing
is run (`tensor_pickle`).
"""

import io
import math
import re
import zipfile

import numpy as np

from bert_tf.converters import torch_legacy_file
from bert_tf.converters.checkpoint import Tensors
from bert_tf.converters.tensor_pickle import MOST_BYTES, read_records
from bert_tf.errors import BertTfError, explain
from bert_tf.storage import local_copies

FILE = "pytorch_model.bin"
INDEX = FILE + ".index.json"
_MOST_PARTS = 100_000
_KEY = re.compile(r"[0-9A-Za-z_]{1,40}")
_FLOATS = ("float32", "float16", "bfloat16", "float64")
_SAVE_AGAIN = ("saving it where it comes from again: torch.save(torch.load(path, "
               "weights_only=True), path), or as safetensors")


def read_file(path):
    """`Tensors` of one file, float32 whatever the file's float type.

    Raises:
        BertTfError: the file is damaged, or holds anything else than tensors.
    """
    local = local_copies.local(path)
    with open(local, "rb") as stream:
        old = stream.read(len(torch_legacy_file.MARK)) == torch_legacy_file.MARK
    return _tensors(path, *(torch_legacy_file.read_file if old else _read_archive)(path, local))


def _read_archive(path, local):
    """What `torch_legacy_file.read_file` gives, of an archive."""
    parts = _read_parts(path, local)
    names = [name for name in parts if name.endswith("/data.pkl")]
    if len(names) != 1:
        raise BertTfError(explain(f"{path} has {len(names) or 'no'} data.pkl",
                                  "one, as torch.save writes it"))
    (name,) = names
    folder = name.removesuffix("data.pkl")
    if parts[name].file_size > MOST_BYTES:
        raise BertTfError(explain(f"{path}: {name} has {parts[name].file_size} bytes",
                                  f"at most {MOST_BYTES}"))
    order = parts.get(f"{folder}byteorder")
    if order is not None and order.file_size < 16 and _read_part(path, local, order) != b"little":
        raise BertTfError(explain(f"{path} has the bytes of numbers in another order", "little"))
    records = read_records(io.BytesIO(_read_part(path, local, parts[name])), f"{path}: {name}")
    for tensor, record in records.items():
        _check_storage(path, tensor, record.storage, folder, parts)
    return records, lambda storage: _read_part(path, local, parts[f"{folder}data/{storage.key}"])


def _tensors(path, records, read):
    """`Tensors` of `TensorRecord`s, whose storages `read` takes to the bytes of their numbers."""
    held = {}  # the storage that was read last: often several tensors are of one

    def load(tensor):
        record = records[tensor]
        storage = record.storage
        if storage.dtype not in _FLOATS:
            raise BertTfError(explain(f"{path}: {tensor} is of type {storage.dtype}",
                                      f"one of {', '.join(_FLOATS)}"))
        if storage not in held:
            held.clear()
            held[storage] = np.frombuffer(read(storage), storage.numpy_type)
        numbers = held[storage]
        strides = [stride * numbers.itemsize for stride in record.strides]
        if not math.prod(record.shape):
            return np.zeros(record.shape, np.float32)
        view = np.lib.stride_tricks.as_strided(numbers[record.offset:], record.shape, strides,
                                               writeable=False)
        array = np.array(view, np.float32, order="C")
        if not np.isfinite(array).all():
            raise BertTfError(f"{path}: {tensor} holds NaN or infinity; the file is damaged")
        return array

    return Tensors({tensor: record.shape for tensor, record in records.items()}, load)


def _read_parts(path, local):
    """`{name: ZipInfo}` of the archive, each part of which is as it is."""
    try:
        with zipfile.ZipFile(local) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeError) as error:
        raise BertTfError(explain(f"{path} is damaged or no zip archive: {error}",
                                  "what torch.save writes", _SAVE_AGAIN)) from error
    if len(parts) > _MOST_PARTS or len({part.filename for part in parts}) < len(parts):
        raise BertTfError(explain(f"{path} is damaged: {len(parts)} parts",
                                  f"at most {_MOST_PARTS}, each of a name of its own"))
    for part in parts:
        if part.compress_type != zipfile.ZIP_STORED or part.compress_size != part.file_size:
            raise BertTfError(explain(f"{path}: {part.filename[:80]!r} is compressed",
                                      "parts as torch.save writes them, which are not"))
        if part.flag_bits & 1:
            raise BertTfError(f"{path}: {part.filename[:80]!r} is encrypted")
    return {part.filename: part for part in parts}


def _read_part(path, local, part):
    """The bytes of a part, whose checksum is that of the archive."""
    try:
        with zipfile.ZipFile(local) as archive:
            return archive.read(part)
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError) as error:
        raise BertTfError(f"{path}: {part.filename[:80]!r} is damaged: {error}") from error


def _check_storage(path, tensor, storage, folder, parts):
    part = parts.get(f"{folder}data/{storage.key}") if _KEY.fullmatch(storage.key) else None
    if part is None:
        raise BertTfError(f"{path}: the numbers of {tensor[:80]!r}, data/{storage.key[:80]}, "
                          "are missing")
    if part.file_size != storage.bytes:
        raise BertTfError(explain(f"{path}: data/{storage.key} has {part.file_size} bytes",
                                  f"{storage.bytes}, {storage.size} of type {storage.dtype}"))
