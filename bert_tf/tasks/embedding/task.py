"""How alike two texts are, by the cosine of their vectors: of models that nobody fine-tuned."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.tasks.base.reader import TextReader
from bert_tf.tasks.base.regression_metrics import regression_metrics
from bert_tf.tasks.classification.task import TextKind
from bert_tf.tasks.embedding.metrics import likeness_metrics
from bert_tf.tasks.task import Kind, served_batches
from bert_tf.tokenization.morphemes import analyse

_DIGITS = 6  # of a score in predictions.jsonl
_BATCH_CHARACTERS = 1 << 14  # of the texts that a SavedModel is asked about together


class VectorKind(Kind):
    """Pairs of texts and an embedder, or a model that is made one; `evaluate` alone uses it.

    Of a task with two labels the last one means alike.
    """

    text_fields = ("text_a", "text_b")
    models = ("embedder", "encoder", "pretraining", "language_model", "replaced_tokens")
    built_as = "embedder"

    def __init__(self, task, options):
        super().__init__(task, options)
        if task.problem != "regression" and (task.labels or ("0", "1")) != ("0", "1"):
            raise UsageError(explain(
                f"--task {task.name} with a model without labels, whose vectors tell only how "
                "alike two texts are", attempt="stsb, klue_sts, mrpc, qqp or pair, or "
                "bert_tf.finetune first"))

    def model_options(self, labels, tokenizer):
        """An embedder that reads the beginning of each text."""
        return "embedder", {"reader": TextReader(tokenizer, self.options.seq_length)}

    given = TextKind.given

    def predict(self, model, examples):
        """`{"id", "score"}`: the cosine."""
        return self._lines(examples, model.embed)

    def predict_served(self, signatures, about, examples):
        """The same from a SavedModel's signature `embed`; see `TextKind.predict_served`."""
        if "embed" not in signatures:
            raise UsageError("the SavedModel has no signature embed, which takes text")

        def embed(texts):
            texts = analyse(texts, progress=True) if about.get("pretokenize") else texts
            vectors = [None] * len(texts)
            for rows in served_batches(np.array([len(text) for text in texts]), _BATCH_CHARACTERS):
                answer = signatures["embed"](text=tf.constant([texts[row] for row in rows]))
                for row, vector in zip(rows, answer["embedding"].numpy(), strict=True):
                    vectors[row] = vector
            if vectors[0].ndim != 1:
                raise UsageError(explain("a SavedModel with a vector for each token",
                                         "another --pooling at export than none"))
            return np.stack(vectors)

        return self._lines(examples, embed)

    @staticmethod
    def _lines(examples, embed):
        texts = list(dict.fromkeys(text for each in examples for text in (each.text_a,
                                                                          each.text_b)))
        vectors = dict(zip(texts, _of_length_1(embed(texts)), strict=True))
        return [{"id": each.id, "score": round(
            float(vectors[each.text_a] @ vectors[each.text_b]), _DIGITS)} for each in examples]

    def metrics(self, examples, predictions):
        """Correlations with the number that was asked for, or how labels are told apart."""
        for example in examples:
            if example.label is None:
                raise BertTfError(explain(f"{example.where}: no label", "one to measure by"))
        gold = [example.label for example in examples]
        scores = [line["score"] for line in predictions]
        if self.task.problem == "regression":
            # A cosine is on another scale: errors would say nothing.
            metrics = regression_metrics(gold, scores)
            return {name: metrics[name] for name in ("spearman", "pearson")}
        labels = self.task.labels or sorted(set(gold))
        if len(labels) != 2:
            raise BertTfError(explain(f"{len(labels)} labels to be told by likeness", "two"))
        return likeness_metrics([label == labels[-1] for label in gold], scores)

    def report(self, examples, predictions, folder):
        """Nothing beyond the predictions."""


def _of_length_1(vectors):
    """`vectors [n, width]`, each of length 1; one of 0 stays 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
