"""A label for every word or character (Devlin et al. 2019, section 5.3 and figure 4d)."""

import keras
import tensorflow as tf

from bert_tf.errors import UsageError
from bert_tf.models.families import INPUTS
from bert_tf.tasks.base.known_labels import KnownLabels
from bert_tf.tasks.base.labelled import LabelledModel, check_labels
from bert_tf.tasks.base.long_texts import in_parts
from bert_tf.tasks.base.text_preprocessor import is_text
from bert_tf.tasks.token_classification.entities import tag_text
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor
from bert_tf.tokenization.morphemes import in_original, pretokenize
from bert_tf.tokenization.texts import check_batch_size, text_list


@keras.saving.register_keras_serializable("bert_tf")
@keras.saving.register_keras_serializable("bert_tf", "Tagger")  # in files of 0.1
class TokenClassifier(LabelledModel, KnownLabels):
    """An encoder and one logit a label for every token.

    Call: a dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` `[b, seq_length]` ->
    logits float32 `[b, seq_length, labels]`. Labels: int32 `label_ids`
    `[b, seq_length]`, negative where there is none: padding, pieces inside a word.

    Where there is a `preprocessor`, also text, string `[b]` -> `[b, units, labels]`: logits of the
    words or characters that the preprocessor finds, 0 after a row's last; `label_ids` are `[b,
    units]` then.

    Args:
        encoder: a `ModelConfig` or an encoder, see `LabelledModel`.
        labels: names of the tags, in the order of their logits; see `entities` for what they mean.
            None for the numbers from 0.
        num_labels: how many there are, where they have no names.
        dtype: Keras policy such as `mixed_bfloat16`; None is the global one.
        seed: integer seed of the initial weights, see `build_encoder`.
        preprocessor: a `WordPreprocessor`, or None where only token ids are taken.
        features: None trains the encoder; else see `LabelledModel`.

    Raises:
        UsageError: the labels are not two or more names.
    """

    saved_as = "tagger"
    required_options = ("labels",)
    further_options = ("features", "dropout")
    preprocessor_class = WordPreprocessor
    label_keys = {"tagger": "label_ids"}

    def __init__(self, encoder, labels=None, dtype=None, seed=None, name="tagger",
                 num_labels=None, **kwargs):
        labels = check_labels(labels, num_labels)
        super().__init__(encoder, "tagger", len(labels), dtype=dtype, seed=seed, name=name,
                         **kwargs)
        self.labels = labels

    def options(self):
        """See `Saved.options`."""
        return {"labels": list(self.labels), **super().options()}

    @property
    def num_classes(self):
        """See `LabelledModel`."""
        return len(self.labels)

    def call(self, batch, training=False):
        """Compute logits float32, `[b, seq_length, labels]` of ids and `[b, units, labels]` of
        text."""
        read = self.read(batch)
        if not is_text(batch):
            return self._logits(read, "sequence_output", training)
        return tf.RaggedTensor.from_row_lengths(self.unit_logits(read, training),
                                                read["num_units"], validate=False).to_tensor()

    def unit_logits(self, read, training=False):
        """Compute logits float32 `[u, labels]` of the units that a `WordPreprocessor` has read."""
        if training:
            logits = self._logits(read, "sequence_output", training)
        else:
            [logits] = in_parts(lambda part: [self._logits(part, "sequence_output", False)],
                                {name: read[name] for name in INPUTS},
                                tf.TensorSpec([None, None, len(self.labels)]))
        return tf.gather_nd(logits, read["unit_places"])

    def tag(self, texts, batch_size=32):
        """Return the labels and the entities of texts.

        Args:
            texts: a str, or what `text_list` takes.
            batch_size: texts that are tagged together.

        Returns: a list of dicts, `{"units": […], "entities": […]}`, each of these a dict of
            `text`, `label`, `start` and `end` (characters of the text as given: `text[start:end]`)
            and `score`, the label's probability; of an entity the mean of its units'. Of a str one
            such dict.

        Raises:
            UsageError: the model has no preprocessor.
        """
        self.need_preprocessor()
        if isinstance(texts, str):
            return self.tag([texts], batch_size)[0]
        texts = text_list(texts)
        analysed = pretokenize(self.preprocessor.tokenizer, texts)
        answers = []
        for start in range(0, len(texts), check_batch_size(batch_size)):
            rows = slice(start, start + batch_size)
            found = tag_text(self, self.preprocessor, tf.constant(analysed[rows], tf.string))
            answers += [{"units": units, "entities": entities} for units, entities in zip(
                _records(found, texts[rows], analysed[rows], "unit_labels", "unit_starts",
                         "unit_ends", "unit_scores"),
                _records(found, texts[rows], analysed[rows], "labels", "starts", "ends",
                         "scores"), strict=True)]
        return answers

    def loss_sums(self, outputs, batch):
        """See `Objective.loss_sums`."""
        return super().loss_sums({"tagger_logits": outputs}, self.as_wide(batch, outputs))

    def metric_sums(self, outputs, batch):
        """See `Objective.metric_sums`."""
        return super().metric_sums({"tagger_logits": outputs}, self.as_wide(batch, outputs))

    def as_wide(self, batch, outputs):
        """See `KnownLabels`: as wide as logits `[b, units, labels]`.

        Texts have the width of a batch's longest, labels given beside them that of the longest of
        all.
        """
        wide, width = tf.convert_to_tensor(batch["label_ids"]), tf.shape(outputs)[1]
        message = ("label_ids have another shape than the logits; expected a label for each token "
                   "of the ids, or for each unit that the preprocessor finds in the text, -1 after "
                   "a row's last")
        if wide.shape.rank not in (2, None):
            raise UsageError(message)
        checks = [tf.debugging.assert_less(wide[:, width:], tf.cast(0, wide.dtype), message),
                  tf.debugging.assert_equal(tf.shape(wide[:, :width]), tf.shape(outputs)[:2],
                                            message)]
        with tf.control_dependencies([check for check in checks if check is not None]):
            batch = {**batch, "label_ids": tf.identity(wide[:, :width])}
        weights = batch.get("example_weights")
        weights = weights["label_ids"] if isinstance(weights, dict) else weights
        if weights is not None and len(weights.shape) == 2:
            batch["example_weights"] = weights[:, :width]
        return batch

    def _labels(self, batch, key):
        return tf.cast(batch[key], tf.int32)


def _records(found, texts, analysed, *names):
    """Return a list of dicts of Python values for each text."""
    rows = []
    for text, seen, labels, starts, ends, scores in zip(
            texts, analysed, *(found[name].to_list() for name in names), strict=True):
        starts, ends, texts = in_original(text, seen, starts, ends)
        rows.append([{"text": part, "label": label.decode(), "start": int(start),
                      "end": int(end), "score": score} for part, label, start, end, score in zip(
                          texts, labels, starts, ends, scores, strict=True)])
    return rows
