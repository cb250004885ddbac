"""Weights of tokens: learned from queries and their texts, measured by scalar products."""

import numpy as np
from scipy import sparse

from bert_tf.errors import UsageError, explain
from bert_tf.retrieval.term_index import TermIndex
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.check import KINDS, kind_of, suited_loss
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.embedding.sparse.options import SparseLoss
from bert_tf.tasks.embedding.task import (
    Embedding,
    check_finite,
    lines_of,
    served_answers,
    table_of,
)


class SparseEmbedding(Embedding):
    """The task `sparse`: as `embed`, but weights of tokens are learned, and compared by scalar
    products."""

    models = (SparseEmbedder,)
    answered_by = ("sparse",)
    built_as = SparseEmbedder.saved_as

    @classmethod
    def evaluates(cls, task, saved_task):
        """See `TaskType.evaluates`: its own alone."""
        return False

    def labels(self, train):
        """See `TaskType.labels`: none; a loss is chosen, and what it cannot learn is refused."""
        if kind_of(train) == KINDS[0]:
            raise UsageError(explain(f"--task sparse with {KINDS[0]}", KINDS[1]))
        self.loss = suited_loss(self.options, train, SparseLoss)
        return []

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`; the beginning of each text is read."""
        options = {"preprocessor": TextPreprocessor(tokenizer, self.options.max_seq_length)}
        if self.loss is not None:
            options["training_loss"] = self.loss
        return self.built_as, options

    def predict(self, model, examples):
        """See `Embedding.predict`; `score` is the scalar product."""
        features = self.features_to_predict(model, examples)
        places, parts = [], []
        for rows, found, _ in self.outputs(model, features):
            places.append(rows)
            parts.append(sparse.csr_matrix(found))
        weights = sparse.vstack(parts)[np.argsort(np.concatenate(places))]
        return _lines(examples, *table_of(examples, model.prompts), weights)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signature `sparse`."""
        table, rows = table_of(examples, about.get("prompts") or {})
        found = [None] * len(table.texts)
        for row, answer in served_answers(signatures, "sparse", table.texts, about):
            terms, weights = (answer[name][:answer["num_terms"]] for name in ("terms", "weights"))
            found[row] = dict(zip(terms, weights, strict=True))
        return _lines(examples, table, rows, TermIndex().matrix(found))


def _lines(examples, table, rows, weights):
    check_finite(weights.data)
    return lines_of(examples, table, rows, weights,
                    lambda query, text: weights[query].multiply(weights[text]).sum())


TYPE = SparseEmbedding
