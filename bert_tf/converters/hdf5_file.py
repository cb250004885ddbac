"""What is in an HDF5 file of weights, found out before any of it is loaded.

HDF5 can point into other files, claim arrays that no file could hold, and unpack a few bytes to
gigabytes. Keras writes plain arrays of numbers, which is what is let through here.
"""

import math

import h5py

from bert_tf.errors import BertTfError, explain
from bert_tf.storage import files, local_copies

_NUMBERS = "fiuV"  # kinds of numpy types; bfloat16 is stored as two opaque bytes


def array_shapes(path):
    """Names and shapes of all arrays in a file: `{name: shape}`.

    Raises:
        BertTfError: the file is missing or damaged, points elsewhere, or claims more bytes than
            it has.
    """
    found, claimed = {}, 0

    def visit(name, item):
        nonlocal claimed
        if isinstance(item, h5py.Group):
            _check_links(path, item)
        elif isinstance(item, h5py.Dataset):
            _check_array(path, name, item)
            found[name] = tuple(item.shape)
            claimed += math.prod(item.shape) * item.dtype.itemsize

    try:
        with files.explained("read", path), h5py.File(local_copies.local(path), "r") as file:
            _check_links(path, file)
            file.visititems(visit)
    except (RuntimeError, KeyError, ValueError, TypeError, UnicodeError) as error:
        raise BertTfError(f"{path} is damaged: {' '.join(str(error).split())}") from error
    if claimed > files.size(path):
        raise BertTfError(explain(f"{path} claims arrays of {claimed} bytes",
                                  f"at most its own size, {files.size(path)}"))
    return found


def _check_links(path, group):
    """Refuse links that lead out of the file or about in it."""
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise BertTfError(explain(f"{path}: {name} is a link to elsewhere",
                                      "arrays that stand in the file"))


def _check_array(path, name, array):
    if array.is_virtual or array.external:
        raise BertTfError(explain(f"{path}: {name} takes its values from other files",
                                  "arrays that stand in the file"))
    if array.dtype.kind not in _NUMBERS or array.shape is None:
        raise BertTfError(explain(f"{path}: {name} is of type {array.dtype}", "numbers"))
