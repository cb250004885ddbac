"""A task by name: its files, labels and metrics."""

import collections.abc
import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
    """A task: how a file of examples is read and measured; the rows of `registry.TASKS`.

    Attributes:
        name: as given to `--task`.
        type: the folder of `bert_tf/tasks` whose `TaskType` knows how.
        read: `(path, columns, form)`, yields examples of that type and `BadRow`s, see
            `base.read_examples`.
        metrics: those published for the task.
        monitor: `(metric, "max" or "min")` by which models are compared.
        labels: the official names in their official order (of a regression: what is
            measured); None where the train file decides.
        problem: of a text: `single_label`, `multi_label` or `regression`.
        pair: whether examples are pairs of texts.
        unanswerable: whether a question may have no answer.
        seq_length: tokens of an example where `--max_seq_length` is not given.
        dev_last: whether the dev examples are the end of the file, as the published results of
            the task have it.
        dirty: the file as published has broken rows, of a wrong number of columns or without a
            proper text, which are skipped.
        columns: `{"text": …, "label": …}`, the default columns of a custom table; None
            for a named task, whose files have fixed columns.
        optional_columns: keys that `columns` may have beside those.
        text_columns: those of texts in a named task's published tables.
        several: the same task with any number of labels for a text; None where there is none.
    """

    name: str
    type: str
    read: collections.abc.Callable
    metrics: tuple[str, ...] = ("accuracy",)
    monitor: tuple[str, str] = ("accuracy", "max")
    labels: tuple[str, ...] | None = None
    problem: str | None = None
    pair: bool = False
    unanswerable: bool = False
    seq_length: int = 128
    dev_last: bool = False
    dirty: bool = False
    columns: dict | None = None
    optional_columns: tuple[str, ...] = ("id",)
    text_columns: tuple[str, ...] = ()
    several: "Task | None" = None
