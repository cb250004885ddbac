"""Named tensors in a TensorFlow checkpoint (the `.index` and `.data` files of the originals)."""

import errno
import os

from bert_tf import files
from bert_tf.errors import BertTfError, UsageError, explain


def write_variables(prefix, tensors):
    """Write `{name: tensor}` to `prefix.index` and `prefix.data-00000-of-00001`.

    Not atomic by itself: write into `files.atomic_path`.
    """
    import tensorflow as tf

    names = sorted(tensors)
    try:
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                          tensors=[tf.convert_to_tensor(tensors[name]) for name in names])
    except tf.errors.OpError as error:
        if "No space left" in str(error.message):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise BertTfError(f"cannot write {prefix}: {error.message}") from error


def read_variables(prefix):
    """All tensors of a checkpoint as `{name: array}`.

    Raises:
        BertTfError: no checkpoint there, or it is damaged.
    """
    import tensorflow as tf

    if not files.exists(prefix + ".index"):
        raise BertTfError(f"no checkpoint at {prefix}: {prefix}.index is missing")
    try:
        reader = tf.train.load_checkpoint(prefix)
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise BertTfError(f"checkpoint {prefix} is damaged: {reason}") from error


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
