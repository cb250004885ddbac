"""Tensors in safetensors files, one at a time: reading is bounded by the size of the file.

The format has no checksums: a flipped bit is noticed where it makes the header wrong or a number
NaN or infinite, or where `checksums.json` is beside the file, as in a folder that we wrote.
"""

import json
import math

import numpy as np

from bert_tf.converters.checkpoint import Tensors
from bert_tf.errors import BertTfError, explain, needs
from bert_tf.storage import files, local_copies

FILE = "model.safetensors"
INDEX = FILE + ".index.json"  # names the file of each tensor where there are several files
_MOST_HEADER = 16 << 20  # bytes; a header takes about 100 a tensor
_FLOATS = ("F32", "F16", "BF16", "F64")


def read_file(path):
    """`Tensors` of one file, float32 whatever the file's float type.

    Raises:
        BertTfError: the file is missing or damaged.
        UsageError: the package safetensors is missing.
    """
    _check_header_length(path)
    local = local_copies.local(path)
    with _opened(path, local) as stream:
        slices = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118
        shapes = {name: each.get_shape() for name, each in slices.items()}
        types = {name: each.get_dtype() for name, each in slices.items()}

    def load(name):
        if types[name] not in _FLOATS:
            raise BertTfError(explain(f"{path}: {name} is of type {types[name]}",
                                      f"one of {', '.join(_FLOATS)}"))
        with _opened(path, local) as stream:  # for each: what is read is let go
            array = np.asarray(stream.get_tensor(name), np.float32)
        if not np.isfinite(array).all():
            raise BertTfError(f"{path}: {name} holds NaN or infinity; the file is damaged")
        return array

    return Tensors(shapes, load)


def write_file(path, tensors):
    """Write `Tensors` as float32, holding one at a time. Not atomic by itself.

    The bytes are those that the safetensors library would write from all of them in memory.
    """
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        start, end = end, end + 4 * math.prod(tensors.shapes[name])
        header[name] = {"dtype": "F32", "shape": tensors.shapes[name],
                        "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of 8
    with files.explained("write", path), open(path, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(tensors):
            stream.write(np.ascontiguousarray(tensors[name], "<f4").data)


def _check_header_length(path):
    held = files.size(path)
    with files.open_binary(path) as stream:
        claimed = int.from_bytes(stream.read(8), "little")
    if held < 8 or claimed > held - 8 or claimed > _MOST_HEADER:
        raise BertTfError(explain(f"{path} is damaged: its header claims {claimed} bytes",
                                  f"at most {max(0, min(held - 8, _MOST_HEADER))}"))


def _opened(path, local):
    with needs("convert", "safetensors files need the packages safetensors and ml_dtypes"):
        import ml_dtypes  # noqa: F401  (numpy learns bfloat16)
        from safetensors import SafetensorError, safe_open
    try:
        return safe_open(local, framework="np")
    except (SafetensorError, OSError, ValueError) as error:
        raise BertTfError(f"{path} is damaged: {error}") from error
