"""Examples, predictions and metrics of the toy task."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base.task_type import TaskType
from bert_tf.tasks.base.text_features import text_features
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from toy_task.model import ToneModel


class Toy(TaskType):
    """Tones of texts."""

    models = (ToneModel,)

    def labels(self, train):
        """See `TaskType.labels`."""
        return sorted({example.label for example in train})

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`."""
        preprocessor = TextPreprocessor(tokenizer, self.options.max_seq_length)
        return "tone", {"labels": labels, "preprocessor": preprocessor}

    def features(self, examples, model, training):
        """See `TaskType.features`."""
        return text_features(examples, model.preprocessor, model.labels, "single_label")

    def predict(self, model, examples):
        """See `TaskType.predict`."""
        features, lines = self.features_to_predict(model, examples), [None] * len(examples)
        for rows, logits, _ in self.outputs(model, features):
            for row, best in zip(features.example[rows], np.argmax(logits, 1), strict=True):
                lines[row] = {"id": examples[row].id, "tone": model.labels[best]}
        return lines

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`."""
        answer = signatures["tone"](text=tf.constant([example.text_a for example in examples]))
        return [{"id": example.id, "tone": tone.decode()}
                for example, tone in zip(examples, answer["tone"].numpy(), strict=True)]

    def metrics(self, examples, predictions):
        """See `TaskType.metrics`."""
        return {"accuracy": float(np.mean([example.label == line["tone"] for example, line in zip(
            examples, predictions, strict=True)]))}


TYPE = Toy
