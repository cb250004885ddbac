"""Rows of a table by the names of its columns: TSV, CSV, JSON lines or a JSON list.

- `.csv`: commas, and quotes as in RFC 4180: a quoted field may hold commas, tabs, line ends and
  doubled quotes.
- `.jsonl`: an object a line; `.json`: a list of objects. `a.b` is the field `b` of the object `a`.
- any other name: TSV. Every tab ends a field and quotes are characters like any other, as in
  the GLUE files.

TSV and CSV begin with a header, unless all columns that are asked for are numbers: columns
from 0. All UTF-8, with or without a BOM, LF or CRLF, also `.gz`; blank lines are passed over.
"""

import csv
import json
import os
import textwrap

from bert_tf import files
from bert_tf.errors import BertTfError, UsageError, explain

_LONGEST_FIELD = 1 << 30
_MISSING = object()


class BadRow(BertTfError):
    """A row that is not as its file should be."""


class NoColumn(UsageError):
    """A table without the column that `column` names."""

    def __init__(self, where, column, found):
        super().__init__(f"{where}: no column {column!r} among {found}")
        self.column = column


def read_rows(path, columns, optional=()):
    """Yield `(where, values)` of each row; `where` is the file and line (of `.json`: the item).

    Args:
        path: a file as described above.
        columns: names or numbers (as str) of columns that every row must have.
        optional: further ones, which a file, or an object, may do without.

    `values` has what stands in each column: strings; of JSON any value. A wrong row is yielded as
    `(where, BadRow)`, so that the caller may go on.

    Raises:
        NoColumn: a column is missing; what the file has is told.
        BertTfError: the file cannot be read.
    """
    optional = [column for column in optional if column not in columns]
    form = os.path.splitext(path.removesuffix(".gz"))[1]
    if form in (".jsonl", ".json"):
        for where, item in (_json_lines if form == ".jsonl" else _json_list)(path):
            yield where, _fields_of_object(where, item, columns, optional)
        return
    places = width = None
    for where, fields in (_csv_rows if form == ".csv" else _tsv_rows)(path):
        if places is None:
            has_header = not all(column.isdigit() for column in columns)
            header = [name.strip() for name in fields] if has_header else []
            width = len(fields)
            places = _places(where, header, width, columns, optional)
            if has_header:
                continue
        if len(fields) == width:
            yield where, {column: fields[place] for column, place in places.items()}
        else:
            more = form != ".csv" and len(fields) > width
            hint = " (tabs within a text: use .csv)" if more else ""
            yield where, BadRow(explain(f"{where}: {len(fields)} columns",
                                        f"{width} as in the first line{hint}"))


def _places(where, header, width, columns, optional):
    """Where in a row of `width` fields each column is."""
    places = {}
    for column in columns + [column for column in optional if column in header]:
        if header.count(column) > 1:
            raise UsageError(f"{where}: two columns are named {column!r}")
        if column in header:
            places[column] = header.index(column)
        elif column.isdigit() and int(column) < width:
            places[column] = int(column)
        else:
            found = textwrap.shorten(", ".join(header), 200) or f"{width} columns"
            raise NoColumn(where, column, found)
    return places


def _fields_of_object(where, item, columns, optional):
    if isinstance(item, BadRow):
        return item
    if not isinstance(item, dict):
        return BadRow(explain(f"{where}: {type(item).__name__}", "an object with its fields"))
    values = {column: _value(item, column) for column in columns + optional}
    missing = [column for column in columns if values[column] is _MISSING]
    if missing:
        found = textwrap.shorten(", ".join(item), 200) or "none at all"
        return BadRow(f"{where}: no field {missing[0]!r} among {found}")
    return {column: value for column, value in values.items() if value is not _MISSING}


def _value(item, column):
    """What `item` has as `column`, or `a.b` as `b` of its `a`."""
    for name in [column] if column in item else column.split("."):
        if not isinstance(item, dict) or name not in item:
            return _MISSING
        item = item[name]
    return item


def _tsv_rows(path):
    for number, line in enumerate(files.read_lines(path), 1):
        if line:
            yield f"{path} line {number}", line.split("\t")


def _csv_rows(path):
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader((line + "\n" for line in files.read_lines(path)), strict=True)
    first = 1
    try:
        for fields in reader:
            if fields:
                yield f"{path} line {first}", fields
            first = reader.line_num + 1
    except csv.Error as error:
        raise BertTfError(explain(f"{path} line {first}: not CSV: {error}",
                                  "quotes around a field, and doubled within it")) from error


def _json_lines(path):
    for number, line in enumerate(files.read_lines(path), 1):
        where = f"{path} line {number}"
        if not line.strip():
            continue
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply, or a number without end")
            yield where, BadRow(f"{where}: not JSON: {reason}")


def _json_list(path):
    items = files.read_json(path)
    if not isinstance(items, list):
        raise BertTfError(explain(f"{path}: {type(items).__name__}", "a JSON list of objects"))
    for number, item in enumerate(items, 1):
        yield f"{path} item {number}", item
