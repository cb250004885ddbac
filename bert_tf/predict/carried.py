"""The input's columns as Arrow arrays of one type each, for output in Parquet.

Of each file the type is Parquet's own; strings of other tables; of objects that of the first ones.
Of several files it is one that holds the values of all. A column in which objects differ, or hold
nothing, is one of strings, in which whatever is no string is written as JSON.
"""

import datetime
import itertools

import pyarrow as pa
from pyarrow import parquet

from bert_tf.data.tables import BadRow, read_rows
from bert_tf.errors import UsageError, explain
from bert_tf.predict.as_json import as_json
from bert_tf.storage import local_copies

_SAMPLE = 1000  # objects that types are found by
_EXACT = 1 << 53  # up to which a float has all integers
# What `pa.array` raises, and comparing what is nested deeply.
_WRONG = (pa.ArrowException, OverflowError, RecursionError, TypeError, ValueError)
_PLAIN = {float, int, str}  # equal ones are the same, where a bool equals a number
_SHOWN = 40  # characters of a value in a message


class Carried:
    """Types of columns.

    Args:
        rows: the `Rows`.

    Attributes:
        types: `{column: type}`, of all of `rows.names`; None where values are written as JSON.

    Raises:
        UsageError: no type holds the values that two files have in a column.
    """

    def __init__(self, rows):
        found, paths = {rows.id: pa.string()} if rows.numbered else {}, {}
        for source in rows.sources:
            for name, type_ in _types(source).items():
                before = found.setdefault(name, type_)
                try:
                    found[name] = _common(before, type_, lambda name=name: any(
                        _has_wide(each, name) for each in rows.sources))
                except pa.ArrowException:
                    raise UsageError(explain(
                        f"{source.path}: {type_} in the column {name!r}",
                        f"{before}, as in {paths[name]}", "--format jsonl")) from None
                if name not in paths or found[name] != before:
                    paths[name] = source.path
        self.types = {name: found[name] for name in rows.names}
        self._of = "of all files" if len(rows.sources) > 1 else "in the first rows"

    def convert(self, block, bad):
        """Return a `Block` with arrays for columns, without the rows that do not fit.

        Args:
            block: as `Rows.blocks` yields it.
            bad: called with file and line of each such row, and a `BadRow`.
        """
        columns, wrong = {}, {}
        for name, values in block.columns.items():
            try:
                columns[name] = self._array(name, values)
            except _WRONG:
                for row, value in enumerate(values):
                    if not self._fits(name, value):
                        wrong.setdefault(row, (name, value))
        if not wrong:
            return block._replace(columns=columns)
        for row, (name, value) in sorted(wrong.items()):
            where, shown = block.places[row], repr(value)
            shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN - 1] + "…"
            bad(where, BadRow(explain(f"{where}: {shown} in the column {name!r}",
                                      f"{self.types[name]}, as {self._of}",
                                      "--format jsonl")))
        kept = [row for row in range(len(block.places)) if row not in wrong]
        return self.convert(block._replace(
            places=[block.places[row] for row in kept], late=[block.late[row] for row in kept],
            **{part: {name: [values[row] for row in kept] for name, values in of.items()}
               for part, of in (("texts", block.texts), ("columns", block.columns))}), bad)

    def _array(self, name, values):
        type_ = self.types[name]
        if type_ is None:
            return pa.array([value if value is None or isinstance(value, str)
                             else as_json(value).decode() for value in values], pa.string())
        if pa.types.is_timestamp(type_):  # dates of another file
            values = [datetime.datetime.combine(value, datetime.time())
                      if type(value) is datetime.date else value for value in values]
        array = pa.array(values, type_)
        # Arrow cuts off what a type has no room for: fractions, digits, fields.
        if not all(map(_is_kept, values, array.to_pylist())):
            raise ValueError("a value that the type has no room for")
        return array

    def _fits(self, name, value):
        try:
            self._array(name, [value])
        except _WRONG:
            return False
        return True


