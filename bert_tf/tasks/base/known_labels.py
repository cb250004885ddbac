"""Keras' own losses and metrics of labels some of which are ignored."""

import keras
import tensorflow as tf


class KnownLabels(keras.Model):
    """Base, after `LabelledModel`, of a model with a label for each row of its logits.

    What `compile` is given as loss or metrics sees the labels that are not ignored and their
    logits: with weights of 0 a mean would still count the others, and metrics are given no
    weights. On several replicas the mean is that of each one's labels, which Keras averages; the
    model's own loss, that of none given, is the mean over all.
    """

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """See Keras."""
        loss = super().compute_loss(x, *self.known(y, y_pred, sample_weight), training)
        # Outside of a graph Keras gives that of no labels the shape [0].
        return tf.reduce_sum(loss) if tuple(loss.shape) == (0,) else loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """See Keras."""
        return super().compute_metrics(x, *self.known(y, y_pred, sample_weight))

    def as_wide(self, batch, outputs):
        """Return a batch of labels, and weights if any, as wide as the outputs."""
        return batch

    def known(self, y, y_pred, weights):
        """Return labels `[n]` or `[n, 1]`, as given, outputs `[n, …]` and weights, None or `[n]`,
        where there is a label.

        Labels of another form, such as one-hot ones, are left to the loss as they are.
        """
        [(task, key)] = self.label_keys.items()
        labels = tf.convert_to_tensor(self._with_labels(None, y)[key])
        if len(labels.shape) == len(y_pred.shape) > 2 and labels.shape[-1] == 1:
            labels = labels[..., 0]
        if len(labels.shape) >= len(y_pred.shape) and labels.shape[-1] != 1:
            return y, y_pred, weights
        batch = self.as_wide({key: labels, "example_weights": weights}, y_pred)
        known = self.weights_of({key: batch[key]})[task] > 0
        if weights is not None:
            weights = tf.boolean_mask(self.weights_of(batch)[task], known)
        return (tf.boolean_mask(batch[key], known), tf.boolean_mask(y_pred, known), weights)
