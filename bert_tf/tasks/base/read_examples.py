"""Reading a file of labelled examples, every invalid one counted and named."""

import os
import sys

from bert_tf.data.table_form import AS_FOUND
from bert_tf.data.tables import BadRow, NoColumn, NoField
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.storage.encodings import EncodingError
from bert_tf.tasks.base.text_files import BadLabel

_SHOWN = 5  # invalid examples that are named one by one


def read_examples(task, path, columns=None, form=AS_FOUND, skipped=None):
    """Read the examples of a file and check them as a whole.

    Args:
        task: a `Task`.
        path: the file, str or `os.PathLike`, also `.gz`.
        columns: `{"text": …, "text_b": …, "label": …, "id": …}`, those that differ from
            `Task.columns`; numbers are columns from 0 of a table without header. For several
            labels also `"separator"` (a comma).
        form: a `TableForm`.
        skipped: list that a BadRow is appended to for each example that is invalid, and so skipped;
            None refuses them, but for what `Task.dirty` is about. Both is reported on standard
            error.

    Returns: list of `Example`, of the class of the task's type.

    Raises:
        UsageError: unknown or missing columns, or columns for a task that has fixed ones.
        BertTfError: the file cannot be read, has no examples, or has invalid ones; they are
        counted,
            the first of them named by file and line.
    """
    columns = {name: str(column) for name, column in (columns or {}).items()
               if column is not None}
    if columns and task.columns is None:
        raise UsageError(explain(
            f"columns for task={task.name!r}, whose files have fixed columns",
            attempt="a task for custom tables, such as 'classify'"))
    for name in columns:
        check_choice("columns", name, (*task.columns, *task.optional_columns))
    published = task.columns is None
    columns = {**(task.columns or {}), **columns}
    path = os.fspath(path)
    try:
        examples, bad = _sorted_out(task.read(path, columns, form))
    except NoColumn as error:
        flags = [f"--{name}_column" for name in columns if columns[name] == error.column]
        raise UsageError(explain(str(error), attempt=_own_table(task) if published
                                 else " or ".join(flags))) from error
    except EncodingError as error:
        raise BertTfError(f"{error}, or --encoding {error.likely or 'NAME'}") from error
    total = len(examples) + len(bad)
    if not total:
        raise BertTfError(explain(f"{path}: no examples", f"examples of {task.name}"))
    refused = [] if skipped is not None else [
        error for error in bad if not task.dirty or isinstance(error, BadLabel)]
    if published and len(bad) == total and all(isinstance(error, NoField) for error in bad):
        raise BadRow(explain(str(bad[0]), attempt=_own_table(task)))
    if refused or not examples:
        raise BadRow(bad_rows_message(path, refused or bad, total))
    if bad:
        print(f"{path}: {len(bad)} of {total} examples skipped; the first: {bad[0]}",
              file=sys.stderr)
        if skipped is not None:
            skipped += bad
    return examples


def _own_table(task):
    """Return what to try with a file that has other columns than those published."""
    name = "regress" if task.problem == "regression" else "pair" if task.pair else "classify"
    second = ", --text_b_column" if task.pair else ""
    return f"--task {name} with --text_column{second} and --label_column"


def _sorted_out(read):
    """Return two lists: the examples, and a BadRow for each that is invalid or has the id of
    another."""
    examples, bad, first = [], [], {}
    for example in read:
        if isinstance(example, BadRow):
            bad.append(example)
        elif example.id in first:
            bad.append(BadRow(explain(
                f"{example.where}: id {example.id!r} again, first in {first[example.id]}",
                "a different one for every example")))
        else:
            first[example.id] = example.where
            examples.append(example)
    return examples, bad


def bad_rows_message(path, bad, total):
    """Return all invalid examples of a file in one message."""
    if len(bad) == 1:
        joint = ", or" if "; try " in str(bad[0]) else "; try"
        return f"{bad[0]}{joint} --skip_bad_rows"
    lines = [f"{path}: {len(bad)} of {total} examples are invalid; try correcting them, or "
             "--skip_bad_rows", *map(str, bad[:_SHOWN])]
    if len(bad) > _SHOWN:
        lines.append(f"and {len(bad) - _SHOWN} more")
    return "\n  ".join(lines)
