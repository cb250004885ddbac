"""Base of the models that are trained on labelled text: one head on an encoder."""

import functools
import numbers

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError, explain
from bert_tf.layers.bilstm import both_ends
from bert_tf.layers.dropout import Dropout
from bert_tf.layers.feature_lstm import feature_lstm
from bert_tf.layers.label_head import LabelHead
from bert_tf.models.families import INPUTS
from bert_tf.models.states import hidden_states
from bert_tf.tasks.base.by_name import by_name
from bert_tf.tasks.base.mapped_batches import MappedBatches
from bert_tf.tasks.base.numbers_of import numbers_of
from bert_tf.tasks.base.objective import check_weighed_once, weighed
from bert_tf.tasks.base.text_model import TextModel

# `--pooling` of a text, and the configuration's field.
_POOLINGS = {"mean": "mean", "cls": "first", "cls_pooled": "dense", "sep": "last"}


class LabelledModel(TextModel):
    """Base of the models of labelled text, such as `Classifier`.

    Labels may come in either way: `fit` on `(inputs, labels)` or `(inputs, labels,
    example_weights)`, or as further keys of the batch, which any loop over `Objective`s reads.
    `compile(optimizer)` trains on the mean cross-entropy of the labels over all replicas;
    `compile(optimizer, loss)` on that Keras loss of the model's outputs. A negative label is
    ignored.

    With a `preprocessor` the model takes text: whatever `preprocessor` takes may stand in place of
    the ids.

    `class_weight` of `fit` is for examples that have one label each.

    A subclass sets `label_keys`, `{task: key of its labels in the batch}`, and `with_transform`,
    the values of `label_head` with which its head has more than a linear map.

    Args:
        encoder, dtype, seed, preprocessor: see `TextModel`.
        head: name of the head.
        num_labels: its logits.
        dropout: rate before the head; None for the configuration's.
        features: None trains the encoder; a dict of the options of `FeatureLstm` leaves it as it
            is, dropout off, and trains that on its layers.
    """

    label_keys = {}
    num_classes = None  # labels are below it, where that is known
    one_label = False  # whether an example has one of the labels, whose weight is the example's
    with_transform = ("transform",)

    def __init__(self, encoder, head, num_labels, dropout=None, dtype=None, seed=None,
                 preprocessor=None, features=None, **kwargs):
        super().__init__(encoder, dtype, seed, preprocessor, **kwargs)
        config = self.config
        self.head_dropout = dropout = None if dropout is None else float(dropout)
        dropout = config.hidden_dropout_prob if dropout is None else dropout
        self.feature_lstm, self.width = None, config.hidden_size
        if features is not None:
            self.encoder.trainable = False
            self.feature_lstm = feature_lstm(config, features, seed, self.dtype_policy)
            self.width = self.feature_lstm.lstm_size
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)
        # An LSTM on a frozen encoder is a head of its own.
        transform = features is None and config.label_head in self.with_transform
        self.head = LabelHead(num_labels, config.initializer_range, seed,
                              _transform(config) if transform else None, dropout,
                              config.label_head != "no_bias", name=head,
                              dtype=self.dtype_policy)
        # Built here for their paths, as in `Pretrainer`.
        with keras.name_scope("cls"):
            if self.feature_lstm is not None:
                self.feature_lstm.build((None, None, config.hidden_size))
            self.dropout.build((None, None, self.width))
            self.head.build((None, self.width))
        self.built = True

    @property
    def tasks(self):
        """The names of the losses."""
        return tuple(self.label_keys)

    @property
    def pools_late(self):
        """Whether labels of a text are predicted from the mean of what the head makes of tokens."""
        return self.config.pooling == "late" and self.feature_lstm is None

    def _logits(self, batch, output, training):
        """Compute the head's logits on the encoder's `output`, float32 `[…, num_labels]`."""
        pools_late = output == "pooled_output" and self.pools_late
        hidden = self._hidden(batch, "sequence_output" if pools_late else output, training)
        return self.head(self.dropout(hidden, training=training), training=training,
                         input_mask=batch["input_mask"] if pools_late else None)

    def _hidden(self, batch, output, training):
        inputs = {name: batch[name] for name in INPUTS}
        if self.feature_lstm is None:
            if output == "pooled_output":
                return self.encoder.backbone(inputs, training=training, pooled_only=True)
            return self.encoder(inputs, training=training)[output]
        read = self.feature_lstm(hidden_states(self.encoder, inputs), inputs["input_mask"])
        return both_ends(read, inputs["input_mask"]) if output == "pooled_output" else read

    def options(self):
        """See `Saved.options`; `features` only where the encoder is not trained, `dropout` only
        where it is not the configuration's."""
        return {**({} if self.feature_lstm is None else {"features": self.feature_lstm.options()}),
                **({} if self.head_dropout is None else {"dropout": self.head_dropout})}

    @by_name
    def fit(self, x=None, y=None, **kwargs):
        """See Keras; `class_weight` also weighs by labels in `x` or in a dict."""
        y = self._classes(x, y, **kwargs)
        datasets = tf.data.Dataset, keras.utils.PyDataset
        if isinstance(x, datasets) and kwargs.get("class_weight") is not None:
            x = self._weighed_classes(x, kwargs.pop("class_weight"))
        return super().fit(x, y, **kwargs)

    @by_name
    def train_on_batch(self, x, y=None, **kwargs):
        """See Keras; `class_weight` as in `fit`."""
        return super().train_on_batch(x, self._classes(x, y, **kwargs), **kwargs)

    def _classes(self, x, y, class_weight=None, **options):
        """Return the labels as Keras takes them where there is a `class_weight`."""
        if class_weight is None:
            return y
        if not self.one_label:
            raise UsageError(explain(
                f"class_weight of {self.name}, whose examples do not have one label each",
                attempt="sample_weight, an array of the labels' shape"))
        for label in class_weight:
            if isinstance(label, str):
                raise UsageError(explain(f"class_weight of {label!r}", "the numbers of labels",
                                         f"model.labels.index({label!r})"))
        [key] = self.label_keys.values()
        return self._with_labels(x, y).get(key, y)

    def _weighed_classes(self, dataset, class_weight):
        """Return a dataset of `(inputs, labels, weights)`; Keras takes no labels in the inputs, nor
        any beyond those of `class_weight`, negative ones among them."""
        [key] = self.label_keys.values()
        weigh = functools.partial(_weigh, key, class_weight)
        if isinstance(dataset, tf.data.Dataset):
            return dataset.map(tf.autograph.experimental.do_not_convert(weigh))
        return MappedBatches(dataset, functools.partial(_weigh_batch, weigh))

    def weights_of(self, batch):
        """Return `{task: float32}`, of the labels' shapes: 0 where a label is ignored."""
        return {task: weighed(self._labels(batch, key) >= 0, batch, key)
                for task, key in self.label_keys.items()}

    def labels_of(self, outputs, batch):
        """Return `{task: int32}` labels; ignored ones are 0."""
        return {task: tf.maximum(self._labels(batch, key), 0)
                for task, key in self.label_keys.items()}

    def _prepared(self, inputs):
        """See `TakesText`; labels and weights among the inputs may be lists too."""
        if isinstance(inputs, dict):
            numbers = {"example_weights", *self.label_keys.values()}
            inputs = {name: numbers_of(value) if name in numbers else value
                      for name, value in inputs.items()}
        return super()._prepared(inputs)

    def _arrays(self, texts, *columns):
        """See `TakesText`; labels that are none are refused, which a graph might take for others.

        With a Keras loss they are whatever that takes.
        """
        texts, *columns = super()._arrays(texts, *columns)
        if self.num_classes is not None and getattr(self, "loss", None) is None:
            batch = self._with_labels(texts, columns[0] if columns else None)
            for key in self.label_keys.values():
                if hasattr(batch.get(key), "__array__"):
                    self.check_values(key, batch[key])
        return (texts, *columns)

    def check_values(self, key, values):
        """Refuse an array of labels that are none.

        Args:
            key: their key in the batch, for the message.
            values: what NumPy takes for an array.

        Raises:
            UsageError: one is no whole number below `num_classes`.
        """
        values = np.asarray(values)
        if values.dtype.kind not in "iuf":
            return
        wrong = values[~((values < self.num_classes) & (values == np.floor(values)))]
        if wrong.size:
            raise UsageError(explain(f"{key} such as {wrong.flat[0]}", "whole numbers from 0 to "
                                     f"{self.num_classes - 1}, or below 0 where a label is to be "
                                     "ignored"))

    def _labels(self, batch, key):
        return tf.reshape(tf.cast(batch[key], tf.int32), [-1])

    def _batch(self, x, y, sample_weight):
        """Return the batch with its labels and weights, in whichever way they were given."""
        batch = super()._batch(self._with_labels(x, y), y, sample_weight)
        for key in self.label_keys.values():
            if key not in batch:
                raise ValueError(f"{self.name} has no labels {key!r}; expected them in the inputs "
                                 "or, in a dict, beside them")
        return batch

    def _beside(self, x, y, sample_weight):
        """See `Objective._beside`; of several labels a dict."""
        if y is None:
            batch = self._batch(x, y, sample_weight)
            y = {key: batch[key] for key in self.label_keys.values()}
            y = next(iter(y.values())) if len(y) == 1 else y
        if sample_weight is not None:
            check_weighed_once(x)
        elif isinstance(x, dict):
            sample_weight = x.get("example_weights")
        return y, sample_weight

    def _with_labels(self, x, y):
        return _joined(next(iter(self.label_keys.values()), None), x, y)


