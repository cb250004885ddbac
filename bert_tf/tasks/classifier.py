"""One label for a text or a pair of texts (Devlin et al. 2019, section 4.1)."""

import keras

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.labelled import Labelled, check_labels


@keras.saving.register_keras_serializable("bert_tf")
class Classifier(Labelled):
    """An encoder and one logit a label, from `pooled_output` (google-research/bert).

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]` ->
    logits float32 `[b, labels]`. Labels to learn from: int32 `label_ids` `[b]` or `[b, 1]`.

    Args:
        config: a `ModelConfig`; `pooling` says which vector is classified.
        labels: names of the classes, in the order of their logits.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.

    Raises:
        UsageError: the labels are not two or more names, or the vector to be classified has seen
            the first token alone.
    """

    label_keys = {"classifier": "label_ids"}

    def __init__(self, config, labels, dtype=None, seed=None, name="classifier", **kwargs):
        if config.attention == "causal" and config.pooling != "last" and not config.bilstm:
            raise UsageError(explain(
                f"a classifier with attention='causal' and pooling={config.pooling!r} would see "
                "the first token alone", "pooling='last' or bilstm=True"))
        labels = check_labels(labels)
        super().__init__(config, "classifier", len(labels), config.hidden_dropout_prob, dtype,
                         seed, name=name, **kwargs)
        self.labels = labels

    def task_config(self):
        """What `task.json` says of this model."""
        return {"task": "classifier", "labels": list(self.labels)}

    def call(self, batch, training=False):
        """Logits float32 `[b, labels]`."""
        return self._logits(batch, "pooled_output", training)

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        return super().loss_sums({"classifier_logits": outputs}, batch)

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`."""
        return super().metric_sums({"classifier_logits": outputs}, batch)
