"""Base of every trained model: sums and counts for any loop, and plain `fit`."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.models.on_encoder import OnEncoder
from bert_tf.tasks.base.by_name import by_name
from bert_tf.tasks.base.cross_entropy import cross_entropy

_WAYS = {"accuracy": "max", "error": "min"}  # of metrics to improve, by the ends of their names


class Objective(OnEncoder, keras.Model):
    """Base of the models that are trained: an encoder with one or more losses.

    The accounting methods return sums and weights, so that any loop can normalise by counts over
    all replicas and all accumulated batches. Plain Keras training works too: `compile(optimizer)`
    without a loss, then `fit(dataset)` on batches that are dicts of tensors whose first axis is
    the examples (so without the scalar `first_example`). `compute_loss` normalises by the counts
    over all replicas. `save("….keras")` and `keras.saving.load_model` keep weights and optimizer.

    A subclass has `config`, `seed`, `encoder`, `tasks` (names of its losses), `options()` and
    `weights_of(batch)` and `labels_of(outputs, batch)`, each `{task: tensor}`; its outputs are
    `<task>_logits`, with a last axis of classes, or without where a label is a yes or no. Batches
    may hold float32 `example_weights` `[b]`, which weigh examples, or of the labels' shape.
    """

    loss_scales = {}  # {task: factor of its mean in the loss}, 1 where not named
    # Whether the loss is one of all outputs of a batch together, no sum over examples; the first
    # axis of `outputs` is the examples then, and with micro-batches it is one tensor.
    whole_batch_loss = False
    accuracies = ()  # Keras metrics, one a task, for `fit` and `evaluate`

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)  # half precision would round ids that are floats

    def compile(self, *args, **kwargs):
        """See Keras; without a loss, the model's own losses and accuracies are used."""
        # Keras keeps those of an earlier `compile`.
        self.loss = self._compile_loss = self._compile_metrics = None
        super().compile(*args, **kwargs)
        # Made here, as variables that appear inside a step break `fit` on several replicas.
        if self.loss is None and not self.accuracies:
            self._tracker.unlock()  # Keras' `quantize` ends with a lock
            self.accuracies = [keras.metrics.Mean(name=name) for name in self.metric_names]

    @by_name
    def fit(self, x=None, y=None, **kwargs):
        """See Keras; also takes a `PretrainingInput`, which knows its `steps_per_epoch`.

        With `BackupAndRestore` that goes on at the epoch of the backup. Where this was made within
        an epoch, Keras begins the epoch again, with the weights of the backup.
        """
        self._refuse_workers()
        callbacks = kwargs.get("callbacks") or []
        callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks))
        self._set_modes(callbacks)
        if kwargs.get("validation_data") is not None:
            kwargs["validation_data"] = self._whole(kwargs["validation_data"])
        if hasattr(x, "for_fit"):
            start = 0
            if x.split == "train":
                steps = kwargs.get("steps_per_epoch") or x.steps_per_epoch
                kwargs["steps_per_epoch"] = steps
                start = self._first_epoch(callbacks, kwargs.get("initial_epoch", 0)) * steps
            x = self._fed(x, start)
        return super().fit(_with_weights(x, y, kwargs), y, **kwargs)

    def _refuse_workers(self):
        """Raise UsageError on several workers, where a loop of Keras ends amid a step."""
        if isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
            raise UsageError(explain(
                "MultiWorkerMirroredStrategy, which Keras' own loop does not train with",
                attempt="MirroredStrategy, or python -m bert_tf.pretrain --strategy multi_worker"))

    def _set_modes(self, callbacks):
        """Tell callbacks which way the model's own metrics improve; Keras knows it of those of
        `compile`."""
        ways = {metric.name: _WAYS.get(metric.name.rpartition("_")[2], "auto")
                for metric in self.metrics}
        for callback in callbacks:
            name = str(getattr(callback, "monitor", "")).removeprefix("val_")
            if getattr(callback, "mode", None) == "auto" and name in ways:
                callback.mode = ways[name]

    def _first_epoch(self, callbacks, initial_epoch):
        """Return the epoch that Keras will begin with."""
        for callback in callbacks:
            if isinstance(callback, keras.callbacks.BackupAndRestore):
                # Keras has it do so once more, after the dataset is made.
                callback.set_model(self)
                with self.distribute_strategy.scope():  # makes variables of the optimizer
                    callback.on_train_begin()
        return self._initial_epoch or initial_epoch

    @by_name
    def evaluate(self, x=None, y=None, **kwargs):
        """See Keras; also takes a `PretrainingInput`."""
        self._refuse_workers()
        return super().evaluate(_with_weights(self._whole(x), y, kwargs), y, **kwargs)

    def _whole(self, x):
        """Return what Keras takes for one epoch of `x`, which may be a `PretrainingInput`."""
        return self._fed(x, 0, x.steps_per_epoch) if hasattr(x, "for_fit") else x

    def _fed(self, x, start_step, num_steps=None):
        """Return what Keras takes for a `PretrainingInput`."""
        # Published tables often have more rows than there are tokens.
        if x.vocab_size > self.config.vocab_size:
            raise UsageError(explain(f"examples made with a vocabulary of {x.vocab_size} tokens",
                                     f"at most {self.config.vocab_size}, the model's vocab_size"))
        if self.config.positions_from_padding and x.pad_id != self.config.padding_id:
            raise UsageError(explain(
                f"examples padded with id {x.pad_id}, to a model that counts positions from "
                f"padding_id={self.config.padding_id}", "the same id",
                f"a configuration with padding_id={x.pad_id}"))
        if (x.objective == "lm") != (self.tasks == ("language_model",)):
            raise UsageError(explain(f"examples of objective={x.objective!r} for {self.name}",
                                     "objective='lm' for a language model, for it alone"))
        return x.for_fit(start_step, num_steps)

    @property
    def metrics(self):
        """See Keras; those of an earlier `compile` without a loss are replaced by one with a
        loss."""
        if getattr(self, "loss", None) is None:
            return super().metrics
        return [metric for metric in super().metrics if metric not in self.accuracies]

    @property
    def objectives(self):
        """What the model is trained for, as signatures name it."""
        return self.tasks

    @property
    def metric_names(self):
        """The names in what `metric_sums` returns."""
        return tuple(f"{task}_accuracy" for task in self.tasks)

    def compile_from_config(self, config):
        """Compile as Keras does on loading, but not by itself where `compile` is a model's own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def loss_weights(self, batch):
        """Return `{task: float32 scalar}`: the number of predictions in the batch."""
        return {task: tf.reduce_sum(weights) for task, weights in self.weights_of(batch).items()}

    def loss_sums(self, outputs, batch):
        """Return `{task: float32 scalar}`: summed cross-entropy in nats.

        Args:
            outputs: of `call` on the same batch.
            batch: with labels.
        """
        labels, weights = self.labels_of(outputs, batch), self.weights_of(batch)
        return {task: tf.reduce_sum(tf.math.multiply_no_nan(
            cross_entropy(labels[task], outputs[f"{task}_logits"]), weights[task]))
            for task in self.tasks}

    def metric_sums(self, outputs, batch):
        """Return `{"<task>_accuracy": (sum, weight)}`, float32 scalars: correct predictions and
        all."""
        labels, weights = self.labels_of(outputs, batch), self.weights_of(batch)
        return {f"{task}_accuracy": (
            tf.reduce_sum(weights[task] * _right(labels[task], outputs[f"{task}_logits"])),
            tf.reduce_sum(weights[task])) for task in self.tasks}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Sum the tasks' means, each times its scale, counted over all replicas, and what
        `add_loss` and regularizers add; or compute the loss that the model was compiled with."""
        if getattr(self, "loss", None) is not None:
            y, sample_weight = self._beside(x, y, sample_weight)
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        x = self._batch(x, y, sample_weight)
        weights = self.loss_weights(x)
        context = tf.distribute.get_replica_context()
        several = context is not None and context.num_replicas_in_sync > 1
        if several:
            weights = context.all_reduce(tf.distribute.ReduceOp.SUM, weights)
        # This replica's part of the mean: Keras adds the replicas' gradients up.
        loss = tf.add_n([
            self.loss_scales.get(task, 1.0) * tf.math.divide_no_nan(loss, weights[task])
            for task, loss in self.loss_sums(y_pred, x).items()]
            + [tf.cast(self._aggregate_additional_loss(loss), tf.float32)
               for loss in self.losses])
        if several:
            # What Keras reports is a mean by the replicas' rows, of which a last batch has unequal
            # numbers: an equal part of the whole has that mean.
            own = tf.stop_gradient(loss)
            whole = context.all_reduce(tf.distribute.ReduceOp.SUM, own)
            loss += whole / context.num_replicas_in_sync - own
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Update the accuracies, and the metrics that the model was compiled with."""
        labels, weights = self._beside(x, y, sample_weight)
        results = super().compute_metrics(x, labels, y_pred, weights)
        if getattr(self, "loss", None) is not None:
            return results
        x = self._batch(x, y, sample_weight)
        metric_sums = self.metric_sums(y_pred, x)
        for metric in self.accuracies:
            right, weight = metric_sums[metric.name]
            metric.update_state(tf.math.divide_no_nan(right, weight), sample_weight=weight)
        return self.get_metrics_result()

    def _beside(self, x, y, sample_weight):
        """Return labels and weights as Keras' losses and metrics take them: not in the batch."""
        return y, sample_weight

    def _batch(self, x, y, sample_weight):
        """Return the batch with its labels and weights, which `fit` may have apart."""
        if sample_weight is None:
            return x
        check_weighed_once(x)
        return {**x, "example_weights": sample_weight}


