"""The task of queries and their texts from which weights of tokens are learned."""

import dataclasses

from bert_tf.tasks.embedding.datasets import TASKS as _EMBEDDING

TASKS = tuple(dataclasses.replace(task, name="sparse", type="sparse") for task in _EMBEDDING)
