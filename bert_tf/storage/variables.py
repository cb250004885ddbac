"""Named tensors in a TensorFlow checkpoint (the `.index` and `.data` files of the originals)."""

import contextlib
import errno
import glob
import math
import os
import re
import tempfile

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files, local_copies, tensor_bundle

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # in what tf.train.Checkpoint and SavedModels wrote
_PART = 128 << 20  # bytes of a data file
# What TensorFlow gives the system's words of: a disk's, then those of memory and open files (a
# read into memory that there is not is EFAULT).
_SYSTEM_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE,
    errno.ETIMEDOUT, errno.ENOTCONN, errno.ENOMEM, errno.EFAULT, errno.EMFILE, errno.ENFILE)


def write_variables(prefix, tensors):
    """Write a mapping of names to tensors to `prefix.index` and `prefix.data-*`.

    Tensors are taken from the mapping one by one and let go of as they are written, a data file
    of about 128 MB at a time. Not atomic by itself: write into `files.atomic_path`.
    """
    import tensorflow as tf

    parts, held, size = [], {}, 0

    def write_part():
        parts.append(f"{prefix}.part-{len(parts)}")
        tf.raw_ops.SaveV2(prefix=parts[-1], tensor_names=list(held), tensors=list(held.values()),
                          shape_and_slices=[""] * len(held))
        held.clear()

    with explained_writing(prefix):
        for name in sorted(tensors):
            tensor = tf.convert_to_tensor(tensors[name])
            if held and size + _size(tensor) > _PART:
                write_part()
                size = 0
            held[name] = tensor
            size += _size(tensor)
        write_part()
        # Joins the indexes and renames the data files.
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix,
                                      delete_old_dirs=False)


def _size(tensor):
    """Return the bytes of a tensor; those of strings are not known and count 1 each."""
    return math.prod(tensor.shape) * (tensor.dtype.size or 1)


@contextlib.contextmanager
def explained_writing(prefix):
    """Turn TensorFlow's errors while writing `prefix` into the system's, else into ours."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise _system_error(error) or BertTfError(
            f"cannot write {prefix}: {error.message}") from error


def _system_error(error):
    """Return the OSError whose words TensorFlow's error has, or None."""
    return next((OSError(code, os.strerror(code)) for code in _SYSTEM_ERRORS
                 if os.strerror(code) in str(error)), None)


def checkpoints_in(folder):
    """Return the names of the checkpoints in a folder: an index of another program has no data."""
    names = files.list_folder(folder)
    found = [name.removesuffix(".index") for name in names if name.endswith(".index")]
    return [each for each in found if any(name.startswith(f"{each}.data-") for name in names)]


def find_checkpoint(path):
    """Find the prefix of a checkpoint: `path` itself, or the only one in the folder `path`.

    Raises:
        BertTfError: nothing there.
        UsageError: a folder with several.
    """
    if files.exists(f"{path}.index"):
        return os.fspath(path)
    found = checkpoints_in(path)
    if not found:
        raise BertTfError(explain(f"no checkpoint at {path}",
                                  "a folder with NAME.index and NAME.data-…, or its prefix "
                                  "folder/NAME"))
    if len(found) > 1:
        raise UsageError(explain(f"{path} holds the checkpoints {', '.join(found)}",
                                 attempt=os.path.join(path, max(found, key=_numbers))))
    return os.path.join(path, found[0])


def _numbers(name):
    return [int(number) for number in re.findall(r"\d+", name)]


def read_variables(prefix):
    """Read all tensors of a checkpoint as `{name: array}`; errors as of `VariableReader`."""
    reader = VariableReader(prefix)
    return {name: reader.load(name) for name in reader.shapes}


class VariableReader:
    """The tensors of a checkpoint, loaded one at a time.

    Attributes:
        entries: `{name: tensor_bundle.Entry}`.
        shapes: `{name: shape}`.

    Raises:
        BertTfError: no checkpoint there, or it is damaged; nothing is allocated for a tensor that
            its data file cannot hold.
    """

    def __init__(self, prefix):
        self._prefix = prefix
        self.entries = tensor_bundle.read_index(prefix)
        self.shapes = {name: entry.shape for name, entry in self.entries.items()}
        self._reader = None

    def variable_names(self):
        """Return `{name of a tensor: name of its variable}`, of what the object graph knows.

        Raises:
            BertTfError: there is no object graph, or it is damaged.
        """
        from google.protobuf.message import DecodeError
        from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

        if OBJECT_GRAPH not in self.entries:
            raise BertTfError(explain(f"checkpoint {self._prefix} has no object graph",
                                      "one that tf.train.Checkpoint wrote"))
        try:
            graph = TrackableObjectGraph.FromString(
                tensor_bundle.read_string(self.entries[OBJECT_GRAPH]))
        except DecodeError as error:
            raise BertTfError(f"checkpoint {self._prefix} is damaged: its object graph") from error
        return {attribute.checkpoint_key: attribute.full_name
                for node in graph.nodes for attribute in node.attributes}

    def load(self, name):
        """Load the array `name`; a string, whose size nothing bounds, is refused.

        Raises:
            BertTfError: it is damaged.
            UnavailableError: a disk or too little memory is in the way.
        """
        import tensorflow as tf

        if not self.entries[name].dtype.size:
            raise BertTfError(f"checkpoint {self._prefix} holds {name}, which is no number")
        with files.explained("read", self._prefix):
            try:
                self._reader = self._reader or tf.train.load_checkpoint(self._plain_prefix())
                return self._reader.get_tensor(name)
            except (MemoryError, tf.errors.ResourceExhaustedError) as error:
                # Not of damage: the data file has as many bytes as are asked for.
                raise _system_error(error) or OSError(
                    errno.ENOMEM, os.strerror(errno.ENOMEM)) from error
            except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                raise _system_error(error) or BertTfError(
                    f"checkpoint {self._prefix} is damaged: {reason}") from error

    def _plain_prefix(self):
        """Return a local prefix without brackets and the like: TensorFlow expects a pattern."""
        prefix = local_copies.local_prefix(self._prefix)
        if glob.escape(prefix) == prefix:
            return prefix
        self._links = tempfile.TemporaryDirectory(prefix="bert_tf-")
        plain = os.path.join(self._links.name, "variables")
        for end in {".index", *(entry.path[len(self._prefix):] for entry in self.entries.values())}:
            os.symlink(os.path.abspath(prefix + end), plain + end)
        return plain


def assign_variables(variables, tensors, source):
    """Assign `tensors` to the Keras `variables` of the same path and shape.

    Raises:
        UsageError: a variable is missing in `tensors` or its shape differs; all are listed.
    """
    wrong = []
    for variable in variables:
        value = tensors.get(variable.path)
        if value is None:
            wrong.append(f"- {variable.path} {tuple(variable.shape)}")
        elif tuple(value.shape) != tuple(variable.shape):
            wrong.append(f"- {variable.path} {tuple(variable.shape)}, there {tuple(value.shape)}")
    if wrong:
        raise UsageError(explain(f"{source} does not fit the model, which wants:\n"
                                 + "\n".join(wrong)))
    for variable in variables:
        variable.assign(tensors[variable.path])
