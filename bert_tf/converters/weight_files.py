"""The weights in a folder as Hugging Face has them: one file or several, of either format."""

import os

from bert_tf.converters import safetensors_file, torch_file
from bert_tf.converters.checkpoint import Tensors
from bert_tf.errors import BertTfError, explain
from bert_tf.storage import files

# Each has FILE, and INDEX, which names the file of each tensor where there are several.
_FORMATS = (safetensors_file, torch_file)


def holds_weights(folder):
    """Whether there are weights that `read_folder` reads."""
    return any(files.exists(os.path.join(folder, name))
               for form in _FORMATS for name in (form.FILE, form.INDEX))


def read_folder(folder):
    """`Tensors`, float32, of the weights in a folder: safetensors, else `pytorch_model.bin`.

    Raises:
        BertTfError: no such file, or it is damaged, or a tensor is in several files or in none.
        UsageError: the package safetensors is missing.
    """
    for form in _FORMATS:
        if files.exists(os.path.join(folder, form.FILE)):
            return form.read_file(files.inside(folder, form.FILE))
        if files.exists(os.path.join(folder, form.INDEX)):
            return _read_shards(folder, form)
    return safetensors_file.read_file(files.inside(folder, safetensors_file.FILE))


def _read_shards(folder, form):
    """`Tensors` of the files that an index names."""
    index = os.path.join(folder, form.INDEX)
    values = files.read_json(index)
    names = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(names, dict) or not names or not all(
            isinstance(name, str) for name in names.values()):
        raise BertTfError(f"{index} has no weight_map from tensor names to file names")
    shards = {}
    for name in sorted(set(names.values())):
        if os.path.basename(name) != name:
            raise BertTfError(explain(f"{index} names {name!r}", "a file beside it"))
        if not files.exists(os.path.join(folder, name)):
            raise BertTfError(explain(f"{index} names {name}, which is missing",
                                      f"{len(set(names.values()))} files", "copying it as well"))
        shards[name] = form.read_file(files.inside(folder, name))
    for tensor, name in names.items():
        if tensor not in shards[name]:
            raise BertTfError(f"{index}: {name} lacks {tensor}")
    for name, shard in shards.items():
        for tensor in shard:
            if names.get(tensor) != name:
                other = names.get(tensor, "not in the index")
                raise BertTfError(explain(f"{index}: {tensor} is in {name}, and {other}",
                                          "each tensor in the one file that the index names"))
    return Tensors({tensor: shards[name].shapes[tensor] for tensor, name in names.items()},
                   lambda tensor: shards[names[tensor]][tensor])
