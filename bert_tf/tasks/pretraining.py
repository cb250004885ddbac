"""Masked-token and next-sentence pre-training (Devlin et al. 2019, section 3.1)."""

import keras
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.layers.mlm_head import MaskedLMHead
from bert_tf.layers.next_sentence_head import NextSentenceHead
from bert_tf.models.families import INPUTS, build_encoder


@keras.saving.register_keras_serializable("bert_tf")
class Pretrainer(keras.Model):
    """An encoder with the masked-token head and, where wanted, the next-sentence head.

    Call: a batch, a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids`
    `[b, seq_length]` and `masked_lm_positions` `[b, P]`; other keys are left alone. Returns a
    dict of float32 `masked_lm_logits [b, P, vocab]` and `next_sentence_logits [b, 2]`.

    The accounting methods also read int32 `masked_lm_ids` and float32 `masked_lm_weights`
    `[b, P]` (0 marks unused slots), int32 `next_sentence_labels` `[b]` or `[b, 1]`, and, where
    present, float32 `example_weights` `[b]`. They return sums and weights, so that any loop can
    normalise by counts over all replicas and all accumulated batches.

    Plain Keras training works too: `compile(optimizer)` without a loss, then `fit(dataset)` on
    batches that are such dicts, of tensors whose first axis is the examples only (so without
    the scalar `first_example`). `compute_loss` normalises by the counts over all replicas.
    `save("….keras")` and `keras.saving.load_model` keep weights and optimizer.

    Args:
        config: a `ModelConfig`.
        next_sentence: whether there is a next-sentence head and loss.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
    """

    def __init__(self, config, next_sentence=True, dtype=None, seed=None, name="pretrainer",
                 **kwargs):
        super().__init__(dtype=dtype, name=name, **kwargs)
        self.config = config
        self.next_sentence = next_sentence
        self.seed = seed
        self.encoder = build_encoder(config, dtype=self.dtype_policy, seed=seed)
        self.embeddings = self.encoder.get_layer(config.family).embeddings
        self.masked_lm_head = MaskedLMHead(
            config.vocab_size, config.hidden_size, config.hidden_act, config.layer_norm_eps,
            config.initializer_range, seed, name="predictions", dtype=self.dtype_policy)
        self.next_sentence_head = None
        if next_sentence:
            self.next_sentence_head = NextSentenceHead(config.initializer_range, seed,
                                                       name="seq_relationship",
                                                       dtype=self.dtype_policy)
        # Built here rather than at the first call, where paths would begin with this model's
        # name: the official checkpoint's begin with `cls`.
        with keras.name_scope("cls"):
            self.masked_lm_head.build((None, None, config.hidden_size))
            if next_sentence:
                self.next_sentence_head.build((None, config.hidden_size))
        self.built = True
        self.accuracies = [keras.metrics.Mean(name=f"{task}_accuracy") for task in self.tasks]

    @property
    def tasks(self):
        """Names of the losses."""
        return ("masked_lm", "next_sentence") if self.next_sentence else ("masked_lm",)

    def call(self, batch, training=False):
        """Logits of both heads, float32."""
        outputs = self.encoder({name: batch[name] for name in INPUTS}, training=training)
        table = tf.convert_to_tensor(self.embeddings.word_embeddings)
        logits = {"masked_lm_logits": self.masked_lm_head(
            outputs["sequence_output"], batch["masked_lm_positions"], table, training=training)}
        if self.next_sentence:
            logits["next_sentence_logits"] = self.next_sentence_head(outputs["pooled_output"])
        return logits

    def _labels(self, batch):
        """`{task: (labels, weights)}`, weights float32 of the labels' shape."""
        example_weights = batch.get("example_weights")
        weights = tf.cast(batch["masked_lm_weights"], tf.float32)  # [B, P]
        if example_weights is not None:
            example_weights = tf.reshape(tf.cast(example_weights, tf.float32), [-1])
            weights *= example_weights[:, tf.newaxis]
        labels = {"masked_lm": (batch["masked_lm_ids"], weights)}
        if self.next_sentence:
            next_sentence = tf.reshape(batch["next_sentence_labels"], [-1])
            if example_weights is None:
                example_weights = tf.ones_like(next_sentence, tf.float32)
            labels["next_sentence"] = (next_sentence, example_weights)
        return labels

    def loss_weights(self, batch):
        """`{task: float32 scalar}`: predicted tokens, and examples, of the batch."""
        return {task: tf.reduce_sum(weights)
                for task, (_, weights) in self._labels(batch).items()}

    def loss_sums(self, outputs, batch):
        """`{task: float32 scalar}`: summed cross-entropy in nats.

        Args:
            outputs: of `call` on the same batch.
            batch: with labels.
        """
        sums = {}
        for task, (labels, weights) in self._labels(batch).items():
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=outputs[f"{task}_logits"])
            sums[task] = tf.reduce_sum(losses * weights)
        return sums

    def metric_sums(self, outputs, batch):
        """`{"<task>_accuracy": (sum, weight)}`, float32 scalars: right ones and all."""
        sums = {}
        for task, (labels, weights) in self._labels(batch).items():
            predicted = tf.argmax(outputs[f"{task}_logits"], -1, output_type=labels.dtype)
            right = tf.cast(predicted == labels, tf.float32)
            sums[f"{task}_accuracy"] = (tf.reduce_sum(right * weights), tf.reduce_sum(weights))
        return sums

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Mean over predicted tokens plus mean over examples, counted over all replicas."""
        weights = self.loss_weights(x)
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            weights = context.all_reduce(tf.distribute.ReduceOp.SUM, weights)
        # This replica's share of the mean: Keras adds the replicas' gradients up.
        return tf.add_n([tf.math.divide_no_nan(loss, weights[task])
                         for task, loss in self.loss_sums(y_pred, x).items()])

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Update the accuracies for `fit` and `evaluate`."""
        metric_sums = self.metric_sums(y_pred, x)
        for metric in self.accuracies:
            right, weight = metric_sums[metric.name]
            metric.update_state(tf.math.divide_no_nan(right, weight), sample_weight=weight)
        return self.get_metrics_result()

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "config": self.config.to_dict(),
                "next_sentence": self.next_sentence, "seed": self.seed,
                "dtype": keras.dtype_policies.serialize(self.dtype_policy)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Build from what `get_config` gave."""
        return cls(**{**config, "config": ModelConfig.from_dict(config["config"])})
