"""One label for every token (Devlin et al. 2019, section 4, figure 4d)."""

import keras
import tensorflow as tf

from bert_tf.tasks.labelled import Labelled, check_labels


@keras.saving.register_keras_serializable("bert_tf")
class Tagger(Labelled):
    """An encoder and one logit a label for every token.

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]` ->
    logits float32 `[b, seq_length, labels]`. Labels to learn from: int32 `label_ids`
    `[b, seq_length]`, negative where there is none: padding, pieces inside a word.

    Args:
        config: a `ModelConfig`.
        labels: names of the tags, in the order of their logits.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.

    Raises:
        UsageError: the labels are not two or more names.
    """

    label_keys = {"tagger": "label_ids"}

    def __init__(self, config, labels, dtype=None, seed=None, name="tagger", **kwargs):
        labels = check_labels(labels)
        super().__init__(config, "tagger", len(labels), config.hidden_dropout_prob, dtype, seed,
                         name=name, **kwargs)
        self.labels = labels

    def task_config(self):
        """What `task.json` says of this model."""
        return {"task": "tagger", "labels": list(self.labels)}

    def call(self, batch, training=False):
        """Logits float32 `[b, seq_length, labels]`."""
        return self._logits(self.read(batch), "sequence_output", training)

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        return super().loss_sums({"tagger_logits": outputs}, batch)

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`."""
        return super().metric_sums({"tagger_logits": outputs}, batch)

    def _labels(self, batch, key):
        return tf.cast(batch[key], tf.int32)
