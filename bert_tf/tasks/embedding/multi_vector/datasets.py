"""The task of queries and their texts from which a vector for each token is learned."""

import dataclasses

from bert_tf.tasks.embedding.datasets import TASKS as _EMBEDDING

TASKS = tuple(dataclasses.replace(task, name="multi_vector", type="multi_vector")
              for task in _EMBEDDING)
