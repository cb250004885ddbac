"""The formats of `python -m bert_tf.convert`, by name."""

import importlib

from bert_tf.errors import check_choice

# Each module has read(path) -> Checkpoint and write(checkpoint, path) -> names not held.
FORMATS = {"bert_tf": "ours", "google": "google_tf1", "hf": "hf_safetensors",
           "keras_hub": "keras_hub", "tf_models": "tf_models"}


def load_format(name):
    """The module of a format; UsageError names the nearest where there is none."""
    check_choice("FORMAT", name, FORMATS)
    return importlib.import_module(f"bert_tf.converters.{FORMATS[name]}")
