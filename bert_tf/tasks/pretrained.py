"""Any of our models, read from its folder."""

import os

from bert_tf import files, variables
from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.models.families import build_encoder
from bert_tf.models.pretrained import CHECKPOINT, CONFIG, TASK
from bert_tf.tasks.pretraining import Pretrainer
from bert_tf.tasks.replaced_tokens import ReplacedTokens

TASKS = {"encoder": build_encoder, "pretraining": Pretrainer,
         "replaced_tokens": ReplacedTokens}


def from_pretrained(path, task=None, **options):
    """Read a model folder.

    Args:
        path: written by `save_pretrained`, or the folder of a finished run.
        task: one of `TASKS` to build with these weights, `"encoder"` for the encoder alone; None
            for what was saved.
        options: passed on to the class, for example `dtype="mixed_bfloat16"` or
            `encoder_outputs=True`.

    Returns: the Keras model, with `config`, `encoder` (of a task) and `save_pretrained`.

    Raises:
        BertTfError: the folder or a file in it is missing or damaged.
        UsageError: the checkpoint lacks a variable of the model; all are listed.
    """
    folder = os.path.join(path, "model")
    folder = folder if files.exists(os.path.join(folder, CONFIG)) else path
    config = ModelConfig.load(os.path.join(folder, CONFIG))
    prefix = os.path.join(folder, CHECKPOINT)
    tensors = variables.read_variables(prefix)
    saved = read_task(folder, tensors)
    name = saved.pop("task")
    if task is not None and task != name:
        name, saved = task, {}
    model = TASKS[check_choice("task", name, TASKS)](config, **{**saved, **options})
    variables.assign_variables(model.trainable_variables, tensors, prefix)
    return model


def read_task(folder, tensors):
    """What `task.json` says; of a folder without one, what its tensors' names tell.

    Raises:
        UsageError: it names no task.
    """
    path = os.path.join(folder, TASK)
    if files.exists(path):
        saved = files.read_json(path)
        if not isinstance(saved, dict) or saved.get("task") not in TASKS:
            raise UsageError(explain(f"{path} names no task", f"one of {', '.join(TASKS)}"))
        return saved
    if not any(name.startswith("cls/predictions") for name in tensors):
        return {"task": "encoder"}
    next_sentence = any("seq_relationship" in name for name in tensors)
    return {"task": "pretraining", "sentence_task": "next_sentence" if next_sentence else None}
