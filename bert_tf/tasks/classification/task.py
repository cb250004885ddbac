"""Labels, any number of labels or a number for a text or a pair of texts."""

import array
import collections
import textwrap

import numpy as np

from bert_tf.data.tables import composed
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.tasks.base.examples import CHOSEN_FROM
from bert_tf.tasks.base.labelled import pooled_by
from bert_tf.tasks.base.regression_metrics import regression_metrics
from bert_tf.tasks.base.task_type import SCORE_DIGITS, TaskType, served_answers
from bert_tf.tasks.base.text_features import text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.confusion import write_confusion
from bert_tf.tasks.classification.metrics import classification_metrics, multi_label_metrics
from bert_tf.tasks.classification.model import Classifier

_SHOWN = 5  # labels in a message


class Classification(TaskType):
    """Tasks of a `Classifier`."""

    models = (Classifier,)
    answered_by = ("predict",)
    measures_rows = True

    def __init__(self, task, options):
        super().__init__(task, options)
        self.problem = task.problem
        self.pair = task.pair or options.text_b_column is not None
        self.known = []  # the labels, once the train examples are known
        if options.class_weights and self.problem != "single_label":
            raise UsageError(f"--class_weights with --task {task.name}: weights are for one label "
                             "a text; omit it")
        if self.pair and options.long != "head":
            raise UsageError(explain(f"--long {options.long} with pairs of texts",
                                     attempt="--long head"))

    def labels(self, train):
        """Return the labels, sorted, or as the task has them; of a number what it measures.

        Raises:
            BertTfError: an example has no label, or there are not two of them.
        """
        for example in train:
            if example.label is None:
                raise BertTfError(explain(f"{example.where}: no label",
                                          "one in every train example"))
        if self.problem == "multi_label":
            _note_separator([example.label for example in train])
        self.known = list(self.task.labels or sorted(
            {name for example in train for name in self._names(example)}))
        least = 1 if self.problem == "multi_label" else 2
        if not self.task.labels and len(self.known) < least:
            found = f"the only label of {len(train)} examples is {self.known[0]!r}" \
                if self.known else f"no label in {len(train)} examples"
            raise BertTfError(explain(found, "two or more" if least == 2 else "one or more"))
        return self.known

    def measure_on(self, examples):
        """See `TaskType.measure_on`: labels that no train example has are refused."""
        self._refuse_unknown(examples, self.known, "labels that no train example has",
                             attempt="train examples of them, or removing these rows")

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`; the text is read by `max_seq_length`, `long`, `stride`."""
        options = self.options
        preprocessor = TextPreprocessor(tokenizer, options.max_seq_length, options.long,
                                        options.stride, pair=self.pair)
        return "classifier", {"labels": labels, "problem": self.problem,
                              "preprocessor": preprocessor, **self.feature_options()}

    def encoder_options(self):
        """See `TaskType.encoder_options`; the vector that the head reads."""
        return pooled_by(self.options.pooling)

    def truncation(self, preprocessor):
        """See `TaskType.truncation`: texts, unless they are read in windows."""
        return None if preprocessor.long == "windows" else ("texts", preprocessor.seq_length)

    def features(self, examples, model, training):
        """See `TaskType.features`: a row an example, with labels and weights for training."""
        weights = "balanced" if training and self.options.class_weights else None
        return text_features(examples, model.preprocessor, model.labels, model.problem, weights)

    def predict(self, model, examples):
        """Return `{"id", "label", "score", "scores"}`, `{"id", "labels", "scores"}` or, of numbers,
        `{"id", "score"}` for each example.

        `score` is the probability of the label, or the number; `scores` are those of all labels.
        One of several labels is predicted where its probability is at least `CHOSEN_FROM`.
        """
        features = self.features_to_predict(model, examples)
        predicted = np.zeros([len(examples), len(model.labels)], np.float64)
        for rows, logits, _ in self.outputs(model, features):
            predicted[features.example[rows]] = model.probabilities(logits)
        return [self.line(example, values, model.labels)
                for example, values in zip(examples, predicted, strict=True)]

    def positive_label(self, labels):
        """See `TaskType.positive_label`: of two labels the last."""
        return labels[-1] if self.problem == "single_label" and len(labels) == 2 else None

    def notes(self, examples, predictions, metrics):
        """See `TaskType.notes`: one prediction for all, or predictions correct by chance only."""
        gold, predicted = self._both(examples, predictions)
        if len(set(gold)) < 2:
            return []
        if self.problem == "regression":
            even = float(np.var(gold))
            return [] if metrics["mse"] < even else [
                f"mse {metrics['mse']:.4g} is no better than {even:.4g}, that of predicting the "
                "mean label for every example"]
        if len(set(predicted)) == 1:
            names = predicted[:1] if self.problem == "single_label" else predicted[0]
            what = f"the label{'s' * (len(names) > 1)} {', '.join(map(repr, names))}" if names \
                else "no label"
            return [f"{what} {'are' if len(names) > 1 else 'is'} predicted for every example, as "
                    "by an untrained model"]
        if metrics.get("mcc", 1) <= 0:
            return [f"predictions are no better than chance (mcc {metrics['mcc']:.4f}), as by an "
                    "untrained model"]
        return []

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`."""
        texts = {"text_a" if self.pair else "text": [example.text_a for example in examples],
                 **({"text_b": [example.text_b for example in examples]} if self.pair else {})}
        predicted = np.zeros([len(examples), len(about["labels"])], np.float64)
        output = "score" if self.problem == "regression" else "probabilities"
        for row, answer in served_answers(signatures, "predict", texts, about):
            predicted[row] = answer[output]
        return [self.line(example, values, about["labels"])
                for example, values in zip(examples, predicted, strict=True)]

    def line(self, example, values, labels):
        """Return one line of `predict`, of the float `values [labels]`."""
        if self.problem == "regression":  # of whatever size
            return {"id": example.id, "score": float(values[0])}
        rounded = [round(float(value), SCORE_DIGITS) for value in values]
        scores = dict(zip(labels, rounded, strict=True))
        if self.problem == "multi_label":
            return {"id": example.id, "scores": scores,
                    "labels": [name for name, value in zip(labels, values, strict=True)
                               if value >= CHOSEN_FROM]}
        label = labels[int(np.argmax(values))]
        return {"id": example.id, "label": label, "score": scores[label], "scores": scores}

    def prediction(self, example, row):
        """See `TaskType.prediction`."""
        if example.label is None:
            return None
        if self.problem == "regression":
            return {"score": row["score"]}
        if not set(self._names(example)) <= set(map(composed, row["probabilities"])):
            return None
        chosen = {"labels": row["chosen"]} if self.problem == "multi_label" else {}
        return {"label": row["label"], "scores": dict.fromkeys(row["probabilities"]), **chosen}

    def metrics(self, examples, predictions):
        """See `TaskType.metrics`: of numbers, of several labels, or of one."""
        gold, predicted = self._both(examples, predictions)
        if self.problem == "regression":
            return regression_metrics(gold, predicted)
        return self._measure()(gold, predicted, _composed_labels(predictions))

    def measured(self, pairs):
        """See `TaskType.measured`: counts are kept of labels, and two floats of each number."""
        if self.problem == "regression":
            gold, predicted = array.array("d"), array.array("d")
            for example, line in pairs:
                gold.append(example.label)
                predicted.append(line["score"])
            return (regression_metrics(gold, predicted) if gold else {}), len(gold)
        counts, line = collections.Counter(), None
        for example, line in pairs:
            counts.update(zip(*self._both([example], [line]), strict=True))
        if not counts:
            return {}, 0
        return self._measure()(*map(list, zip(*counts, strict=True)), _composed_labels([line]),
                               list(counts.values())), counts.total()

    def _measure(self):
        return multi_label_metrics if self.problem == "multi_label" else classification_metrics

    def check_examples(self, examples, about, served):
        """See `TaskType.check_examples`: single texts for a model of pairs, and the reverse, and
        labels that it does not know."""
        expected = bool((about.get("reading") or {}).get("pair"))
        given = examples[0].text_b is not None
        if expected != given and (expected or served):
            names = ["single texts", "pairs of texts"]
            raise UsageError(explain(f"{examples[0].where}: {names[given]}", names[expected],
                                     "--text_b_column" if expected else "--task classify"))
        self._refuse_unknown(examples, about["labels"], "labels that the model does not know",
                             textwrap.shorten(", ".join(about["labels"]), 200),
                             "removing these rows")

    def report(self, examples, predictions, folder):
        """Write `confusion.png` and `confusion.json`, see `write_confusion`; of numbers nothing."""
        if self.problem == "regression":
            return []
        gold, predicted = self._both(examples, predictions)
        return write_confusion(folder, gold, predicted, _composed_labels(predictions))

    def _refuse_unknown(self, examples, known, what, expected="", attempt=""):
        """Raise BertTfError where examples have other labels than the `known` ones."""
        known = set(map(composed, known))
        unknown = [(name, example.where) for example in examples
                   for name in self._names(example) if name not in known]
        if unknown:
            counts = collections.Counter(name for name, _ in unknown)
            shown = [f"{name!r} ({count:,})" for name, count in counts.most_common(_SHOWN)]
            more = [f"{len(counts) - _SHOWN} more"] if len(counts) > _SHOWN else []
            raise BertTfError(explain(f"{what}: {', '.join(shown + more)}; the first: "
                                      f"{unknown[0][1]}", expected, attempt))

    def _names(self, example):
        """Return the names of the labels of an example, a tuple, composed; of a number none."""
        return tuple(map(composed, example.label_probabilities))

    def _both(self, examples, predictions):
        """Return the labels and the predictions, two lists, composed: a model may have its own in
        jamo."""
        for example in examples:
            if example.label is None:
                raise BertTfError(explain(f"{example.where}: no label", "one in every example"))
        if self.problem == "multi_label":
            return ([tuple(map(composed, example.label)) for example in examples],
                    [tuple(map(composed, line["labels"])) for line in predictions])
        if self.problem == "regression":
            return ([example.label for example in examples],
                    [line["score"] for line in predictions])
        return ([composed(example.label) for example in examples],
                [composed(line["label"]) for line in predictions])


def _note_separator(rows):
    """Note where rows of labels, each of one at most, look as if others than commas separate them.
    """
    for separator in ";|":
        count = sum(separator in name for names in rows for name in names)
        if count > len(rows) / 2 and max(map(len, rows)) == 1:
            print_note(explain(
                f"{count:,} of {len(rows):,} examples have {separator!r} in their label and none "
                "has two labels", "commas between labels, or a list in JSON",
                f"replacing {separator!r} by a comma, with quotes around the cell in CSV"))


def _composed_labels(predictions):
    """Return all labels of the model; two that are spelled in two forms are one."""
    return list(dict.fromkeys(map(composed, predictions[0]["scores"])))


TYPE = Classification