def _is_kept(value, kept):
    """Return whether nothing of a value is lost in what a column keeps of it, which in objects may
    have further fields."""
    if type(value) in _PLAIN and value == kept:
        return True
    if isinstance(value, dict):
        return isinstance(kept, dict) and value.keys() <= kept.keys() and all(
            _is_kept(inner, kept[name]) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return (value == kept and _PLAIN.issuperset(map(type, value))) or (
            len(value) == len(kept) and all(map(_is_kept, value, kept)))
    if value == kept:
        return isinstance(value, bool) == isinstance(kept, bool)
    if {type(value), type(kept)} == {str, bytes}:
        return True  # as UTF-8
    if isinstance(value, datetime.datetime) and value.tzinfo and kept.tzinfo:
        # Of different time zones Python takes those in a repeated hour to be different.
        return value.astimezone(datetime.UTC) == kept.astimezone(datetime.UTC)
    return value != value and kept != kept  # NaN


def _common(first, second, has_wide):
    """Return a type that holds the values of two: of 64-bit integers beside floats the latter,
    unless they have integers that a float rounds, as `has_wide` tells when it is called.

    Raises:
        pyarrow.ArrowException: there is none.
    """
    if first == second or first is None or second is None:
        return None if first == pa.string() and second is None else first
    if pa.types.is_timestamp(first) and pa.types.is_timestamp(second) and first.tz and second.tz:
        second = pa.timestamp(second.unit, first.tz)  # the same instants
    one, other = _beside(first, second), _beside(second, first)
    common = pa.unify_schemas([pa.schema({"": one}), pa.schema({"": other})],
                              promote_options="permissive").field(0).type
    if pa.types.is_floating(common) and (pa.types.is_decimal(one) or pa.types.is_decimal(other)):
        raise pa.ArrowTypeError("decimal beside float")
    long = [each for each in (one, other) if pa.types.is_integer(each) and each.bit_width == 64]
    if len(long) == 2 or long and pa.types.is_floating(common) and has_wide():
        return long[0]
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and one != other:
        return pa.timestamp("us", common.tz)  # as Python has it; nanoseconds end in 2262
    return common


def _beside(kind, other):
    """Return a type, or one of the same values that Arrow can unify with another one."""
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(other):
        return kind.value_type
    if pa.types.is_date(kind) and pa.types.is_timestamp(other):
        return pa.timestamp("s")
    return kind


def _types(source):
    """Return `{column: type}` of one file."""
    if source.holds == ".parquet":
        with local_copies.staged(source.path) as local:
            schema = parquet.read_schema(local)
        return {name: schema.field(name).type for name in source.names}
    if source.holds is None:
        return dict.fromkeys(source.names, pa.string())
    sample = _sample(source, source.names)
    return {name: _type([row.get(name) for row in sample]) for name in source.names}


def _sample(source, names):
    """Return columns of the first objects of a file: a list of dicts."""
    rows = itertools.islice(read_rows(source.path, [], names, source.form), _SAMPLE)
    return [row for _, row in rows if not isinstance(row, BadRow)]


def _has_wide(source, name):
    """Return whether a column of a file may have integers that a float rounds."""
    if source.holds is None or name not in source.names:
        return False
    if source.holds != ".parquet":
        return any(isinstance(row.get(name), int) and abs(row[name]) > _EXACT
                   for row in _sample(source, [name]))
    with local_copies.staged(source.path) as local:
        stored = parquet.read_metadata(local)
    columns = [column for group in map(stored.row_group, range(stored.num_row_groups))
               for column in map(group.column, range(group.num_columns))
               if column.path_in_schema == name and column.physical_type == "INT64"]
    return any(column.statistics is None or not column.statistics.has_min_max
               or max(abs(column.statistics.min), abs(column.statistics.max)) > _EXACT
               for column in columns)


def _type(values):
    try:
        found = pa.array(values).type
        return None if _is_vague(found) else found
    except _WRONG:
        return None


def _is_vague(found):
    """Return whether a type says nothing of some of the values that it has, such as `[]`."""
    return pa.types.is_null(found) or any(
        _is_vague(found.field(place).type) for place in range(found.num_fields))
