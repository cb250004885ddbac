"""Any of our models, read from its folder."""

import contextlib
import dataclasses
import functools
import os

from bert_tf.config import ModelConfig
from bert_tf.data.tables import composed
from bert_tf.errors import NoTextError, UsageError, check_choice, explain
from bert_tf.layers.initializers import assigned_later
from bert_tf.models.find import model_folder
from bert_tf.models.pretrained import CHECKPOINT, CONFIG, TASK
from bert_tf.storage import checksums, files, variables
from bert_tf.tasks.base.labelled import check_labels
from bert_tf.tasks.registry import model_classes, named_elsewhere
from bert_tf.tokenization.load import holds_tokenizer, load_tokenizer

# Parts of an encoder that `config` may add to a saved one.
_ADDED = {"bilstm": lambda config: config.bilstm,
          "pooler": lambda config: config.pooling == "dense"}


@dataclasses.dataclass(frozen=True)
class Saved:
    """The saved parts of a model, wherever it was.

    Attributes:
        config: its `ModelConfig`.
        task: the content of `task.json`.
        tensors: `{path of a variable: array}`.
        folder: that of its tokenizer.
        source: what errors call the tensors.
    """

    config: ModelConfig
    task: dict
    tensors: dict
    folder: str
    source: str

    @classmethod
    def read(cls, path):
        """Read a model folder, or that of a finished run.

        Raises:
            BertTfError: a file is missing or damaged.
        """
        folder = checksums.opened(model_folder(path) or path)
        config = ModelConfig.load(os.path.join(folder, CONFIG))
        prefix = os.path.join(folder, CHECKPOINT)
        tensors = variables.read_variables(prefix)
        return cls(config, read_saved_task(folder, tensors), tensors, folder, prefix)

    def build(self, task=None, config=None, **options):
        """Build the Keras model; see `from_pretrained`."""
        saved = dict(self.task)
        saved_task = saved.pop("task")
        reading = saved.pop("reading", {})  # None: of a published model, otherwise than ours
        known = model_classes()
        task = check_choice("task", saved_task if task is None else task, known, named_elsewhere)
        if task != saved_task:
            # What is saved of a ranker is a classifier; its template, if it has one, stays.
            in_template = task == "ranker" and (reading or {}).get("template")
            saved, reading = {}, reading if in_template else {}
        model_class = known[task]
        if "labels" in saved and "labels" not in options and (
                options.get("num_labels") not in (None, len(saved["labels"]))):
            # As many others, not those that are saved.
            options["labels"] = check_labels(None, options.pop("num_labels"), least=1)
        if "hidden_dropout_prob" in (config or {}):
            saved.pop("dropout", None)  # of the head: it is the rate asked for, too
        needed = model_class.needed_head
        if needed and not any(name.startswith(needed) for name in self.tensors):
            raise UsageError(explain(
                f"{self.source}, of the task {saved_task!r}, as {task!r}: it holds no {needed}…",
                "a model with a masked-LM head"))
        config = self.config.replace(**(config or {}))
        read_by = functools.partial(_preprocessor, model_class.preprocessor_class, self.folder,
                                    config=config, name=options.get("name"))
        reads_text = model_class.preprocessor_class and "preprocessor" not in options
        if reads_text:
            options["preprocessor"] = read_by(reading)
            if task == saved_task == "classifier" and not reading and options["preprocessor"]:
                options["preprocessor"].pair = None  # nothing says what it was trained on
        tensors, encoder = self.tensors, f"{config.family}/"
        if options.get("name") and task == "encoder":  # the paths of its variables begin with it
            family, encoder = encoder, f"{options['name']}/"
            tensors = {encoder + name.removeprefix(family): value
                       for name, value in tensors.items() if name.startswith(family)}
        # A head of this name may be another task's.
        with assigned_later(name for name in tensors if name.startswith(encoder)):
            model = model_class(config, **{**saved, **options})
        now = model.options()
        changed = {name for name in (*saved, "features")
                   if name in options and _known_as(now.get(name)) != _known_as(saved.get(name))}
        new_heads = bool(task != saved_task or changed)
        unused = _head_of(task != saved_task, changed)
        if reading is None and not unused:
            _keep_ids_alone(model, self.folder)
        elif reading is None and reads_text:  # a new head learns from text as we read it
            model.preprocessor = read_by({})
        _assign(model, encoder, self, {name: value for name, value in tensors.items()
                                       if not (unused and name.startswith(unused))}, new_heads)
        return model


