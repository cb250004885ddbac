"""Similarity of two texts, by the cosine of their vectors: of models without labels."""

import json

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval.codes import VectorCode
from bert_tf.tasks.base.regression_metrics import regression_metrics
from bert_tf.tasks.base.task_type import TaskType, batches_by_length
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.encoder import TextEncoder
from bert_tf.tasks.embedding.metrics import similarity_metrics
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tokenization.morphemes import analyse

# Models, as saved, that have no labels: their encoder makes vectors.
_WITHOUT_LABELS = ("encoder", "pretraining", "language_model", "replaced_tokens")
_DIGITS = 6  # of a score in predictions.jsonl
_BATCH_CHARACTERS = 1 << 14  # of the texts that a SavedModel is asked about together


class Embedding(TaskType):
    """Pairs of texts and an embedder, or a model that is made one; `evaluate` alone uses it.

    Of a task with two labels the last one means similar.
    """

    models = (SentenceEmbedder, TextEncoder)
    built_as = SentenceEmbedder.saved_as

    @classmethod
    def evaluates(cls, task, saved_task):
        """See `TaskType.evaluates`: pairs of texts, by any model that predicts no labels."""
        return task.pair and saved_task in (cls.built_as, *_WITHOUT_LABELS)

    def __init__(self, task, options):
        super().__init__(task, options)
        if task.problem != "regression" and (task.labels or ("0", "1")) != ("0", "1"):
            raise UsageError(explain(
                f"--task {task.name} with a model without labels, whose vectors say only how "
                "similar two texts are", attempt="stsb, klue_sts, mrpc, qqp or pair, or "
                "bert_tf.finetune first"))

    def check_model(self, about, where):
        """See `TaskType.check_model`: every model that `evaluates` takes fits."""

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`; the beginning of each text is read."""
        length = self.options.max_seq_length
        return "embedder", {"preprocessor": TextPreprocessor(tokenizer, length)}

    def predict(self, model, examples):
        """Return `{"id", "score"}` for each pair: the cosine."""
        return self._lines(examples, model.embed)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signature `embed`."""
        if "embed" not in signatures:
            raise UsageError("the SavedModel has no signature embed, which takes text")

        def embed(texts):
            texts = analyse(texts, progress=True) if about.get("pretokenize") else texts
            vectors = [None] * len(texts)
            for rows in batches_by_length(np.array([len(text) for text in texts]),
                                          _BATCH_CHARACTERS):
                answer = signatures["embed"](text=tf.constant([texts[row] for row in rows]))
                for row, vector in zip(rows, answer["embedding"].numpy(), strict=True):
                    vectors[row] = vector
            if vectors[0].ndim != 1:
                raise UsageError(explain("a SavedModel with a vector for each token",
                                         "another --pooling at export than none"))
            return _code(signatures).decode(np.stack(vectors))

        return self._lines(examples, embed)

    @staticmethod
    def _lines(examples, embed):
        texts = list(dict.fromkeys(text for each in examples for text in (each.text_a,
                                                                          each.text_b)))
        vectors = dict(zip(texts, _of_length_1(embed(texts)), strict=True))
        return [{"id": each.id, "score": round(
            float(vectors[each.text_a] @ vectors[each.text_b]), _DIGITS)} for each in examples]

    def metrics(self, examples, predictions):
        """See `TaskType.metrics`: correlations with the label, or how the cosine separates two."""
        for example in examples:
            if example.label is None:
                raise BertTfError(explain(f"{example.where}: no label", "one in every example"))
        truth = [example.label for example in examples]
        scores = [line["score"] for line in predictions]
        if self.task.problem == "regression":
            # A cosine is on another scale: errors would mean nothing.
            metrics = regression_metrics(truth, scores)
            return {name: metrics[name] for name in ("spearman", "pearson")}
        labels = self.task.labels or sorted(set(truth))
        if len(labels) != 2:
            raise BertTfError(explain(f"{len(labels)} labels to be predicted by similarity", "two"))
        return similarity_metrics([label == labels[-1] for label in truth], scores)


def _code(signatures):
    """Return the `VectorCode` of what a SavedModel's signature `embed` gives."""
    if "describe" not in signatures:  # written by an early version, or by others
        return VectorCode()
    answer = signatures["describe"](text=tf.constant([""]))["description"].numpy()
    return VectorCode.from_options(json.loads(answer[0]).get("embedding", {}))


def _of_length_1(vectors):
    """Scale `vectors [n, width]` to length 1 each; one of 0 stays 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


TYPE = Embedding
