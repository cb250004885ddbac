"""An evaluation: a model from whatever folder, examples, what it tells of them, how well."""

import argparse
import os
import time

import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.finetune import options as flags
from bert_tf.finetune.results import (
    PREDICTIONS,
    REPORT,
    described,
    missing,
    write_measured,
    write_results,
)
from bert_tf.finetune.trained_on import trained_on_notes
from bert_tf.models.pretrained import CONFIG, TASK
from bert_tf.saved_model.source import RESULTS, read_results
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.registry import find_task, make_type
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import CONFIG_NAME as TOKENIZER_CONFIG

RUN = "run.json"
_FORM = ("delimiter", "encoding", "header")  # flags about a table
_SAVED_MODEL, _EXTRA = "saved_model.pb", "assets.extra"


class Measurement:
    """One evaluation and its folder.

    Args:
        arguments: the flags of `evaluate`; None where not given.
        command: the command line, for `results.json`.
    """

    def __init__(self, arguments, command):
        self.arguments = arguments
        self.command = command
        self.started = time.monotonic()

    def path(self, *names):
        """A path in the output folder."""
        return os.path.join(self.arguments.output_dir, *names)

    def finish(self):
        """Measure unless that is done; return what `results.json` holds.

        Nothing is written before all is predicted: what is refused leaves nothing.
        """
        arguments = self.arguments
        served = files.exists(os.path.join(arguments.model, _SAVED_MODEL))
        folder = _about(arguments.model, served)
        parent, name = os.path.split(folder)
        self.run = parent if name == "model" else folder  # of a SavedModel what is kept of it
        self.complete()
        options = vars(arguments)
        inputs = [arguments.data, *(os.path.join(folder, name) for name in files.list_folder(folder)
                                    if files.is_file(os.path.join(folder, name)))]
        record = self.path("evaluation.json")
        made = (RESULTS, PREDICTIONS, REPORT)
        files.clean_temporary(self.path())
        manifest.check_own(record, made, "data")
        measured = files.exists(self.path(RESULTS))
        replace = arguments.overwrite or not measured
        same = manifest.finished(record, options, inputs, replace, arguments.verify_inputs)
        if same and measured and not missing(self.path()):
            print(f"{self.path()}: this is measured already; nothing to do")
            return read_results(self.path())
        results, measured = self.measure(folder, served)
        for name in made:
            files.remove(self.path(name))
        manifest.write(record, options, inputs)
        write_measured(*measured, self.path())
        write_results(self.path(), results)
        return results

    def complete(self):
        """Take from the run what no flag says: its task, its columns, how its tables are written.

        The columns are those of the run's task: of another one they have other names.

        Raises:
            UsageError: no task is told.
        """
        arguments = self.arguments
        path = os.path.join(self.run, RESULTS)
        known = read_results(self.run) if files.exists(path) else {}
        if arguments.task is None and "task" not in known:
            raise UsageError(explain(f"--model {arguments.model} does not say what it was "
                                     "fine-tuned for", "--task"))
        if arguments.task in (None, known.get("task")):
            arguments.task = known["task"]
            for name, column in known.get("columns", {}).items():
                if getattr(arguments, f"{name}_column") is None:
                    setattr(arguments, f"{name}_column", column)
            record = os.path.join(self.run, RUN)
            trained = manifest.read(record)["options"] if files.exists(record) else {}
            for name in _FORM:
                if getattr(arguments, name) is None:
                    setattr(arguments, name, trained.get(name))

    def measure(self, folder, served):
        """`(results, (task_type, examples, predictions))`, the first for `results.json`."""
        arguments = self.arguments
        model = checksums.opened(arguments.model if served else folder)
        folder = os.path.join(model, _EXTRA) if served else model
        about = files.read_json_object(os.path.join(folder, TASK)) if files.exists(
            os.path.join(folder, TASK)) else {"task": "encoder"}
        task = find_task(arguments.task, about.get("problem") == "multi_label")
        task_type = make_type(task, self.type_options(), about["task"])
        task_type.check_model(about, arguments.model)
        examples, left_out = flags.read_examples(task, arguments.data, arguments)
        task_type.check_examples(examples, about, served)
        if served:
            about["pretokenize"] = _pretokenize(folder)
            signatures = tf.saved_model.load(model).signatures
            predictions = task_type.predict_served(signatures, about, examples)
        else:
            predictions = task_type.predict(_load(folder, task_type, about), examples)
        metrics = task_type.metrics(examples, predictions)
        notes = task_type.notes(examples, predictions, metrics)
        notes += trained_on_notes(self.run, examples)
        return {"task": task.name, "metrics": metrics, **described(task_type, about.get("labels",
                                                                                        [])),
                "notes": notes, "examples": len(examples), "left_out": left_out,
                "model": arguments.model, "seconds": round(time.monotonic() - self.started, 1),
                "command": self.command}, (task_type, examples, predictions)

    def type_options(self):
        """The flags that the model was trained with, or their defaults, and those given now."""
        parser = argparse.ArgumentParser(add_help=False)
        flags.add_finetune_flags(parser)
        values = vars(parser.parse_args(["--task", "", "--train", "", "--dev", "",
                                         "--output_dir", ""]))
        run = os.path.join(self.arguments.model, RUN)
        if files.exists(run):
            values.update(manifest.read(run)["options"])
        values.update({name: value for name, value in vars(self.arguments).items()
                       if value is not None})
        return argparse.Namespace(**values)


def _about(model, served):
    """Folder with the files about the model at the path `model`."""
    if served:
        return os.path.join(model, _EXTRA)
    for folder in (os.path.join(model, "model"), model):
        if files.exists(os.path.join(folder, CONFIG)):
            return folder
    raise UsageError(explain(f"--model {model} holds no model",
                             "the folder of a finetune run, a model folder (with "
                             f"{CONFIG}) or a version of a SavedModel (with {_SAVED_MODEL})"))


def _pretokenize(folder):
    """What the tokenizer in `folder` says of text that it is given; None without one."""
    path = os.path.join(folder, TOKENIZER_CONFIG)
    return files.read_json_object(path).get("pretokenize") if files.exists(path) else None


def _load(folder, task_type, about):
    """The model in `folder`, with a preprocessor also where none was saved with it."""
    if "reading" in about:
        return from_pretrained(folder, task_type.built_as)
    options = task_type.options
    if options.seq_length is None:
        longest = ModelConfig.load(os.path.join(folder, CONFIG)).longest
        options.seq_length = min(task_type.task.seq_length, longest)
    made = task_type.model_options(about.get("labels", []), load_tokenizer(folder))[1]
    return from_pretrained(folder, task_type.built_as, preprocessor=made["preprocessor"])
