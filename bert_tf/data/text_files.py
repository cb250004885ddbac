"""Tables of labelled texts and pairs of texts, see `tables`, as `TextExample`s."""

import dataclasses
import json
import math
import sys

from bert_tf.data.tables import BadRow, read_rows
from bert_tf.data.task_examples import TextExample
from bert_tf.errors import UsageError, check_choice, explain

SEPARATOR = ","


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns hold what: names, or numbers (as str) of a table without header."""

    text: str
    label: str
    text_b: str | None = None
    id: str | None = None
    group: str | None = None


def read_texts(path, columns, problem="single_label", labels=None, limits=None, dirty=False,
               separator=SEPARATOR):
    """The examples of a table, in order; without an id column, the id is the number from 0.

    Labels: a name (whole numbers and booleans of JSON are taken as such); a regression's is a
    finite number; several are separated by `separator`, in JSON also a list, and none is fine.

    Args:
        path: the file.
        columns: `Columns`.
        problem: `single_label`, `multi_label` or `regression`.
        labels: the only names there are, or None for any.
        limits: `(least, greatest)` of a regression, or None.
        dirty: the file as published has broken rows: those of a wrong number of columns or
            without a proper text are left out, and counted on standard error.

    Raises:
        UsageError: a column is missing.
        BadRow: a row that is not as it should be; file and line are named.
    """
    parse = {"single_label": _name, "regression": _number,
             "multi_label": lambda where, value: _names(where, value, separator)}[problem]
    needed = [columns.text, columns.label, columns.text_b, columns.id, columns.group]
    needed = [column for column in needed if column is not None]
    examples, left_out = [], []
    for number, (where, row) in enumerate(read_rows(path, needed)):
        try:
            if isinstance(row, BadRow):
                raise row
            text_a = check_text(where, row[columns.text])
            text_b = columns.text_b and check_text(where, row[columns.text_b])
        except BadRow as error:
            if not dirty:
                raise
            left_out.append(error)
            continue
        label = parse(where, row[columns.label])
        _check_label(where, label, labels, limits)
        examples.append(TextExample(
            str(number) if columns.id is None else _name(where, row[columns.id], "id"),
            text_a, text_b, label, where=where,
            group=None if columns.group is None else str(row[columns.group])))
    if left_out:
        print(f"{path}: {len(left_out)} broken rows left out; the first: {left_out[0]}",
              file=sys.stderr)
    return examples


def check_text(where, text, what="text"):
    """Return `text` if it is one: a string that is not blank, without a NUL, all of it Unicode.

    Raises:
        BadRow: it is not; `where` begins the message.
    """
    if not isinstance(text, str):
        raise BadRow(explain(f"{where}: {type(text).__name__} as {what}", "a string"))
    if not text.strip():
        raise BadRow(explain(f"{where}: empty {what}", attempt="removing the row"))
    if "\0" in text:
        raise BadRow(explain(f"{where}: a NUL character in the {what}", attempt="removing it"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(explain(f"{where}: half a surrogate pair in the {what}",
                             "whole characters")) from None
    return text


def _name(where, value, what="label"):
    """A label or id as a string."""
    if isinstance(value, (bool, int)):
        value = json.dumps(value)
    return check_text(where, value, what).strip()


def _number(where, value):
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise BadRow(explain(f"{where}: label {value!r}", "a finite number"))
    return number


def _names(where, value, separator):
    if isinstance(value, str):
        value = [name for name in value.split(separator) if name.strip()]
    if not isinstance(value, list):
        raise BadRow(explain(f"{where}: {type(value).__name__} as labels",
                             f"a list, or names separated by {separator!r}"))
    return tuple(dict.fromkeys(_name(where, name) for name in value))


def _check_label(where, label, labels, limits):
    if isinstance(label, float):
        if limits and not limits[0] <= label <= limits[1]:
            raise BadRow(explain(f"{where}: label {label:g}", f"{limits[0]:g} to {limits[1]:g}"))
    elif labels is not None:
        for name in [label] if isinstance(label, str) else label:
            try:
                check_choice("label", name, labels)
            except UsageError as error:
                raise BadRow(f"{where}: {error}") from None