def _known_as(value):
    """Return an option as it is compared: names, such as labels, composed."""
    return [composed(each) if isinstance(each, str) else each for each in value] if isinstance(
        value, list | tuple) else value


def from_pretrained(path, task=None, config=None, **options):
    """Read a model as `bert_tf.from_pretrained` does, see there; of paths a model folder or that of
    a finished run."""
    return Saved.read(path).build(task, config, **options)


def _preprocessor(preprocessor_class, folder, reading, config, name):
    """Return the preprocessor as saved; else with its defaults, or None without a tokenizer for
    it, or where none reads text as the model does."""
    if reading is None:
        return None
    # Keras wants different names of all layers of a model, which may have two encoders.
    named = {"name": f"{name}_preprocessor"} if name else {}
    if reading:
        return preprocessor_class(load_tokenizer(folder), **reading, **named)
    try:
        preprocessor = preprocessor_class(load_tokenizer(folder), **named)
    except UsageError:
        return None
    if preprocessor.seq_length > config.longest:
        preprocessor.resize(config.longest)
    return preprocessor


def _keep_ids_alone(model, folder):
    """Mark a model whose text none of our preprocessors reads as it was, so that it is saved so."""
    model.text_read_otherwise = True
    with contextlib.suppress(UsageError):  # rules that we do not run
        model.tokenizer = load_tokenizer(folder)


def _head_of(another_task, changed):
    """Return the beginning of the paths of saved variables that are of no use; "" for none."""
    if another_task:
        return "cls/features/"
    return "cls/" if changed & {"labels", "features"} else ""


def _assign(model, encoder, saved, tensors, new_heads):
    """Give a model the saved weights, of which those of its encoder begin with `encoder`; see
    `from_pretrained`."""
    config = model.config
    if new_heads:  # one of as many logits as another task's is no other
        shapes = {variable.path: tuple(variable.shape) for variable in model.weights}
        tensors = {name: value for name, value in tensors.items()
                   if name.startswith(encoder) or shapes.get(name) in (None, value.shape)}
    added = [f"{encoder}{part}/" for part, held in _ADDED.items()
             if held(config) and not held(saved.config)]

    def may_be_fresh(name):
        head = not name.startswith(encoder)
        return (new_heads and head) or name.startswith(tuple(added))

    fresh = {variable.path for variable in model.weights
             if variable.path not in tensors and may_be_fresh(variable.path)}
    held = [variable for variable in model.weights if variable.path not in fresh]
    if not new_heads and config == saved.config:
        _refuse_further(tensors, held, saved.source)
    variables.assign_variables(held, tensors, saved.source)
    model.fresh_variables = tuple(sorted(fresh))
    if hasattr(model, "tokenizer") and model.tokenizer is None and holds_tokenizer(saved.folder):
        with contextlib.suppress(NoTextError):  # rules that we do not run: ids alone are taken
            model.tokenizer = load_tokenizer(saved.folder)


def _refuse_further(tensors, model_variables, source):
    further = sorted(set(tensors) - {variable.path for variable in model_variables})
    if further:
        raise UsageError(f"{source} holds variables that the model does not have:\n"
                         + "\n".join(f"+ {name} {tensors[name].shape}" for name in further))


def read_saved_task(folder, tensors):
    """Return the content of `task.json`; of a folder without one, what its tensors' names imply.

    Raises:
        UsageError: it names no task, or not what that task needs.
    """
    path = os.path.join(folder, TASK)
    if files.exists(path):
        saved, known = files.read_json(path), model_classes()
        if not isinstance(saved, dict) or saved.get("task") not in list(known):
            raise UsageError(explain(f"{path} names no task", f"one of {', '.join(known)}"))
        model_class = known[saved["task"]]
        expected = {"task", *model_class.required_options}
        if set(saved) - {*model_class.further_options, "reading"} != expected:
            raise UsageError(explain(f"{path} has the keys {', '.join(sorted(saved))}",
                                     ", ".join(sorted(expected))))
        return saved
    if not any(name.startswith("cls/predictions") for name in tensors):
        return {"task": "encoder"}
    next_sentence = any("seq_relationship" in name for name in tensors)
    return {"task": "pretraining", "sentence_task": "next_sentence" if next_sentence else None}
