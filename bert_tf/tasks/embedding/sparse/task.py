"""Weights of tokens for texts: their model."""

from bert_tf.tasks.base.task_type import TaskType
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder


class SparseEmbedding(TaskType):
    """Models that weigh the tokens of the vocabulary; no task by name has this type."""

    models = (SparseEmbedder,)
    answered_by = ("sparse",)


TYPE = SparseEmbedding
