"""Metrics of predictions of rows that have the label that they are about."""

import itertools
import sys

from bert_tf.data.tables import BadRow, NoColumn
from bert_tf.errors import BertTfError
from bert_tf.finetune.config import FinetuneConfig
from bert_tf.tasks.base.text_files import UnknownLabel
from bert_tf.tasks.registry import find_task, make_type, tasks


def measure(name, several, rows, columns, shards):
    """Measure what was predicted, as `evaluate` does.

    Args:
        name: of the task, or None.
        several: whether the model gives a text any number of labels.
        rows: the `Rows` of the input.
        columns: `{"label": …, …}`, those of another name than the task's own.
        shards: iterable of `(places, predicted)`: for each shard the file and line of its rows,
            and an iterable of dicts of what was predicted of them.

    Returns: `{metric: float}`, the number of rows with a label, and of those with one that the
        model does not know, which are not measured; `{}` and zeros where no file has a column with
        labels, or the files are none of the task's examples, such as a table of questions for a
        task of SQuAD's files.
    """
    if name not in tasks():
        return {}, 0, 0
    task = find_task(name, several and find_task(name).several is not None)
    task_type = make_type(task, FinetuneConfig(task=name, train="", dev="", output_dir="",
                                               text_b_column=columns.get("text_b")))
    if not task_type.measures_rows:
        return {}, 0, 0
    predicted = ((place, row) for places, found in shards
                 for place, row in zip(places, found, strict=True))
    unknown = 0

    def known():
        nonlocal unknown
        for example, row in _beside(_labelled(task, rows, columns), predicted):
            if isinstance(example, BadRow):
                unknown += isinstance(example, UnknownLabel)
                continue
            prediction = task_type.prediction(example, row)
            if prediction is None:
                unknown += 1
            else:
                yield example, prediction

    return *task_type.measured(known()), unknown


def _labelled(task, rows, columns):
    """Yield `(place, example or BadRow)` of every row."""
    if task.columns is None:  # of its published files: others lack the columns of ids and groups
        texts = zip(("text", "text_b"), rows.text_columns.values(), strict=False)
        columns = {**columns, **dict(texts), "id": None, "group": None}
    else:
        columns = {**task.columns, **columns}
    for source in rows.sources:
        if source.names:
            places = (place for place, _ in source.rows(rows.text_columns.values()))
            examples = _examples(task, source, columns) if source.is_table else ()
            yield from zip(places, itertools.chain(
                examples, itertools.repeat(BadRow("not labelled"))), strict=False)


def _examples(task, source, columns):
    """Yield the examples of a table, as far as it can be read as such: what can be predicted need
    not be labelled."""
    try:
        yield from task.read(source.path, columns, source.form)
    except NoColumn:
        pass
    except BertTfError as error:
        print(f"{source.path} is not measured: {error}", file=sys.stderr)


def _beside(labelled, predicted):
    """Yield `(example, row)` of the places that both have, which come in the same order."""
    wanted, row = next(predicted, (None, None))
    for place, example in labelled:
        if place == wanted:
            yield example, row
            wanted, row = next(predicted, (None, None))