def _joined(key, x, y):
    """Return what a batch's inputs and its labels hold, a dict; labels that are no dict as
    `key`."""
    if y is not None and not isinstance(y, dict):
        y = {key: y}
    return {**(x if isinstance(x, dict) else {}), **(y or {})}


def _weigh_batch(weigh, batch):
    return weigh(*(batch if isinstance(batch, tuple | list) else [batch]))


def _weigh(key, class_weight, x, y=None, sample_weight=None):
    """Return `(inputs, labels, weights)` of a batch; without the model: another process has
    none."""
    labels = numbers_of(_joined(key, x, y).get(key))
    if labels is None:  # for `_batch` to refuse
        return (x,)
    if sample_weight is not None or isinstance(x, dict) and "example_weights" in x:
        raise UsageError(explain("class_weight and weights of the dataset", "either"))
    return x, labels, _weights_of_classes(labels, class_weight)


def _weights_of_classes(labels, class_weight):
    """Return float32 `[b]`, of labels or one-hot labels; 1 where `class_weight` names none."""
    of = tf
    if not tf.is_tensor(labels):  # in a forked worker TensorFlow may hang
        of, labels = np, np.asarray(labels)
    if tf.TensorShape(labels.shape).rank is None:
        raise UsageError(explain("class_weight of a dataset whose labels have no known rank",
                                 "labels [batch] or [batch, classes]",
                                 "output_signature=… of from_generator"))
    if len(labels.shape) > 1 and labels.shape[-1] != 1:
        labels = of.argmax(labels, -1)
    classes = of.reshape(labels, [-1])
    classes = tf.cast(classes, tf.int32) if of is tf else classes.astype(np.int32)
    weights = of.ones_like(classes, np.float32)
    for number, weight in class_weight.items():
        weights = of.where(classes == int(number), np.float32(weight), weights)
    return weights


