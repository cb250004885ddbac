"""A model folder: configuration, tokenizer files and a checkpoint keyed by variable paths."""

import os

from bert_tf import files, variables
from bert_tf.config import ModelConfig
from bert_tf.models.families import build_encoder

CONFIG = "model_config.json"
CHECKPOINT = "model"


def save_pretrained(folder, model, config, tokenizer=None):
    """Write `model_config.json`, the checkpoint `model` and the tokenizer's files.

    Args:
        folder: a new folder; it appears whole or not at all.
        model: any Keras model; every variable is stored under its path, which for BERT is its
            name in the official checkpoint.
        config: its `ModelConfig`.
        tokenizer: anything with `save(folder)`; None writes no tokenizer files.
    """
    with files.atomic_path(folder) as temporary:
        files.make_folder(temporary)
        config.save(os.path.join(temporary, CONFIG))
        variables.write_variables(os.path.join(temporary, CHECKPOINT),
                                  {variable.path: variable.value
                                   for variable in model.trainable_variables})
        if tokenizer is not None:
            tokenizer.save(temporary)


def load_pretrained(folder, build=build_encoder, **options):
    """Read a model folder.

    Args:
        folder: written by `save_pretrained`.
        build: `build(config, **options)` gives the Keras model that takes the weights:
            `build_encoder` or a task such as `Pretrainer`. It may use only some of them.
        options: passed on to `build`.

    Returns: the model; `ModelConfig.load` reads its configuration.

    Raises:
        BertTfError: the folder or a file in it is missing or damaged.
        UsageError: the checkpoint lacks a variable of the model; all are listed.
    """
    model = build(ModelConfig.load(os.path.join(folder, CONFIG)), **options)
    restore(model, folder)
    return model


def restore(model, folder):
    """Give `model` the weights of a model folder, by path; errors as in `load_pretrained`."""
    prefix = os.path.join(folder, CHECKPOINT)
    variables.assign_variables(model.trainable_variables, variables.read_variables(prefix),
                               prefix)
