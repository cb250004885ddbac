"""Tables of labelled texts and pairs of texts, see `tables`, as `TextExample`s."""

import dataclasses
import json
import math
import sys

from bert_tf.data.table_form import AS_FOUND, written_as
from bert_tf.data.tables import (
    BadRow,
    attempts,
    check_unicode,
    composed,
    is_number,
    read_rows,
)
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.base.examples import CHOSEN_FROM, TextExample

SEPARATOR = ","


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a table: names, or numbers (as str) of a table without header."""

    text: str
    label: str
    text_b: str | None = None
    id: str | None = None
    group: str | None = None


class BadLabel(BadRow):
    """A row with a proper text, whose label is none of the task's."""


class UnknownLabel(BadLabel):
    """One whose label is a name, though none of the task's."""


def read_texts(path, columns, problem="single_label", labels=None, limits=None,
               separator=SEPARATOR, form=AS_FOUND):
    """Read the examples of a table, in order; without an id column, the id is the number from 0.

    In place of an invalid row comes a BadRow with file and line.

    Labels: a name (whole numbers and booleans of JSON are taken as such); a regression's is a
    finite number; several are separated by `separator`, in JSON also a list, and none is fine. An
    object of JSON or Parquet is a soft label: by name the probability of each, or, of one label
    an example, how many annotators chose it.

    Args:
        path: the file.
        columns: `Columns`.
        problem: `single_label`, `multi_label` or `regression`.
        labels: the only names there are, or None for any.
        limits: `(least, greatest)` of a regression, or None.
        separator: between the names of several labels.
        form: a `TableForm`.

    Returns: iterator of `TextExample` and BadRow.

    Raises:
        UsageError: a column is missing, or the first row may be a header or an example.
    """
    parse = {"single_label": _name, "regression": _number,
             "multi_label": lambda where, value: _names(where, value, separator)}[problem]
    needed = [columns.text, columns.label, columns.text_b, columns.id, columns.group]
    needed = [column for column in needed if column is not None]
    if form.header is None and not written_as(path) and all(map(str.isdecimal, needed)):
        rows = list(read_rows(path, needed, form=form))
        form = dataclasses.replace(form, header=has_header(rows, columns.label, separator))
        if form.header:
            first = next(row for _, row in rows if not isinstance(row, BadRow))
            names = ", ".join(map(repr, first.values()))
            print(f"{path}: the first row is read as a header, with the names {names}; "
                  "--no-header if it is an example", file=sys.stderr)

    def example(number, where, row):
        text_a = check_text(where, row[columns.text])
        text_b = columns.text_b and check_text(where, row[columns.text_b])
        id = str(number) if columns.id is None else _name(where, row[columns.id], "id")
        label, probabilities = row[columns.label], None
        try:
            if isinstance(label, dict) and problem != "regression":
                probabilities = _probabilities(where, label, problem)
                label = _likeliest(probabilities, problem)
            label = parse(where, label)
        except BadRow as error:
            raise BadLabel(str(error)) from error
        _check_label(where, probabilities or label, labels, limits)
        return TextExample(id, text_a, text_b, label, where=where, probabilities=probabilities,
                           group=None if columns.group is None else str(row[columns.group]))

    return attempts(read_rows(path, needed, form=form), example)


def has_header(rows, label, separator=SEPARATOR):
    """Return whether the first of the rows that `read_rows` gives of columns by number is a header.

    It is one where each column has its number for a name, or where its label is a word and all
    others are numbers. It is none where another row has its label, or it is a number.

    Raises:
        UsageError: neither is so.
    """
    rows = [(where, row) for where, row in rows if not isinstance(row, BadRow)]
    if not rows:
        return False
    where, first = rows[0]
    others = [row[label] for _, row in rows if row != first]  # a header may come again
    if all(name == column for column, name in first.items()):
        return True
    known = {name.strip() for value in others for name in (value, *value.split(separator))}
    if not others or is_number(first[label]) or known.intersection(
            map(str.strip, (first[label], *first[label].split(separator)))):
        return False
    if all(map(is_number, others)):
        return True
    raise UsageError(explain(f"{where}: the label {first[label]!r} is in no other row: a "
                             "header or an example", attempt="--header or --no-header"))


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
    return check_unicode(where, text, what)


def short(text):
    """Return a text as messages show it, its beginning where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _name(where, value, what="label"):
    """Return a label or id as a string; labels composed, as 긍정 may come in jamo from macOS."""
    if isinstance(value, (bool, int)):
        value = json.dumps(value)
    name = check_text(where, value, what).strip()
    return composed(name) if what == "label" else name


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


def _probabilities(where, values, problem):
    """Return a soft label as a dict of float; of one label an example they sum to 1."""
    found = {_name(where, name): 0.0 if value is None else _number(where, value)
             for name, value in values.items()}  # Parquet has None where an object lacks a name
    total = sum(found.values())
    single = problem == "single_label"
    if not found or len(found) < len(values) or min(found.values()) < 0 or not (
            0 < total < math.inf if single else max(found.values()) <= 1):
        raise BadRow(explain(f"{where}: soft label {values!r}", "a probability for each name"))
    return {name: value / total for name, value in found.items()} if single else found


def _likeliest(probabilities, problem):
    """Return the likeliest name, or of several labels a list of those that are likely."""
    if problem == "single_label":
        return max(probabilities, key=probabilities.get)
    return [name for name, value in probabilities.items() if value >= CHOSEN_FROM]


def _check_label(where, label, labels, limits):
    if isinstance(label, float):
        if limits and not limits[0] <= label <= limits[1]:
            raise BadLabel(explain(f"{where}: label {label:g}", f"{limits[0]:g} to {limits[1]:g}"))
    elif labels is not None:
        for name in [label] if isinstance(label, str) else label:
            try:
                check_choice("label", name, labels)
            except UsageError as error:
                raise UnknownLabel(f"{where}: {error}") from None
