"""The formats of `python -m bert_tf.convert`, by name."""

import importlib
import os

from bert_tf.errors import BertTfError, check_choice, explain
from bert_tf.models.find import find_model
from bert_tf.storage import files, hub

# Each module has read(path) -> Checkpoint and write(checkpoint, path) -> names not held.
FORMATS = {"bert_tf": "ours", "google": "google_tf1", "hf": "hf_safetensors",
           "sentence_transformers": "sentence_transformers",
           "keras_hub": "keras_hub", "tf_models": "tf_models"}
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def load_format(name):
    """The module of a format; UsageError names the nearest where there is none."""
    check_choice("FORMAT", name, FORMATS)
    return importlib.import_module(f"bert_tf.converters.{FORMATS[name]}")


def find_format(path):
    """Name of the format of what is at `path`, judged by its files.

    Args:
        path: what `convert --from` takes: a folder, the prefix of a TensorFlow checkpoint, or the
            name of a repository as of `storage.hub`.

    Raises:
        BertTfError: a pickle, or a damaged file.
        UsageError: no model of any format.
    """
    path = hub.local(path)
    refuse_pickle(path)
    return find_model(path, FORMATS).kind


def read_model(path):
    """The `Checkpoint` of what is at `path`.

    Args:
        path: as of `find_format`.

    Raises:
        BertTfError, UsageError: as of `find_format` and of the format's reader.
    """
    return read_as(find_format(path), path)


def read_as(name, path):
    """The `Checkpoint` of what is at `path`, of the format of that name; errors as of `read_model`.
    """
    read = load_format(name).read
    try:
        return read(hub.local(path))
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError,
            RecursionError) as error:  # values of other types than files of this format have
        said = str(error).partition("\n")[0]
        raise BertTfError(f"{path} cannot be read as {name}, one of its files is damaged: "
                          f"{type(error).__name__} {said}") from error


def refuse_pickle(path):
    """Raise BertTfError if `path` is a file that PyTorch's users know as a pickle.

    A `pytorch_model.bin` is read where it stands in its folder (`torch_file`).
    """
    if os.fspath(path).endswith(PICKLES) and files.is_file(path):
        raise BertTfError(explain(
            f"{path} is a pickle, and reading a pickle runs whatever program is in it",
            "a folder with config.json and model.safetensors or pytorch_model.bin",
            "saving it where it comes from as safetensors (save_pretrained of a current "
            "transformers)"))
