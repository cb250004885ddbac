"""Rows of a table by the names of its columns: TSV, CSV, JSON lines, a JSON list, Parquet.

- `.jsonl`, `.ndjson`: an object a line; `.json`: a list of objects; Parquet: a record a row. `a.b`
  is the field `b` of the object `a`.
- any other name: fields between delimiters, see `table_form`. There is a header, unless all
  requested columns are numbers (columns from 0) or the form says otherwise.

Text is UTF-8, with or without a BOM, UTF-16 with one, or of the encoding that the form names, LF,
CRLF or CR alone, also `.gz`; blank lines are passed over. A column's name may be composed or not:
macOS has 라벨 in jamo (NFD).
"""

import csv
import dataclasses
import functools
import itertools
import json
import math
import textwrap

from bert_tf.data.parquet import parquet_rows
from bert_tf.data.table_form import (
    AS_FOUND,
    BadRow,
    composed,
    guess_delimiter,
    quoted_rows,
    split_rows,
    table_lines,
    written_as,
)
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import encodings, files

_MISSING = object()
_SAMPLE = 1000  # objects whose fields are the names of their file's columns


class NoField(BadRow):
    """An object without a field that is needed."""


class NoColumn(UsageError):
    """A table without the column that `column` names."""

    def __init__(self, where, column, found):
        super().__init__(f"{where}: no column {column!r} among {found}")
        self.column = column


def attempts(rows, make):
    """Yield `make(number, where, values)` of each of the `rows` that `read_rows` yields.

    In place of an invalid row, or one for which `make` raises it, comes the BadRow.
    """
    for number, (where, row) in enumerate(rows):
        if not isinstance(row, BadRow):
            try:
                row = make(number, where, row)
            except BadRow as error:
                row = error
        yield row


def read_rows(path, columns, optional=(), form=AS_FOUND, others=False):
    """Yield `(where, values)` of each row; `where` is the file and line (of `.json`: the item).

    Args:
        path: a file as described above.
        columns: names or numbers (as str) of columns that every row must have.
        optional: further ones, which a file, or an object, may do without.
        form: a `TableForm`.
        others: whether objects give all their other fields, too.

    `values` has the fields of each column: strings; of JSON any value. An invalid row is yielded as
    `(where, BadRow)`, so that the caller may go on.

    Raises:
        NoColumn: a column is missing; the message lists those of the file.
        UsageError: the form does not suit the columns, or the file is a workbook.
        BertTfError: the file cannot be read.
    """
    optional = [column for column in optional if column not in columns]
    objects = _object_reader(path, () if others else columns, optional)
    if objects:
        for where, item in objects(path, form):
            yield where, _fields_of_object(where, item, columns, optional, others)
        return
    named = [column for column in columns if not column.isdecimal()]
    has_header = bool(named) if form.header is None else form.header
    if named and not has_header:
        raise UsageError(explain(f"{path}: column {named[0]!r} without a header",
                                 "columns by number, from 0"))
    delimiter, quoted = split_rows(path, columns, form)
    first = places = None
    for where, fields in (_csv_rows if quoted else _tsv_rows)(path, form, delimiter):
        if isinstance(fields, BadRow):
            yield where, fields
            continue
        if first is None:
            first = fields
            header = _header(fields) if has_header else []
            places = _places(where, header, len(fields), columns, optional)
            if has_header:
                continue
        if has_header and fields == first:
            yield where, BadRow(explain(f"{where}: a second header", attempt="removing the row"))
        elif len(fields) == len(first):
            yield where, {column: fields[place] for column, place in places.items()}
        else:
            more = not quoted and len(fields) > len(first)
            hint = " (tabs within a text: use .csv)" if more else ""
            yield where, BadRow(explain(f"{where}: {len(fields)} columns",
                                        f"{len(first)} as in the first line{hint}"))


def column_names(path, form=AS_FOUND, inner=True):
    """Return `(names, form)`: the columns of a file, and the form with their delimiter.

    They are the first row's fields, or with `form.header=False` their numbers as str; of objects
    the fields of the first ones, in the order of `read_rows`, with `inner` also `a.b` for the
    field `b` of `a`.
    """
    objects = _object_reader(path)
    if objects:
        items = (item for _, item in itertools.islice(objects(path, form), _SAMPLE))
        names = [name for item in items if isinstance(item, dict)
                 for name in (_field_names(item) if inner else item)]
        return list(dict.fromkeys(names)), form
    first = next((line for line in table_lines(path, form) if line), "")
    form = dataclasses.replace(form, delimiter=form.delimiter or guess_delimiter(path, first))
    quoted = form.delimiter != "\t" or files.suffix(path) == ".csv"
    rows = (_csv_rows if quoted else _tsv_rows)(path, form, form.delimiter)
    _, fields = next(rows, (path, []))
    return (list(map(str, range(len(fields)))) if form.header is False else _header(fields)), form


def has_column(path, column, form=AS_FOUND):
    """Return whether any of a file's first rows has a column, as `read_rows` reads it."""
    try:
        rows = itertools.islice(read_rows(path, [column], form=form), _SAMPLE)
        return any(not isinstance(row, BadRow) for _, row in rows)
    except BertTfError:  # no such column, or no table
        return False


