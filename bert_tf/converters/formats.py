"""The formats of `python -m bert_tf.convert`, by name."""

import importlib
import os

from bert_tf.errors import BertTfError, check_choice, explain

# Each module has read(path) -> Checkpoint and write(checkpoint, path) -> names not held.
FORMATS = {"bert_tf": "ours", "google": "google_tf1", "hf": "hf_safetensors",
           "keras_hub": "keras_hub", "tf_models": "tf_models"}
# Files by which a folder of some format is known.
CONFIGS = ("config.json", "model_config.json", "bert_config.json", "albert_config.json",
           "electra_config.json", "discriminator/config.json")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def load_format(name):
    """The module of a format; UsageError names the nearest where there is none."""
    check_choice("FORMAT", name, FORMATS)
    return importlib.import_module(f"bert_tf.converters.{FORMATS[name]}")


def refuse_pickle(path):
    """Raise BertTfError if `path` is a file that PyTorch's users know as a pickle."""
    if path.endswith(PICKLES) and os.path.isfile(path):
        raise BertTfError(explain(
            f"{path} is a pickle, and reading a pickle runs whatever program is in it",
            attempt="saving it where it comes from as safetensors (save_pretrained of a current "
                    "transformers)"))
