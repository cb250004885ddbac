"""Weights of tokens: learned from queries and their texts, measured by scalar products."""

import numpy as np
from scipy import sparse

from bert_tf.retrieval.prompts import QUERY, ROLES
from bert_tf.retrieval.term_index import weights_matrix
from bert_tf.shapes import check_finite
from bert_tf.tasks.base.task_type import served_answers
from bert_tf.tasks.embedding.features import RoleTable
from bert_tf.tasks.embedding.from_queries import FromQueries
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder
from bert_tf.tasks.embedding.task import lines_of, table_of


class SparseEmbedding(FromQueries):
    """The task `sparse`: weights of tokens are learned, and compared by scalar products."""

    models = (SparseEmbedder,)
    answered_by = ("sparse",)
    built_as = SparseEmbedder.saved_as

    def predict(self, model, examples):
        """See `Embedding.predict`; `score` is the scalar product."""
        features = self.features_to_predict(model, examples)
        table, rows = table_of(examples, RoleTable(model.prompts))
        places, parts = [], []
        for own, found, batch in self.outputs(model, features):
            if model.query_table is not None:
                by_table = np.isin(own, table.rows_of(QUERY))[:, np.newaxis]
                found = np.where(by_table, model.query_weights(batch), found)
            places.append(own)
            parts.append(sparse.csr_matrix(found))
        weights = sparse.vstack(parts)[np.argsort(np.concatenate(places))]
        return _lines(examples, table, rows, weights)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signatures of queries, if any, and passages."""
        table, rows = table_of(examples, RoleTable(about.get("prompts") or {}))
        found = [None] * len(table.texts)
        for role in ROLES:
            name = "sparse_queries" if role == QUERY and "sparse_queries" in signatures else (
                "sparse")
            own = table.rows_of(role)
            texts = {"text": [table.texts[row] for row in own]}
            for row, answer in served_answers(signatures, name, texts, about):
                terms, weights = (answer[name][:answer["num_terms"]]
                                  for name in ("terms", "weights"))
                found[own[row]] = dict(zip(terms, weights, strict=True))
        return _lines(examples, table, rows, weights_matrix(found, {}))


def _lines(examples, table, rows, weights):
    check_finite(weights.data, "the model gives weights")
    return lines_of(examples, table, rows, weights)


TYPE = SparseEmbedding
