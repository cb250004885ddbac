"""Vectors of tokens: learned from queries and their texts, measured by MaxSim."""

from bert_tf.retrieval.prompts import PASSAGE, ROLES
from bert_tf.retrieval.token_vectors import TokenVectors, max_sims
from bert_tf.shapes import check_finite
from bert_tf.tasks.base.task_type import served_answers
from bert_tf.tasks.embedding.from_queries import FromQueries
from bert_tf.tasks.embedding.multi_vector.features import ReaderTable
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.task import lines_of, table_of

_OPTIONS = ("dim", "query_length", "expansion")
SIGNATURES = {role: f"{role}_vectors" for role in ROLES}


class MultiVector(FromQueries):
    """The task `multi_vector`: vectors of tokens are learned, and compared by MaxSim."""

    models = (MultiVectorEmbedder,)
    answered_by = (SIGNATURES[PASSAGE],)
    built_as = MultiVectorEmbedder.saved_as

    def model_options(self, labels, tokenizer):
        """See `TaskType.model_options`."""
        built_as, options = super().model_options(labels, tokenizer)
        given = {name: getattr(self.options, name) for name in _OPTIONS}
        return built_as, options | {
            name: value for name, value in given.items() if value is not None}

    def truncation(self, preprocessor):
        """See `TaskType.truncation`; queries have a length of their own."""
        return "passages, and queries to their own length,", preprocessor.seq_length

    def predict(self, model, examples):
        """See `Embedding.predict`; `score` is MaxSim."""
        features = self.features_to_predict(model, examples)
        vectors = [None] * len(features)
        for rows, found, _ in self.outputs(model, features):
            for row, of_text in zip(rows, found, strict=True):
                vectors[row] = of_text[of_text.any(-1)]
        table, rows = table_of(examples, ReaderTable(model.prompts))
        return _lines(examples, table, rows, vectors)

    def predict_served(self, signatures, about, examples):
        """See `TaskType.predict_served`; by the signatures of queries and of passages."""
        table, rows = table_of(examples, ReaderTable(about.get("prompts") or {}))
        vectors = [None] * len(table.texts)
        for role in ROLES:
            own = table.rows_of(role)
            texts = {"text": [table.texts[row] for row in own]}
            for row, answer in served_answers(signatures, SIGNATURES[role], texts, about):
                vectors[own[row]] = answer["vectors"][:answer["num_vectors"]]
        return _lines(examples, table, rows, vectors)


def _lines(examples, table, rows, vectors):
    vectors = TokenVectors.of(vectors)
    check_finite(vectors.values, "the model gives vectors")
    return lines_of(examples, table, rows, vectors, max_sims)


TYPE = MultiVector
