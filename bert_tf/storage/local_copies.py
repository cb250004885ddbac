"""Local paths of files in an object store, for what reads and writes local files only.

A local path is its own copy; see `staging` for those of a store.
"""

import contextlib

from bert_tf.storage import files, staging
from bert_tf.storage.object_store import is_remote


def local(path):
    """Return a local path of a file, or of a finished folder, for what reads local files only.

    A local path itself; of what is in a store a copy in the cache, kept until the process ends.

    Raises:
        BertTfError: it is not there or not whole, or the cache has no space for it.
    """
    return staging.local(path) if is_remote(path) else path


def local_prefix(prefix):
    """Return `local` of a TensorFlow checkpoint, whose files are called `prefix.…`."""
    return staging.local_prefix(prefix) if is_remote(prefix) else prefix


def fits_local(path, size):
    """Return whether `size` bytes of files such as `path` can be `local` in half of the cache."""
    return not is_remote(path) or 2 * size <= staging.cache_bytes()


def staged(path):
    """Return a context whose value is `local(path)`, the copy being kept until it ends."""
    return staging.staged(path) if is_remote(path) else contextlib.nullcontext(path)


def opener():
    """Return `open_local(path)`, which opens for reading bytes, without a buffer.

    The file has a descriptor of the system's. Of an object it is asked once, at its first time,
    whether it is another one than that in the cache.
    """
    open_staged = staging.opener()

    def open_local(path):
        with files.explained("read", path):
            return open_staged(path) if is_remote(path) else open(path, "rb", buffering=0)

    return open_local
