"""Any of our models, read from its folder."""

import contextlib
import os

from bert_tf.config import ModelConfig
from bert_tf.errors import NoTextError, UsageError, check_choice, explain
from bert_tf.models.families import build_encoder
from bert_tf.models.pretrained import CHECKPOINT, CONFIG, TASK
from bert_tf.storage import checksums, files, variables
from bert_tf.tasks.classifier import Classifier
from bert_tf.tasks.language_model import LanguageModel
from bert_tf.tasks.pretraining import Pretrainer
from bert_tf.tasks.question_reader import QuestionReader
from bert_tf.tasks.reader import TextReader
from bert_tf.tasks.replaced_tokens import ReplacedTokens
from bert_tf.tasks.sentence_embedder import SentenceEmbedder
from bert_tf.tasks.span import Span
from bert_tf.tasks.tagger import Tagger
from bert_tf.tasks.word_reader import WordReader
from bert_tf.tokenization.load import holds_tokenizer, load_tokenizer

TASKS = {"encoder": build_encoder, "pretraining": Pretrainer, "language_model": LanguageModel,
         "replaced_tokens": ReplacedTokens, "classifier": Classifier, "span": Span,
         "tagger": Tagger, "embedder": SentenceEmbedder}
# What `task.json` holds beside the task.
_OPTIONS = {"pretraining": ("sentence_task",), "replaced_tokens": ("generator",),
            "classifier": ("labels",), "tagger": ("labels",),
            "embedder": ("pooling", "layers", "combine", "mask_specials", "special_ids",
                         "weighting", "normalize")}
# What it may hold: options with a default, and how text becomes inputs.
_FURTHER = {"classifier": ("problem", "features", "reading"),
            "span": ("n_best", "max_answer_length", "null_threshold", "reading"),
            "tagger": ("features", "reading"), "embedder": ("reading",)}
# How text becomes inputs, where it is not as for a `TextReader`.
_READERS = {"span": QuestionReader, "tagger": WordReader}
# Parts of an encoder that `config` may add to a saved one.
_ADDED = {"bilstm": lambda config: config.bilstm,
          "pooler": lambda config: config.pooling == "dense"}


def from_pretrained(path, task=None, config=None, **options):
    """Read a model folder, or build a model of another task on its encoder.

    Every variable of the encoder comes from the folder. A head starts with initial weights only
    where the folder cannot hold it: another `task` than it was saved for, or other options of
    that task, such as new `labels`. So does what `config` adds to the encoder: `bilstm=True`,
    `pooling="dense"`. The paths of such variables are `model.fresh_variables`.

        from_pretrained("runs/bert_tiny", "classifier", labels=["no", "yes"])

    Args:
        path: written by `save_pretrained`, or the folder of a finished run.
        task: one of `TASKS` to build with these weights, `"encoder"` for the encoder alone; None
            for what was saved.
        config: a dict of `ModelConfig` fields to change, such as `hidden_dropout_prob`.
        options: passed on to the class, for example `dtype="mixed_bfloat16"`, `labels` of a
            classifier or `encoder_outputs=True` of an encoder.

    Returns: the Keras model, with `config`, `encoder` (of a task) and `save_pretrained`.

    Raises:
        BertTfError: the folder or a file in it is missing or damaged.
        UsageError: the checkpoint lacks a variable of the model or, where the model is the one
            saved, has further ones; all are listed.
    """
    folder = os.path.join(path, "model")
    folder = folder if files.exists(os.path.join(folder, CONFIG)) else path
    folder = checksums.opened(folder)
    saved_config = ModelConfig.load(os.path.join(folder, CONFIG))
    prefix = os.path.join(folder, CHECKPOINT)
    tensors = variables.read_variables(prefix)
    saved = read_saved_task(folder, tensors)
    saved_task = saved.pop("task")
    reading = saved.pop("reading", None)
    task = check_choice("task", saved_task if task is None else task, TASKS)
    if task != saved_task:
        saved = {}
    if "labels" in _OPTIONS.get(task, ()) and "labels" not in {**saved, **options}:
        raise UsageError(explain(f"task={task!r} without labels", "labels=[names]"))
    if reading and task == saved_task and "reader" not in options:
        options["reader"] = _READERS.get(task, TextReader)(load_tokenizer(folder), **reading)
    config = saved_config.replace(**(config or {}))
    model = TASKS[task](config, **{**saved, **options})
    told = model.task_config()
    changed = {name for name in (*saved, "features")
               if name in options and told.get(name) != saved.get(name)}
    gone = "cls/" if changed & {"labels", "features"} else ""  # which the head is about
    if task != saved_task:
        gone = "cls/features/"
    if gone:
        tensors = {name: value for name, value in tensors.items() if not name.startswith(gone)}

    added = [f"{config.family}/{part}/" for part, held in _ADDED.items()
             if held(config) and not held(saved_config)]
    new_heads = bool(task != saved_task or changed)

    def may_be_fresh(name):
        head = not name.startswith(f"{config.family}/")
        return (new_heads and head) or name.startswith(tuple(added))

    fresh = {variable.path for variable in model.weights
             if variable.path not in tensors and may_be_fresh(variable.path)}
    held = [variable for variable in model.weights if variable.path not in fresh]
    if not new_heads and config == saved_config:
        _refuse_further(tensors, held, prefix)
    variables.assign_variables(held, tensors, prefix)
    model.fresh_variables = tuple(sorted(fresh))
    if task == "language_model" and holds_tokenizer(folder):
        with contextlib.suppress(NoTextError):  # rules that we do not run: ids alone are taken
            model.tokenizer = load_tokenizer(folder)
    return model


def _refuse_further(tensors, model_variables, prefix):
    further = sorted(set(tensors) - {variable.path for variable in model_variables})
    if further:
        raise UsageError(f"{prefix} holds what the model has not:\n"
                         + "\n".join(f"+ {name} {tensors[name].shape}" for name in further))


def read_saved_task(folder, tensors):
    """What `task.json` says; of a folder without one, what its tensors' names tell.

    Raises:
        UsageError: it names no task, or not what that task needs.
    """
    path = os.path.join(folder, TASK)
    if files.exists(path):
        saved = files.read_json(path)
        if not isinstance(saved, dict) or saved.get("task") not in list(TASKS):
            raise UsageError(explain(f"{path} names no task", f"one of {', '.join(TASKS)}"))
        wanted = {"task", *_OPTIONS.get(saved["task"], ())}
        if set(saved) - set(_FURTHER.get(saved["task"], ())) != wanted:
            raise UsageError(explain(f"{path} has the keys {', '.join(sorted(saved))}",
                                     ", ".join(sorted(wanted))))
        return saved
    if not any(name.startswith("cls/predictions") for name in tensors):
        return {"task": "encoder"}
    next_sentence = any("seq_relationship" in name for name in tensors)
    return {"task": "pretraining", "sentence_task": "next_sentence" if next_sentence else None}
