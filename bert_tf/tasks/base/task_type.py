"""Base of all task types: features made once, and a model's predictions in one graph."""

import contextlib
import dataclasses
import json

import numpy as np
import tensorflow as tf

from bert_tf import side_by_side
from bert_tf.data.processes import in_threads
from bert_tf.data.task_input import in_order
from bert_tf.errors import UsageError, explain
from bert_tf.models.families import INPUTS
from bert_tf.retrieval.codes import VectorCode
from bert_tf.tasks.base.character_batches import batches_by_length, progress_bar, sizes_of
from bert_tf.tokenization.morphemes import analyse

BATCH_TOKENS = 4096  # positions that are predicted together
SCORE_DIGITS = 6  # of a score in predictions.jsonl


class TaskType:
    """Base of the types of tasks: from labelled examples to features, from outputs to metrics.

    A subclass sets `models` and defines `model_options`, `features`, `predict`, `predict_served`
    and `metrics`, where it has labels also `labels`; the rest as far as it differs.

    Args:
        task: a `Task`.
        options: the fields of `FinetuneConfig`.
    """

    models = ()  # Keras model classes: the first is fine-tuned, all can be evaluated
    answered_by = ()  # signatures of a SavedModel that predict for unlabelled texts, the first best
    measures_rows = False  # whether a row of a table is an example, which has a `prediction`
    built_as = None  # `saved_as` of the class that an evaluated model is built as; None: its own

    def __init__(self, task, options):
        self.task = task
        self.options = options
        self._features = (None, None)
        self._forward = (None, None)

    @classmethod
    def evaluates(cls, task, saved_task):
        """Return whether this type evaluates a model saved as `saved_task` on another's task."""
        return False

    def labels(self, train):
        """Return the names of the labels of the train examples, in the order of the logits.

        Raises:
            BertTfError: nothing can be learned from these examples.
        """
        return []

    def measure_on(self, examples):
        """Learn on what examples models are compared; the metric, `monitor`, may depend on them.

        Raises:
            BertTfError: nothing can be measured on them.
        """

    def model_options(self, labels, tokenizer):
        """Return `(task, options)` for `from_pretrained`; among the options the preprocessor."""
        raise NotImplementedError

    def encoder_options(self):
        """Return the fields of `ModelConfig` that the options change, a dict."""
        return {}

    def features(self, examples, model, training):
        """Return the `Features` of examples for a model, with labels for training."""
        raise NotImplementedError

    def predict(self, model, examples):
        """Return a dict for each example, JSON values: its `id` and what the model predicts."""
        raise NotImplementedError

    def predict_dev(self, model, examples):
        """Return `predict` of the examples by which models are compared, tuned."""
        return self.tuned(model, examples, self.predict(model, examples))

    def tuned(self, model, examples, predictions):
        """Set in `model` what is chosen by its predictions for the dev examples; return these as
        they are then."""
        return predictions

    def predict_served(self, signatures, about, examples):
        """Return what `predict` does, of a SavedModel.

        Args:
            signatures: of the loaded SavedModel, by name.
            about: dict of what its model's `task.json` says, and its tokenizer's `pretokenize`.
            examples: list of `Example`.

        Raises:
            UsageError: it has no signature that takes such examples.
        """
        raise NotImplementedError

    def prediction(self, example, row):
        """Return what `predict` does of one example, as far as `metrics` reads it.

        Args:
            example: an `Example`.
            row: what a signature of `answered_by` gives of it, as `Predictor` has it: a dict.

        Returns: a dict; None where its label is none of the model's.
        """
        raise NotImplementedError

    def metrics(self, examples, predictions):
        """Return `{metric: float}`, among them the one by which models are compared."""
        raise NotImplementedError

    def measured(self, pairs):
        """Return `metrics` of any number of examples, and how many these are.

        Args:
            pairs: iterable of `(example, prediction)`, with predictions as `prediction` gives them.
        """
        examples, predictions = [], []
        for example, prediction in pairs:
            id = str(len(examples))  # its own may be that of another file's, too
            examples.append(dataclasses.replace(example.without_text(), id=id))
            predictions.append({**prediction, "id": id})
        return (self.metrics(examples, predictions) if examples else {}), len(examples)

    def report(self, examples, predictions, folder):
        """Write pictures and tables for people into `folder`; return lines to be printed."""
        return []

    def notes(self, examples, predictions, metrics):
        """Return lines about predictions that are no better than some without a model."""
        return []

    @property
    def monitor(self):
        """The metric by which an epoch is chosen, and Python's `min` or `max`."""
        name, better = self.task.monitor
        return name, {"min": min, "max": max}[better]

    def positive_label(self, labels):
        """Return the one of the model's labels that the metric `f1` is about, if there is one."""

    def truncation(self, preprocessor):
        """Return `(what, tokens)`: the part of an example that is truncated, and to what length.

        None where nothing is. `Features.truncated` counts the examples that are longer.
        """

    def texts(self, examples):
        """Return all different texts of the examples, a list of str, to learn a vocabulary from."""
        return list(dict.fromkeys(text for example in examples for text in example.texts))

    def check_model(self, about, where):
        """Refuse a model that cannot be evaluated on this task.

        Args:
            about: what its `task.json` says.
            where: its path, for messages.

        Raises:
            UsageError: it is of another type, problem, or knows not all labels of the task.
        """
        names = [model.saved_as for model in self.models]
        if about["task"] not in names:
            raise UsageError(explain(
                f"--task {self.task.name} with {where}, whose task is {about['task']}",
                f"a model for {' or '.join(names)}", "bert_tf.finetune first"))
        if about.get("problem", self.task.problem) != self.task.problem:
            raise UsageError(explain(
                f"--task {self.task.name} has the problem {self.task.problem}, {where} "
                f"{about['problem']}", attempt="another --task"))
        labels = about.get("labels")
        if labels and self.task.labels and self.task.problem != "regression" and (
                set(self.task.labels) - set(labels)):
            raise UsageError(explain(
                f"{where} predicts the labels {', '.join(labels)}",
                f"those of --task {self.task.name}: {', '.join(self.task.labels)}",
                "these as id2label in config.json of a published model's copy, if the names alone "
                "differ"))

    def check_examples(self, examples, about, served):
        """Refuse examples that the model cannot read.

        Args:
            examples: list of `Example`.
            about: what its `task.json` says.
            served: whether it is a SavedModel.
        """

    def feature_options(self):
        """Return what `--features` adds to `model_options`: see `LabelledModel`."""
        options = self.options
        return {} if options.features is None else {"features": {
            "layers": list(options.features), "combine": options.combine,
            "lstm_size": options.lstm_size}}

    def features_to_predict(self, model, examples):
        """Return `features` without labels, made once for the list that was last requested."""
        of, features = self._features
        if of is not examples:
            features = self.features(examples, model, training=False)
            self._features = (examples, features)
        return features

    def outputs(self, model, features):
        """Yield what `model` gives for every row of `features`, by length.

        Returns: iterator of `(rows, outputs, batch)`: int64 `[b]`, which rows they are; arrays, of
            the structure and shapes of the model's outputs; the dict of tensors that went in.
        """
        names = (*INPUTS, *model.further_inputs)

        def compute(task):
            _, batch, function = task
            return tf.nest.map_structure(np.asarray, function({name: batch[name]
                                                               for name in names}))

        tasks = ((rows, batch, self._function(model, {name: batch[name] for name in names}))
                 for rows, batch in in_order(features, BATCH_TOKENS, model.config.padding_id))
        with progress_bar(len(features)) as bar, contextlib.closing(
                in_threads(tasks, compute, side_by_side.at_once())) as computed:
            for (rows, batch, _), outputs in computed:
                yield rows, outputs, batch
                bar.update(len(rows))

    def _function(self, model, inputs):
        """Return the graph of `model`, one for batches and rows of any length."""
        of, function = self._forward
        if of is not model:
            signature = {name: tf.TensorSpec([None] * len(ids.shape), tf.int32)
                         for name, ids in inputs.items()}
            function = tf.function(lambda inputs: model(inputs, training=False),
                                   autograph=False).get_concrete_function(signature)
            self._forward = (model, function)
        return function


