"""An evaluation: a model from whatever folder, examples, predictions, metrics."""

import dataclasses
import os
import time

import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.converters.own_folder import own_path
from bert_tf.data.tables import has_column
from bert_tf.errors import NoTextError, UsageError, explain
from bert_tf.finetune.config import (
    AnswerOptions,
    FeatureOptions,
    FinetuneConfig,
    InputOptions,
    LongTextOptions,
    TableOptions,
    TagOptions,
)
from bert_tf.finetune.known import RUN, completed, known_options
from bert_tf.finetune.results import (
    PREDICTIONS,
    REPORT,
    described,
    missing,
    write_measured,
    write_results,
)
from bert_tf.finetune.trained_on import trained_on_notes
from bert_tf.models.find import EXTRA, OURS, SERVED, deciding_files, find_model
from bert_tf.models.pretrained import CONFIG, TASK, says_read_otherwise, takes_no_text
from bert_tf.options import current_name
from bert_tf.saved_model.ops import check_processor
from bert_tf.saved_model.source import RESULTS, read_results
from bert_tf.shapes import check_weights
from bert_tf.storage import checksums, files, manifest
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.registry import find_task, make_type
from bert_tf.tokenization.load import load_tokenizer
from bert_tf.tokenization.tokenizer import CONFIG_NAME as TOKENIZER_CONFIG
from bert_tf.training.run_folder import OutputFolder

# Of the options of a fine-tuning those that an evaluation heeds.
_HEEDED = {field.name for options in (InputOptions, LongTextOptions, TagOptions, AnswerOptions,
                                      FeatureOptions, TableOptions)
           for field in dataclasses.fields(options)}


class Evaluation(OutputFolder):
    """One evaluation and its folder.

    Args:
        options: `EvaluateConfig` with an `output_dir`.
        command: the command line, for `results.json`.
    """

    made = (RESULTS, PREDICTIONS, REPORT)

    def __init__(self, options, command):
        self.options = options
        self.command = command
        self.started = time.monotonic()

    def finish(self):
        """Measure unless that is done; return what `results.json` holds.

        Nothing is written before all is predicted: what is refused leaves nothing.
        """
        inputs = self.find()
        options = self.options
        record = self.path("evaluation.json")
        files.clean_temporary(self.path())
        manifest.check_own(record, self.made, "data")
        measured = files.exists(self.path(RESULTS))
        replace = options.overwrite or not measured
        same = manifest.finished(record, options.stored(), inputs, replace, options.verify_inputs)
        if same and measured and not missing(self.path()):
            print(f"{self.path()}: this is measured already; nothing to do")
            return read_results(self.path())
        results, measured = self.measure()
        for name in self.made:
            files.remove(self.path(name))
        manifest.write(record, options.stored(), inputs)
        self.write(*measured)
        write_results(self.path(), results, self.made[1:])
        return results

    def find(self):
        """Find the model and complete the options; return the files that the results depend on."""
        self.found = find_model(self.options.model)
        if self.found.kind in SERVED:
            self._check_nothing_fixed()
        self.run, known = known_options(self.found)
        if self.options.task is None and known.get("task") is None:
            raise UsageError(explain(f"--model {self.options.model} does not say what it was "
                                     "fine-tuned for", "--task"))
        self.asked = self.options.columns()
        self.options = completed(self.options, known, [self.options.data])
        self.options.check_type(self.options.task, find_task(self.options.task).type)
        return [self.options.data, *deciding_files(self.options.model)]

    def _check_nothing_fixed(self):
        """Refuse options that are part of an exported graph."""
        for field in dataclasses.fields(AnswerOptions):
            given = getattr(self.options, field.name) is not None
            if given and field.name != "null_threshold":  # that one is compared with its answers
                raise UsageError(explain(
                    f"--{field.name} with the SavedModel {self.options.model}, whose graph has its "
                    "own", "it left out, or the model folder that was exported"))

    def write(self, task_type, examples, predictions):
        """Write what `measure` gave beside the results."""
        write_measured(task_type, examples, predictions, self.path())

    def measure(self):
        """`(results, (task_type, examples, predictions))`, the first for `results.json`."""
        if self.found.kind in SERVED:
            return self.measure_in(checksums.opened(self.found.path), served=True)
        with own_path(self.options.model) as path:
            return self.measure_in(checksums.opened(find_model(path, OURS).folder), served=False)

    def measure_in(self, model, served):
        """The same of a version of a SavedModel or a model folder of ours."""
        options = self.options
        folder = os.path.join(model, EXTRA) if served else model
        about = files.read_json_object(os.path.join(folder, TASK)) if files.exists(
            os.path.join(folder, TASK)) else {"task": "encoder"}
        task = find_task(options.task, about.get("problem") == "multi_label")
        task_type = make_type(task, self.type_options(), about["task"])
        task_type.check_model(about, options.model)
        if says_read_otherwise(about):
            raise NoTextError(takes_no_text(options.model, True))
        examples, left_out = self.columns_there().read_examples(task, options.data)
        task_type.check_examples(examples, about, served)
        if served:
            check_processor(model)
            about["pretokenize"] = _pretokenize(folder)
            signatures = tf.saved_model.load(model).signatures
            predictions = task_type.predict_served(signatures, about, examples)
        else:
            loaded = _load(folder, task_type, about)
            check_weights(loaded, options.model)
            predictions = task_type.predict(loaded, examples)
        metrics = task_type.metrics(examples, predictions)
        notes = task_type.notes(examples, predictions, metrics)
        notes += trained_on_notes(self.run, examples)
        return {"task": task.name, "metrics": metrics, **described(task_type, about.get("labels",
                                                                                        [])),
                "notes": notes, "examples": len(examples), "left_out": left_out,
                "model": options.model, "seconds": round(time.monotonic() - self.started, 1),
                "command": self.command}, (task_type, examples, predictions)

    def columns_there(self):
        """Return the options without a column of ids that the run had and the data lacks."""
        options = self.options
        if options.id_column in (None, self.asked.get("id")) or has_column(
                options.data, options.id_column, options.form()):
            return options
        return options.replace(id_column=None)

    def type_options(self):
        """The options that the model was trained with, or their defaults, and those given now."""
        run = os.path.join(self.found.path, RUN)
        trained = manifest.read(run)["options"] if files.exists(run) else {}
        given = {name: value for name, value in self.options.to_dict().items() if value is not None}
        values = {current_name(name): value for name, value in trained.items()}
        if not find_task(self.options.task).unanswerable:
            values.pop("null_threshold", None)
        values |= given
        return FinetuneConfig(task=self.options.task, train="", dev="", output_dir="", **{
            name: value for name, value in values.items() if name in _HEEDED})


def _pretokenize(folder):
    """What the tokenizer in `folder` says of text that it is given; None without one."""
    path = os.path.join(folder, TOKENIZER_CONFIG)
    return files.read_json_object(path).get("pretokenize") if files.exists(path) else None


def _load(folder, task_type, about):
    """The model in `folder`, with a preprocessor also where none was saved with it."""
    if "reading" in about:
        return from_pretrained(folder, task_type.built_as)
    if task_type.options.max_seq_length is None:
        longest = ModelConfig.load(os.path.join(folder, CONFIG)).longest
        task_type.options = task_type.options.replace(
            max_seq_length=min(task_type.task.seq_length, longest))
    made = task_type.model_options(about.get("labels", []), load_tokenizer(folder))[1]
    return from_pretrained(folder, task_type.built_as, preprocessor=made["preprocessor"])
