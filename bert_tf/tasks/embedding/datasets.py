"""The task of pairs, triplets, labelled pairs and texts from which vectors are learned."""

from bert_tf.tasks.base.query_files import read_queries
from bert_tf.tasks.task import Task

TASKS = (
    Task("embed", "embedding", read_queries,
         ("mrr@10", "ndcg@10", "map", "recall@1", "recall@10", "spearman", "pearson"),
         ("mrr@10", "max"), pair=True, seq_length=256, columns={},
         optional_columns=("text", "text_b", "label", "id")),
)