def served_code(signatures):
    """Return the `VectorCode` of what a SavedModel's signature `embed` gives."""
    if "describe" not in signatures:  # written by an early version, or by others
        return VectorCode()
    answer = signatures["describe"](text=tf.constant([""]))["description"].numpy()
    return VectorCode.from_options(json.loads(answer[0]).get("embedding", {}))


def served_answers(signatures, name, columns, about):
    """Yield `(row, answer)` of each row of texts, those of similar length together.

    Args:
        signatures: of the SavedModel.
        name: of the signature that is asked.
        columns: `{argument of the signature: list of str}`, lists of one length.
        about: as of `TaskType.predict_served`.

    Yields: the row, and a dict of arrays, its rows of the outputs.

    Raises:
        UsageError: there is no such signature.
    """
    if name not in signatures:
        raise UsageError(explain(f"a SavedModel without the signature `{name}`, which takes text",
                                 attempt="exporting the model again"))
    if about.get("pretokenize"):
        columns = {argument: analyse(texts, progress=True) for argument, texts in columns.items()}
    for rows in batches_by_length(sizes_of(columns.values()), progress=True):
        answer = signatures[name](**{argument: tf.constant([texts[row] for row in rows])
                                     for argument, texts in columns.items()})
        answer = {key: values.numpy() for key, values in answer.items()}
        for index, row in enumerate(rows):
            yield row, {key: values[index] for key, values in answer.items()}
