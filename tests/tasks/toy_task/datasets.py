"""The toy task by name."""

from bert_tf.tasks.base.text_files import Columns, read_texts
from bert_tf.tasks.task import Task


def _read(path, columns, form):
    return read_texts(path, Columns(**columns), form=form)


TASKS = (Task("tone", "toy", _read, columns={"text": "text", "label": "tone"}),)
