"""Labels or a number for a text or a pair of texts (Devlin et al. 2019, section 4.1)."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.base.labelled import LabelledModel, check_labels
from bert_tf.tasks.base.long_texts import average_windows
from bert_tf.tasks.base.objective import weighed
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor

PROBLEMS = ("single_label", "multi_label", "regression")
CHOSEN_FROM = 0.5  # probability from which on a text has one of several labels


@keras.saving.register_keras_serializable("bert_tf")
class Classifier(LabelledModel):
    """An encoder and one logit a label, from `pooled_output` (google-research/bert).

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]`, or
    `[b, windows, seq_length]` (a long text in windows, whose vectors are averaged; a window
    without a real token does not count), or text where there is a `preprocessor` -> logits float32
    `[b, labels]`. Labels, `label_ids`:

    | problem | `label_ids` | loss |
    |---|---|---|
    | `single_label` | int32 `[b]` or `[b, 1]`, negative ones ignored | cross-entropy |
    | `multi_label` | int32 `[b, labels]` of 0 and 1, negative ones ignored | of each label |
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
    further_options = ("problem", "features")
    preprocessor_class = TextPreprocessor
    label_keys = {"classifier": "label_ids"}
    with_transform = ("dense", "transform")

    def __init__(self, encoder, labels=None, problem="single_label", dtype=None, seed=None,
                 name="classifier", num_labels=None, **kwargs):
        config = getattr(encoder, "config", encoder)
        if (config.attention == "causal" and config.pooling != "last" and not config.bilstm
                and kwargs.get("features") is None):
            raise UsageError(explain(
                f"a classifier with attention='causal' and pooling={config.pooling!r} would see "
                "the first token alone", "pooling='last' or bilstm=True"))
        check_choice("problem", problem, PROBLEMS)
        labels = check_labels(labels, num_labels, 2 if problem == "single_label" else 1)
        if problem == "regression" and len(labels) > 1:
            raise UsageError(explain(f"labels={labels!r} of a regression", "one name"))
        super().__init__(encoder, "classifier", len(labels), dtype=dtype, seed=seed, name=name,
                         **kwargs)
        self.labels = labels
        self.problem = problem

    def options(self):
        """See `Saved.options`."""
        return {"labels": list(self.labels), "problem": self.problem, **super().options()}

    def call(self, batch, training=False):
        """Compute logits float32 `[b, labels]`."""
        return self._logits(self.read(batch), "pooled_output", training)

    def probabilities(self, logits):
        """Convert `logits [b, labels]` to what is reported: probabilities, or the number itself."""
        return {"single_label": tf.nn.softmax, "multi_label": tf.sigmoid,
                "regression": tf.identity}[self.problem](logits)

    def _hidden(self, batch, output, training):
        if len(batch["input_word_ids"].shape) == 2:
            return super()._hidden(batch, output, training)
        return average_windows(
            batch, lambda windows: super(Classifier, self)._hidden(windows, output, training),
            tf.TensorSpec([None, self.width], self.compute_dtype), training)

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        if self.problem != "regression":
            return super().loss_sums({"classifier_logits": outputs}, batch)
        error = tf.square(outputs[:, 0] - self.labels_of(outputs, batch)["classifier"])
        return {"classifier": tf.reduce_sum(self.weights_of(batch)["classifier"] * error)}

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

    def _labels(self, batch, key):
        if self.problem == "multi_label":
            return tf.cast(batch[key], tf.int32)
        kind = tf.float32 if self.problem == "regression" else tf.int32
        return tf.reshape(tf.cast(batch[key], kind), [-1])
