"""Our own model folder as a format: `model_config.json`, `task.json`, checkpoint, tokenizer."""

import os

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.converters.checkpoint import Checkpoint, Tensors, check_shapes, parameter_shapes
from bert_tf.converters.tokenizer_files import copy_tokenizer, tokenizer_folder
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import OURS, find_model
from bert_tf.models.pretrained import CHECKPOINT, CONFIG, TASK
from bert_tf.storage import checksums, files, variables
from bert_tf.tasks.pretrained import read_saved_task


def read(path):
    """The `Checkpoint` in a model folder or in the folder of a finished run.

    Raises:
        BertTfError: a file is missing or damaged.
        UsageError: the files do not fit each other; tensors that differ are listed.
    """
    folder = checksums.opened(find_model(path, OURS).folder)
    config = ModelConfig.load(os.path.join(folder, CONFIG))
    prefix = os.path.join(folder, CHECKPOINT)
    reader = variables.VariableReader(prefix)
    task = read_saved_task(folder, reader.shapes)
    _check_labels(task, os.path.join(folder, TASK))
    expected = parameter_shapes(config, task)
    check_shapes(expected, reader.shapes, prefix)
    return Checkpoint(config, task,
                      Tensors(expected, lambda name: np.asarray(reader.load(name), np.float32)),
                      tokenizer_folder(folder))


def write(checkpoint, path):
    """Write a model folder, which `bert_tf.from_pretrained` reads.

    Returns: our tensors that it cannot hold: none.
    """
    with checksums.new_folder(path) as temporary:
        checkpoint.config.save(os.path.join(temporary, CONFIG))
        files.write_json(os.path.join(temporary, TASK), checkpoint.task)
        variables.write_variables(os.path.join(temporary, CHECKPOINT), checkpoint.tensors)
        copy_tokenizer(checkpoint.tokenizer, temporary)
    return []


def _check_labels(task, source):
    labels = task.get("labels")
    if task["task"] in ("classifier", "tagger") and not (
            isinstance(labels, list) and labels and all(isinstance(x, str) for x in labels)):
        raise UsageError(explain(f"{source}: labels={labels!r}", "a list of names"))
