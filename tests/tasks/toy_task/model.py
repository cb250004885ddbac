"""A head on the mean of the tokens."""

import keras
import tensorflow as tf

from bert_tf.tasks.base.labelled import LabelledModel, check_labels
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor


@keras.saving.register_keras_serializable("toy_task")
class ToneModel(LabelledModel):
    """A label from the mean of `sequence_output`."""

    saved_as = "tone"
    required_options = ("labels",)
    preprocessor_class = TextPreprocessor
    label_keys = {"tone": "label_ids"}

    def __init__(self, encoder, labels, dtype=None, seed=None, name="tone", **kwargs):
        labels = check_labels(labels)
        super().__init__(encoder, "tone", len(labels), dtype=dtype, seed=seed, name=name, **kwargs)
        self.labels = labels

    def options(self):
        """See `Saved.options`."""
        return {"labels": self.labels}

    def call(self, batch, training=False):
        """Logits float32 `[b, labels]`."""
        read = self.read(batch)
        logits = self._logits(read, "sequence_output", training)
        real = tf.cast(read["input_mask"], tf.float32)[:, :, tf.newaxis]
        return tf.reduce_sum(logits * real, 1) / tf.reduce_sum(real, 1)

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        return super().loss_sums({"tone_logits": outputs}, batch)

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`."""
        return super().metric_sums({"tone_logits": outputs}, batch)
