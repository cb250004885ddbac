"""`pytorch_model.bin` as PyTorch wrote it until 1.5: five pickles, then the numbers of storages.

The pickles are a mark, a version, what machine it was, the dict of tensors and the order of the
storages. Of none anything is run (`tensor_pickle`).
"""

import io
import os
import struct

from bert_tf.converters import tensor_pickle
from bert_tf.errors import BertTfError, explain

MARK = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_VERSION = b"\x80\x02M\xe9\x03."
_COUNT = struct.Struct("<q")  # before the numbers of a storage


def read_file(path, local):
    """`(records, read)` of a file: `TensorRecord`s by name, and a function that takes a `Storage`
    to the bytes of its numbers.

    Args:
        path: what an error names.
        local: where the file is; it begins with `MARK`.

    Raises:
        BertTfError: it is damaged, or holds anything else than tensors.
    """
    with open(local, "rb") as stream:
        if stream.read(len(MARK) + len(_VERSION)) != MARK + _VERSION:
            raise BertTfError(f"{path} is damaged: another version of PyTorch's old format")
        pickles = io.BytesIO(stream.read(tensor_pickle.MOST_BYTES))
        about = tensor_pickle.read_values(pickles, path)
        if not isinstance(about, dict) or about.get("little_endian") is not True:
            raise BertTfError(explain(f"{path} has the bytes of numbers in another order",
                                      "little"))
        records = tensor_pickle.read_records(pickles, path)
        keys = tensor_pickle.read_texts(pickles, path)
        stream.seek(len(MARK) + len(_VERSION) + pickles.tell())
        places = _places(stream, path, keys, {record.storage for record in records.values()})

    def read(storage):
        with open(local, "rb") as stream:
            stream.seek(places[storage])
            data = stream.read(storage.bytes)
        if len(data) != storage.bytes:
            raise BertTfError(f"{path} became shorter while it was read")
        return data

    return records, read


def _places(stream, path, keys, storages):
    """`{storage: where its numbers begin}`; in the order of `keys` they fill the rest of a file."""
    of_key = {storage.key: storage for storage in storages}
    if sorted(keys) != sorted(storage.key for storage in storages):
        raise BertTfError(f"{path} is damaged: it lists {len(keys)} storages, and its tensors are "
                          f"of {len(storages)}")
    places, place, size = {}, stream.tell(), os.fstat(stream.fileno()).st_size
    for key in keys:
        storage = of_key[key]
        stream.seek(place)
        if stream.read(_COUNT.size) != _COUNT.pack(storage.size):
            raise BertTfError(explain(f"{path} is damaged: the numbers of storage {key[:80]!r}",
                                      f"{storage.size} of type {storage.dtype}"))
        places[storage] = place + _COUNT.size
        place = places[storage] + storage.bytes
    if place != size:
        raise BertTfError(explain(f"{path} has {size} bytes", f"{place}"))
    return places
