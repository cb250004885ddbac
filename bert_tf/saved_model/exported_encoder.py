"""The encoder in a SavedModel that `bert_tf.export` wrote, as a Keras model again.

The graph cannot be asked for what no signature gives, such as attention probabilities. But the
version holds all that the model was built of: `assets.extra/model_config.json`, the tokenizer's
files in `assets/` and `assets.extra/`, and the weights, whose object graph has the path that each
had in the Keras model.
"""

import os
import tempfile

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.errors import BertTfError, NoTextError, UsageError, explain
from bert_tf.models.pretrained import CONFIG
from bert_tf.storage import checksums, files, variables

EXPORT = "export.json"  # in assets.extra/: signatures, notes (what is not served), description
_UNNAMED = "Variable"  # what TensorFlow calls a variable without a name


def exported_window(version):
    """Return how many tokens an exported version takes, if its encoder can be read and reads text.

    Files are looked at, nothing is built.

    Args:
        version: folder of the SavedModel.

    Raises:
        BertTfError: `bert_tf.export` did not write it, or a file is missing or damaged.
        NoTextError: it has no tokenizer.
        UsageError: its weights have lost their names.
    """
    about, config = _about(version)
    _weights(version, config)
    if not _takes_text(about):
        raise NoTextError(f"{version} takes token ids only: it was exported without a tokenizer")
    return about.get("seq_length", config.longest)


def load_exported(version, **options):
    """Load the encoder of an exported version, in float32, and its tokenizer.

    What was exported in bfloat16 or int8 has weights of that precision.

    Args:
        version: folder `saved_models/NAME/VERSION`.
        options: of `build_encoder`, such as `attention_probs=True`.

    Returns: `(encoder, tokenizer)`: the Keras model, and what `load_tokenizer` gives, or None where
        the version takes token ids only.

    Raises:
        BertTfError: as of `exported_window`.
        UsageError: weights have lost their names or do not fit the configuration; all are listed.
    """
    from bert_tf.models.families import build_encoder
    from bert_tf.saved_model.int8_weights import restored

    version = checksums.opened(version)
    about, config = _about(version)
    reader, keys = _weights(version, config)
    encoder = build_encoder(config, dtype="float32", **options)
    tensors = restored({path: reader.load(key) for path, key in keys.items()})
    tensors = {path: np.asarray(value, np.float32) for path, value in tensors.items()}
    variables.assign_variables(encoder.weights, tensors, version)
    return encoder, _tokenizer(version) if _takes_text(about) else None


def _about(version):
    """Return what a version says of itself, checked: `export.json`'s dict and its `ModelConfig`."""
    checksums.check(version, [f"assets.extra/{name}" for name in (EXPORT, CONFIG)])
    return files.read_json_object(_extra(version, EXPORT)), exported_config(version)


def _takes_text(about):
    return about.get("mask_token", "") is not None


def _extra(version, name):
    path = os.path.join(version, "assets.extra", name)
    if not files.exists(path):
        raise BertTfError(explain(f"{version} is a SavedModel without assets.extra/{name}",
                                  "a version that python -m bert_tf.export wrote"))
    return path


def exported_config(version):
    """Return the `ModelConfig` of an exported version; errors as of `exported_window`."""
    return ModelConfig.load(_extra(version, CONFIG))


def _weights(version, config):
    """Return the version's `VariableReader`, and `{path of a variable of the encoder: key
    there}`."""
    reader = variables.VariableReader(os.path.join(version, "variables", "variables"))
    names = reader.variable_names()
    if _UNNAMED in names.values():
        raise UsageError(explain(
            f"{version} holds weights without names, as older exports in bfloat16 do",
            attempt="exporting the model again, or the model folder itself"))
    return reader, {name: key for key, name in names.items()
                    if key in reader.shapes and name.startswith(f"{config.family}/")}


def _tokenizer(version):
    """Load the tokenizer, whose files are in two folders."""
    from bert_tf.tokenization.load import load_tokenizer, tokenizer_files
    from bert_tf.tokenization.tokenizer import CONFIG_NAME

    assets, extra = (os.path.join(version, name) for name in ("assets", "assets.extra"))
    with tempfile.TemporaryDirectory() as folder:
        for path in (*(os.path.join(assets, name) for name in tokenizer_files(assets)),
                     os.path.join(extra, CONFIG_NAME)):
            if files.exists(path):
                files.copy(path, os.path.join(folder, os.path.basename(path)))
        return load_tokenizer(folder)
