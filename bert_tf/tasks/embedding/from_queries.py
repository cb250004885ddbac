"""What tasks have in common whose models learn from queries and their texts alone."""

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.embedding.check import KINDS, kind_of
from bert_tf.tasks.embedding.task import Embedding


class FromQueries(Embedding):
    """Base of tasks as `embed`, whose texts are compared otherwise than by cosines.

    A subclass sets `models`, `answered_by` and `built_as` and defines `predict` and
    `predict_served`.
    """

    @classmethod
    def evaluates(cls, task, saved_task):
        """See `TaskType.evaluates`: its own alone."""
        return False

    def labels(self, train):
        """See `Embedding.labels`; labelled pairs are refused."""
        if kind_of(train) == KINDS[0]:
            raise UsageError(explain(f"--task {self.task.name} with {KINDS[0]}", KINDS[1]))
        return super().labels(train)