def _with_weights(x, y, kwargs):
    """Move weights from `kwargs` into a batch that has its labels in itself, where Keras drops
    them."""
    if y is not None or not isinstance(x, dict) or kwargs.get("sample_weight") is None:
        return x
    check_weighed_once(x)
    return {**x, "example_weights": kwargs.pop("sample_weight")}


def check_weighed_once(x):
    """Refuse `example_weights` in a batch that is weighed already; see `Objective`."""
    if isinstance(x, dict) and "example_weights" in x:
        raise UsageError(explain(
            "example_weights among the inputs and class_weight or sample_weight", "either"))


def weighed(weights, batch, key="label_ids"):
    """Return `weights [b, …]`, float32, times the batch's `example_weights`, where it has any.

    These are `[b]`, or of the shape of `weights`. Keras gives a model of several labels a dict of
    them; `key` names the labels then.
    """
    weights = tf.cast(weights, tf.float32)
    example_weights = batch.get("example_weights")
    if example_weights is None:
        return weights
    if isinstance(example_weights, dict):
        example_weights = example_weights[key]
    example_weights = tf.cast(example_weights, tf.float32)
    if len(example_weights.shape) != len(weights.shape):
        example_weights = tf.reshape(example_weights, [-1] + [1] * (len(weights.shape) - 1))
    return weights * example_weights


def _right(labels, logits):
    if len(logits.shape) == len(labels.shape):
        predicted = tf.cast(logits > 0, labels.dtype)
    else:
        predicted = tf.argmax(logits, -1, output_type=labels.dtype)
    return tf.cast(predicted == labels, tf.float32)
