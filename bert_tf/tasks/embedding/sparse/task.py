"""Weights of tokens: learned from queries and their texts, measured by scalar products."""

import numpy as np
from scipy import sparse

from bert_tf.retrieval.term_index import TermIndex
from bert_tf.tasks.embedding.features import TextTable
from bert_tf.tasks.embedding.from_queries import FromQueries
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.embedding.task import check_finite, lines_of, served_answers, table_of


class SparseEmbedding(FromQueries):
    """The task `sparse`: weights of tokens are learned, and compared by scalar products."""

    models = (SparseEmbedder,)
    answered_by = ("sparse",)
    built_as = SparseEmbedder.saved_as

    def predict(self, model, examples):
        """See `Embedding.predict`; `score` is the scalar product."""
        features = self.features_to_predict(model, examples)
        places, parts = [], []
        for rows, found, _ in self.outputs(model, features):
            places.append(rows)
            parts.append(sparse.csr_matrix(found))
        weights = sparse.vstack(parts)[np.argsort(np.concatenate(places))]
        return _lines(examples, *table_of(examples, TextTable(model.prompts)), weights)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signature `sparse`."""
        table, rows = table_of(examples, TextTable(about.get("prompts") or {}))
        found = [None] * len(table.texts)
        for row, answer in served_answers(signatures, "sparse", table.texts, about):
            terms, weights = (answer[name][:answer["num_terms"]] for name in ("terms", "weights"))
            found[row] = dict(zip(terms, weights, strict=True))
        return _lines(examples, table, rows, TermIndex().matrix(found))


def _lines(examples, table, rows, weights):
    check_finite(weights.data)
    return lines_of(examples, table, rows, weights)


TYPE = SparseEmbedding
