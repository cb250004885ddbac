"""What all kinds of tasks share: features made once, and a model's answers in one graph."""

import sys

import numpy as np
import tensorflow as tf
import tqdm

from bert_tf.data.task_input import by_length, in_order
from bert_tf.models.families import INPUTS

BATCH_TOKENS = 4096  # positions that are predicted together


def predicting(total):
    """A progress bar over what a model is asked about; seen where that takes longer."""
    return tqdm.tqdm(desc="predicting", total=total, delay=2, leave=False,
                     mininterval=0.2 if sys.stderr.isatty() else 10.0)


def served_batches(sizes, budget):
    """`by_length`, with the bar of `predicting`."""
    bar = predicting(len(sizes))
    for rows in by_length(sizes, budget):
        yield rows
        bar.update(len(rows))
    bar.close()


class Kind:
    """Base of the kinds; what a kind is, `bert_tf/finetuning/kinds.py` says.

    Args:
        task: a `data.tasks.Task`.
        options: the flags of `finetune`, as a namespace.
    """

    text_fields = ()  # of an example, all that is text
    models = ()  # names of the tasks in task.json whose models can be asked
    built_as = None  # task that from_pretrained builds from such a model; None as it was saved

    def __init__(self, task, options):
        self.task = task
        self.options = options
        self._features = (None, None)
        self._forward = (None, None)

    @property
    def monitor(self):
        """Name of the metric by which an epoch is chosen, and Python's `min` or `max`."""
        name, better = self.task.monitor
        return name, {"min": min, "max": max}[better]

    def predict_dev(self, model, examples):
        """`predict` on the examples that models are chosen by.

        A kind may first set in `model` what is chosen by them, too.
        """
        return self.predict(model, examples)

    def positive_label(self, labels):
        """The label that the metric `f1` is about, of the model's labels; None of any other f1."""

    def notes(self, examples, predictions, metrics):
        """Lines about answers that are no better than what could be told without a model."""
        return []

    def cut_at(self, reader):
        """What of an example may be cut, a word, and after how many tokens; None where nothing is.

        `Features.cut` counts those that are longer.
        """

    def texts(self, examples):
        """All different texts of the examples, to learn a vocabulary from; list of str."""
        return list(dict.fromkeys(text for example in examples for name in self.text_fields
                                  if (text := getattr(example, name)) is not None))

    def feature_options(self):
        """What `--features` adds to `model_options`: see `Labelled`."""
        options = self.options
        return {} if options.features is None else {"features": {
            "layers": options.features, "combine": options.combine,
            "lstm_size": options.lstm_size}}

    def asked(self, model, examples):
        """`features` of `examples` without training, made once for the list that was last asked."""
        of, features = self._features
        if of is not examples:
            features = self.features(examples, model, training=False)
            self._features = (examples, features)
        return features

    def outputs(self, model, features):
        """What `model` gives for every row of `features`, by length.

        Returns: iterator of `(rows, outputs, batch)`: int64 `[b]`, which rows they are; arrays, of
            the structure and shapes of the model's outputs; the dict of tensors that went in.
        """
        bar = predicting(len(features))
        for rows, batch in in_order(features, BATCH_TOKENS, model.config.padding_id):
            inputs = {name: batch[name] for name in INPUTS}
            outputs = self._function(model, inputs)(inputs)
            yield rows, tf.nest.map_structure(np.asarray, outputs), batch
            bar.update(len(rows))
        bar.close()

    def _function(self, model, inputs):
        """The graph of `model`, one for batches and rows of any length."""
        of, function = self._forward
        if of is not model:
            signature = {name: tf.TensorSpec([None] * len(ids.shape), tf.int32)
                         for name, ids in inputs.items()}
            function = tf.function(lambda inputs: model(inputs, training=False),
                                   autograph=False).get_concrete_function(signature)
            self._forward = (model, function)
        return function
