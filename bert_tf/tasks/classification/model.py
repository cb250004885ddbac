"""Labels or a number for a text or a pair of texts (Devlin et al. 2019, section 4.1)."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.base.examples import CHOSEN_FROM
from bert_tf.tasks.base.known_labels import KnownLabels
from bert_tf.tasks.base.labelled import LabelledModel, check_labels, check_sees_text
from bert_tf.tasks.base.long_texts import average_windows
from bert_tf.tasks.base.objective import weighed
from bert_tf.tasks.base.ranks import ScoresPairs
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor, is_text, texts_of
from bert_tf.tasks.classification.soft_labels import (
    check_soft,
    is_soft,
    likeliest,
    soft_cross_entropy,
)
from bert_tf.tokenization.texts import check_batch_size, text_list

PROBLEMS = ("single_label", "multi_label", "regression")


@keras.saving.register_keras_serializable("bert_tf")
class Classifier(ScoresPairs, LabelledModel, KnownLabels):
    """An encoder and one logit a label, from `pooled_output` (google-research/bert).

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]`, or
    `[b, windows, seq_length]` (a long text in windows, whose vectors are averaged; a window
    without a real token does not count), or text where there is a `preprocessor` -> logits float32
    `[b, labels]`. Labels, `label_ids`:

    | problem | `label_ids` | loss |
    |---|---|---|
    | `single_label` | int32 `[b]` or `[b, 1]`, negative ones ignored | cross-entropy |
    | `multi_label` | int32 `[b, labels]` of 0 and 1, negative ones ignored | of each label |
    | either | float32 `[b, labels]`, probabilities, nan ignored | the same, of soft labels |
    | `regression` | float32 `[b]` or `[b, 1]`, nan ignored | squared error |

    Args:
        encoder: a `ModelConfig` or an encoder, see `LabelledModel`; the configuration's
        `pooling`
            chooses which vector is classified.
        labels: names of the classes, in the order of their logits; of a regression, of the number.
            None for the numbers from 0.
        num_labels: how many there are, where they have no names.
        problem: one of `PROBLEMS`.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.

    Raises:
        UsageError: the labels do not suit the problem, or the vector to be classified has seen
            the first token alone.
    """

    saved_as = "classifier"
    required_options = ("labels",)
    further_options = ("problem", "features", "dropout")
    preprocessor_class = TextPreprocessor
    label_keys = {"classifier": "label_ids"}
    with_transform = ("dense", "transform")

    def __init__(self, encoder, labels=None, problem="single_label", dtype=None, seed=None,
                 name="classifier", num_labels=None, **kwargs):
        check_sees_text(encoder, kwargs.get("features"), "classifier")
        check_choice("problem", problem, PROBLEMS)
        labels = check_labels(labels, num_labels, 2 if problem == "single_label" else 1)
        if problem == "regression" and len(labels) > 1:
            raise UsageError(explain(f"labels={labels!r} of a regression", "one name"))
        super().__init__(encoder, "classifier", len(labels), dtype=dtype, seed=seed, name=name,
                         **kwargs)
        self.labels = labels
        self.problem = problem

    @property
    def num_classes(self):
        """See `LabelledModel`."""
        return {"single_label": len(self.labels), "multi_label": 2, "regression": None
                }[self.problem]

    @property
    def one_label(self):
        """See `LabelledModel`."""
        return self.problem == "single_label"

    def options(self):
        """See `Saved.options`."""
        return {"labels": list(self.labels), "problem": self.problem, **super().options()}

    def call(self, batch, training=False):
        """Compute logits float32 `[b, labels]`."""
        read = self.read(batch)
        if training and is_text(batch):  # what it learns from is what a server asks
            self.preprocessor.pair = len(texts_of(batch)) == 2
        return self._logits(read, "pooled_output", training)

    def result_of(self, inputs, outputs, training=False):
        """Compute what `call` does from the backbone's outputs for `inputs`."""
        output = "sequence_output" if self.pools_late else "pooled_output"
        hidden = self.dropout(outputs[output], training=training)
        return self.head(hidden, training=training,
                         input_mask=inputs["input_mask"] if self.pools_late else None)

    def classify(self, texts, text_pairs=None, batch_size=32):
        """Predict labels of texts, or of pairs of texts.

        Args:
            texts: a str, or what `text_list` takes.
            text_pairs: as many second texts, of a model of pairs.
            batch_size: texts that are read together.

        Returns: for each text a dict of `label`, `score`, its probability, and `probabilities`, a
            dict by label; where a text may have several labels also `chosen`, a list of those
            whose probability is at least `CHOSEN_FROM`. Of a str one such dict.

        Raises:
            UsageError: the model predicts a number, or takes no text.
        """
        if self.problem == "regression":
            raise UsageError(explain(f"{self.name} predicts a number, no labels",
                                     attempt="regress"))
        rows, single = self._predicted(texts, text_pairs, batch_size)
        found = []
        for row in rows.tolist():
            best = max(range(len(row)), key=row.__getitem__)
            found.append({"label": self.labels[best], "score": row[best],
                          "probabilities": dict(zip(self.labels, row, strict=True))})
            if self.problem == "multi_label":
                found[-1]["chosen"] = [label for label, value in zip(self.labels, row, strict=True)
                                       if value >= CHOSEN_FROM]
        return found[0] if single else found

    def regress(self, texts, text_pairs=None, batch_size=32):
        """Predict numbers for texts, or for pairs of texts.

        Args:
            texts, text_pairs, batch_size: as of `classify`.

        Returns: a list of float, of a str a float.

        Raises:
            UsageError: the model predicts labels, or takes no text.
        """
        if self.problem != "regression":
            raise UsageError(explain(f"{self.name} predicts labels, no number",
                                     attempt="classify"))
        rows, single = self._predicted(texts, text_pairs, batch_size)
        return float(rows[0, 0]) if single else rows[:, 0].tolist()

    def scores(self, queries, passages, batch_size=None):
        """See `Ranks.scores`; of a model of one number, such as a published cross-encoder.

        Raises:
            UsageError: the model predicts labels, or takes no text.
        """
        if self.problem != "regression":
            raise UsageError(explain(f"{self.name} predicts labels, no number to rank by",
                                     attempt="classify, or bert_tf.finetune --task rank"))
        return super().scores(queries, passages, batch_size)

    def _predicted(self, texts, text_pairs, batch_size):
        """`probabilities [n, labels]` of texts, and whether it was a single one."""
        self.need_preprocessor()
        single = isinstance(texts, str)
        inputs = text_list([texts] if single else texts)
        if text_pairs is not None:
            pairs = text_list([text_pairs] if isinstance(text_pairs, str) else text_pairs)
            if len(pairs) != len(inputs):
                raise UsageError(explain(f"{len(inputs)} texts and {len(pairs)} second texts",
                                         "as many of each"))
            inputs = (inputs, pairs)
        logits = self.predict(inputs, batch_size=check_batch_size(batch_size), verbose=0)
        return np.asarray(self.probabilities(logits)), single

    def probabilities(self, logits):
        """Convert `logits [b, labels]` to what is reported: probabilities, or the number itself."""
        return {"single_label": tf.nn.softmax, "multi_label": tf.sigmoid,
                "regression": tf.identity}[self.problem](logits)

    def _logits(self, batch, output, training):
        if len(batch["input_word_ids"].shape) == 2 or not self.pools_late:
            return super()._logits(batch, output, training)
        return average_windows(
            batch, lambda windows: super(Classifier, self)._logits(windows, output, training),
            tf.TensorSpec([None, len(self.labels)]), training, self.jit_compile)

    def _hidden(self, batch, output, training):
        if len(batch["input_word_ids"].shape) == 2:
            return super()._hidden(batch, output, training)
        return average_windows(  # many windows are added up: in float32 whatever they come in
            batch, lambda windows: tf.cast(
                super(Classifier, self)._hidden(windows, output, training), tf.float32),
            tf.TensorSpec([None, self.width]), training, self.jit_compile)

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        if self.problem == "regression":
            losses = tf.square(outputs[:, 0] - self.labels_of(outputs, batch)["classifier"])
        elif self._are_soft(batch["label_ids"]):
            losses = soft_cross_entropy(batch["label_ids"], outputs, self.problem)
        else:
            return super().loss_sums({"classifier_logits": outputs}, batch)
        return {"classifier": tf.reduce_sum(tf.math.multiply_no_nan(
            losses, self.weights_of(batch)["classifier"]))}

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`; of a regression, its mean absolute error."""
        if self.problem != "regression":
            return super().metric_sums({"classifier_logits": outputs}, batch)
        weights = self.weights_of(batch)["classifier"]
        error = tf.abs(outputs[:, 0] - self.labels_of(outputs, batch)["classifier"])
        return {"classifier_error": (tf.reduce_sum(weights * error), tf.reduce_sum(weights))}

    @property
    def metric_names(self):
        """See `Objective.metric_names`."""
        if self.problem == "regression":
            return ("classifier_error",)
        return super().metric_names

    def weights_of(self, batch):
        """See `LabelledModel.weights_of`."""
        if self.problem != "regression":
            return super().weights_of(batch)
        known = tf.logical_not(tf.math.is_nan(self._labels(batch, "label_ids")))
        return {"classifier": weighed(known, batch)}

    def labels_of(self, outputs, batch):
        """See `LabelledModel.labels_of`."""
        if self.problem != "regression":
            return super().labels_of(outputs, batch)
        values = self._labels(batch, "label_ids")
        return {"classifier": tf.where(tf.math.is_nan(values), 0.0, values)}

    def _are_soft(self, values):
        return self.problem != "regression" and is_soft(values, len(self.labels))

    def check_values(self, key, values):
        """See `LabelledModel.check_values`; soft labels are probabilities."""
        values = np.asarray(values)
        if self._are_soft(values):
            check_soft(key, values, self.problem)
        else:
            super().check_values(key, values)

    def known(self, y, y_pred, weights):
        """See `KnownLabels`; of several labels none can be left out."""
        if self.problem == "multi_label":
            return y, y_pred, weights
        return super().known(y, y_pred, weights)

    def _labels(self, batch, key):
        if self._are_soft(batch[key]):
            return likeliest(batch[key], self.problem)
        several = self.problem == "multi_label"
        labels = tf.cast(batch[key], tf.float32 if self.problem == "regression" else tf.int32)
        shapes = [[None, len(self.labels)]] if several else [[None], [None, 1]]
        if not any(labels.shape.is_compatible_with(shape) for shape in shapes):
            raise UsageError(explain(
                f"{key} of the shape {tuple(labels.shape)} with problem={self.problem!r}",
                f"[b, {len(self.labels)}]" if several else "[b] or [b, 1]"))
        return labels if several else tf.reshape(labels, [-1])