def read_text_lines(path, form=AS_FOUND):
    """Yield `(where, {"text": line})` of a file that is no table, as `read_rows` does."""
    for number, line in enumerate(table_lines(path, form), 1):
        if line.strip():
            yield f"{path} line {number}", {"text": line}


def is_number(cell):
    """Return whether a cell, a str, holds a number, as the name of a column does not."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def check_unicode(where, text, what):
    """Return a str if all of it is Unicode.

    Raises:
        BadRow: it is not; `where` begins the message.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        try:
            korean = encodings.is_korean(text.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise BadRow(explain(f"{where}: half a surrogate pair in the {what}",
                                 "whole characters")) from None
        raise BadRow(explain(
            f"{where}: byte {ord(text[error.start]) - 0xdc00:#04x} in the {what} is not UTF-8"
            + ", but may be CP949" * korean, attempt="--encoding" + " CP949" * korean)) from None
    return text


def id_prefixes(paths):
    """Return what ids that are numbers of lines begin with, a str for each file.

    Nothing where there is one file, else its name and a colon; its path, where two have one name.
    """
    names = [files.base_name(path) for path in paths]
    names = names if len(set(names)) == len(names) else paths
    return [f"{name}:" if len(paths) > 1 else "" for name in names]


def _object_reader(path, columns=(), optional=()):
    """Return the function of a file of objects and its form that yields `(where, object)`; objects
    of Parquet have these columns alone, where they are given and there."""
    readers = {".jsonl": _json_lines, ".json": _json_list,
               ".parquet": functools.partial(parquet_rows, columns=columns, optional=optional)}
    return readers.get(written_as(path))


def _field_names(item):
    for name, value in item.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)


def _header(fields):
    """Return the names of the columns; of several without one, which have no other, the numbers."""
    names = [composed(name.strip()) for name in fields]
    return [name or str(place) for place, name in enumerate(names)] if (
        names.count("") > 1) else names


def _places(where, header, width, columns, optional):
    """Return the index of each column in a row of `width` fields."""
    def is_there(column):
        return composed(column) in header or (
            not header and column.isdecimal() and int(column) < width)

    places = {}
    for column in columns + [*filter(is_there, optional)]:
        name = composed(column)
        if header.count(name) > 1:
            raise UsageError(f"{where}: two columns are named {column!r}")
        if name in header:
            places[column] = header.index(name)
        elif column.isdecimal() and int(column) < width:
            places[column] = int(column)
        else:
            found = textwrap.shorten(", ".join(header), 200) or f"{width} columns"
            raise NoColumn(where, column, found)
    return places


def _fields_of_object(where, item, columns, optional, others):
    if isinstance(item, BadRow):
        return item
    if not isinstance(item, dict):
        return BadRow(explain(f"{where}: {type(item).__name__}", "an object with its fields"))
    values = {column: _value(item, column) for column in columns + optional}
    if others:
        known = set(map(composed, values))
        values.update((name, value) for name, value in item.items() if composed(name) not in known)
    bad = next((value for value in values.values() if isinstance(value, BadRow)), None)
    if bad:
        return bad
    missing = [column for column in columns if values[column] is _MISSING]
    if missing:
        found = textwrap.shorten(", ".join(item), 200) or "none at all"
        return NoField(f"{where}: no field {missing[0]!r} among {found}")
    return {column: value for column, value in values.items() if value is not _MISSING}


def _value(item, column):
    """Return what `item` has as `column`, or `a.b` as `b` of its `a`."""
    for name in [column] if column in item else column.split("."):
        if not isinstance(item, dict):
            return _MISSING
        if name not in item and not name.isascii():
            item, name = {composed(key): value for key, value in item.items()}, composed(name)
        if name not in item:
            return _MISSING
        item = item[name]
    return item


def _tsv_rows(path, form, delimiter):
    for number, line in enumerate(table_lines(path, form), 1):
        if line:
            yield f"{path} line {number}", line.split(delimiter)


def _csv_rows(path, form, delimiter):
    rows = quoted_rows(table_lines(path, form), delimiter, strict=True)
    begun = False
    while True:
        first = rows.line_num + 1
        where = f"{path} line {first}"
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            upto = f" up to line {rows.line_num}" if rows.line_num > first else ""
            fields = BadRow(explain(f"{where}: not CSV{upto}: {error}",
                                    "quotes around a field, and doubled within it"))
            # The reader begins anew at the next line. A quote without an end takes in good rows up
            # to the next quote, far away: these are not to be lost.
            if not begun or rows.line_num > first:
                raise BertTfError(str(fields)) from error
        if fields:
            begun = True
            yield where, fields


def _json_lines(path, form):
    for number, line in enumerate(table_lines(path, form), 1):
        where = f"{path} line {number}"
        if not line.strip():
            continue
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply, or a number too long")
            yield where, BadRow(f"{where}: invalid JSON: {reason}")


def _json_list(path, form):
    items = files.read_json(path, form.encoding)
    if not isinstance(items, list):
        raise BertTfError(explain(f"{path}: {type(items).__name__}", "a JSON list of objects"))
    for number, item in enumerate(items, 1):
        yield f"{path} item {number}", item
