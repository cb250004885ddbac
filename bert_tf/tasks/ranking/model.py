"""A cross-encoder that learns to rank (Nogueira and Cho 2019, "Passage Re-ranking with BERT")."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.base.known_labels import KnownLabels
from bert_tf.tasks.base.labelled import LabelledModel, check_sees_text
from bert_tf.tasks.base.lists import each_row
from bert_tf.tasks.base.objective import weighed
from bert_tf.tasks.base.ranks import ScoresPairs
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.ranking.losses import LOSSES, of_candidates

LABEL = "relevance"
_SOFTMAX = (None, "categorical_crossentropy")  # losses of `compile`


@keras.saving.register_keras_serializable("bert_tf")
class Ranker(ScoresPairs, LabelledModel, KnownLabels):
    """An encoder that reads a query and a passage together, and one logit from `pooled_output`.

    Its variables are those of a `Classifier` of one number, and so it is saved: what is read again,
    converted and served is the same as a published cross-encoder.

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]`, or
    pairs of texts where there is a `preprocessor` -> logits float32 `[b, 1]`; of a query's
    candidates side by side, `[b, candidates, seq_length]` -> `[b, candidates]`. `label_ids`, int32
    of the logits' shape: 1 relevant, 0 not, negative no candidate.

    Args:
        encoder: a `ModelConfig` or an encoder, see `LabelledModel`.
        loss: one of `LOSSES`; `listwise` compares the candidates of a query.
        dtype, seed: see `build_encoder`.
        preprocessor: a `TextPreprocessor`, or None where only token ids are taken.

    Raises:
        UsageError: the loss is unknown, or the vector to be scored has seen the first token alone.
    """

    saved_as = "ranker"
    further_options = ("loss", "features", "dropout")
    preprocessor_class = TextPreprocessor
    label_keys = {"ranker": "label_ids"}
    with_transform = ("dense", "transform")

    def __init__(self, encoder, loss="listwise", dtype=None, seed=None, name="ranker", **kwargs):
        check_sees_text(encoder, kwargs.get("features"), "ranker")
        check_choice("loss", loss, LOSSES)
        super().__init__(encoder, "classifier", 1, dtype=dtype, seed=seed, name=name, **kwargs)
        self.rank_loss = loss
        if self.preprocessor is not None:
            self.preprocessor.pair = True

    @property
    def one_label(self):
        """See `LabelledModel`; candidates of a query side by side have one each."""
        return self.rank_loss == "binary"

    def options(self):
        """See `Saved.options`."""
        return {"loss": self.rank_loss, **super().options()}

    def task_config(self):
        """See `Saved.task_config`: that of a `Classifier`."""
        return {"task": "classifier", "labels": [LABEL], "problem": "regression",
                **super().options()}

    def call(self, batch, training=False):
        """Compute logits float32 `[b, 1]` or `[b, candidates]`."""
        batch = self.read(batch)
        if len(batch["input_word_ids"].shape) == 2:
            return self._logits(batch, "pooled_output", training)
        return each_row(batch, lambda pairs: self._logits(pairs, "pooled_output", training))[..., 0]

    def weights_of(self, batch):
        """See `LabelledModel.weights_of`."""
        weights = LOSSES[self.rank_loss][1](self._labels(batch, "label_ids"))
        return {"ranker": weighed(weights, batch)}

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        labels = self._labels(batch, "label_ids")
        if self.rank_loss == "listwise" and labels.shape[1] == 1:
            raise UsageError(explain(
                "loss='listwise' of a query beside a single passage", "candidates "
                "[b, candidates, seq_length] with their label_ids", "loss='binary'"))
        losses = LOSSES[self.rank_loss][0](outputs, labels)
        return {"ranker": tf.reduce_sum(self.weights_of(batch)["ranker"] * losses)}

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`: how often a relevant candidate has the highest score."""
        labels = self._labels(batch, "label_ids")
        if labels.shape[1] == 1:
            right = (outputs[:, 0] > 0) == (labels[:, 0] > 0)
            weights = weighed(labels[:, 0] >= 0, batch)
        else:
            best = tf.argmax(tf.where(labels < 0, tf.float32.min, outputs), axis=1)
            right = tf.gather(labels, best, batch_dims=1) > 0
            weights = weighed(LOSSES["listwise"][1](labels), batch)
        return {"ranker_accuracy": (tf.reduce_sum(weights * tf.cast(right, tf.float32)),
                                    tf.reduce_sum(weights))}

    def known(self, y, y_pred, weights):
        """See `KnownLabels`; labels that are floats, such as a teacher's scores, may be negative.

        Candidates stay side by side for a softmax over them, as of the model's own listwise loss
        or of CategoricalCrossentropy: those that are none get the lowest of logits, and queries
        with nothing to compare are left out. For any other loss each is a row.
        """
        given = tf.convert_to_tensor(self._with_labels(None, y)["label_ids"])
        several = y_pred.shape[1] != 1
        if given.dtype.is_floating or several and len(given.shape) == 1:
            return y, y_pred, weights
        labels = self._labels({"label_ids": given}, "label_ids")
        if several and self.rank_loss == "listwise" and getattr(
                self.loss, "name", self.loss) in _SOFTMAX:
            kept = LOSSES["listwise"][1](labels)
            if weights is not None:
                weights = tf.boolean_mask(weights, kept)
            return (tf.boolean_mask(tf.maximum(labels, 0), kept),
                    tf.boolean_mask(of_candidates(y_pred, labels), kept), weights)
        known = labels >= 0
        if weights is not None:
            weights = tf.boolean_mask(
                weighed(tf.ones_like(labels), {"example_weights": weights}), known)
        return (tf.boolean_mask(labels, known)[:, tf.newaxis],
                tf.boolean_mask(y_pred, known)[:, tf.newaxis], weights)

    def _labels(self, batch, key):
        labels = tf.cast(batch[key], tf.int32)
        return labels if len(labels.shape) == 2 else tf.reshape(labels, [-1, 1])