def _transform(config):
    """Options of the `Transform` in the head that a configuration asks for."""
    norm = config.label_head == "transform"
    return {"hidden_act": config.label_act, "use_bias": config.use_bias,
            "layer_norm_eps": config.layer_norm_eps if norm else None}


def check_sees_text(encoder, features, what):
    """Refuse an encoder whose `pooled_output` has seen the first token alone.

    Args:
        encoder: a `ModelConfig` or an encoder.
        features: as of `LabelledModel`.
        what: the model, for the message.

    Raises:
        UsageError: its attention is causal, and neither its pooling nor a BiLSTM reads the rest.
    """
    config = getattr(encoder, "config", encoder)
    if (isinstance(config, ModelConfig) and config.attention == "causal"
            and config.pooling in ("dense", "first") and not config.bilstm and features is None):
        raise UsageError(explain(
            f"a {what} with attention='causal' and pooling={config.pooling!r} would see "
            "the first token alone", "pooling='last' or 'mean', or bilstm=True"))


def pooled_by(name):
    """Return the fields of `ModelConfig` that make `pooled_output` what `--pooling` names; of None
    none."""
    return {} if name is None else {"pooling": _POOLINGS[name]}


def check_labels(labels, num_labels=None, least=2):
    """Return `labels` as a list of at least `least` different names.

    Args:
        labels: list of str, or None for the numbers from 0.
        num_labels: how many there are; None for as many as `labels`.
        least: 1 or 2.

    Raises:
        UsageError: they are no names, too few, or not `num_labels`, or that is no number of them.
    """
    if num_labels is not None and (isinstance(num_labels, bool) or not isinstance(
            num_labels, numbers.Integral) or num_labels < 1):
        raise UsageError(explain(f"num_labels={num_labels!r}", "an integer from 1 on"))
    if labels is None and num_labels is not None:
        labels = [str(number) for number in range(num_labels)]
    if labels is None:
        raise UsageError(explain("no labels", "labels=[names] or num_labels=N"))
    if num_labels not in (None, len(labels)):
        raise UsageError(explain(f"{len(labels)} labels and num_labels={num_labels}",
                                 "the same number"))
    right = isinstance(labels, (list, tuple)) and all(isinstance(name, str) for name in labels)
    if not right or len(set(labels)) < max(least, len(labels)):
        number = {1: "one", 2: "two"}[least]
        raise UsageError(explain(f"labels={labels!r}", f"{number} or more different names"))
    return list(labels)
