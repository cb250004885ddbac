"""The input's columns as Arrow arrays of one type each, for output in Parquet.

Of each file the type is Parquet's own; strings of other tables; of objects that of the first ones.
Of several files it is one that holds the values of all, else that of the first. A column in which
objects differ, or hold nothing, is one of strings, in which whatever is no string is written as
JSON.
"""

import itertools
import json

import pyarrow as pa
from pyarrow import parquet

from bert_tf.data.tables import BadRow, read_rows
from bert_tf.errors import explain
from bert_tf.storage import local_copies

_SAMPLE = 1000  # objects that types are found by
_WRONG = (pa.ArrowException, OverflowError, TypeError, ValueError)  # what `pa.array` raises
_SHOWN = 40  # characters of a value in a message


class Carried:
    """Types of columns.

    Args:
        rows: the `Rows`.

    Attributes:
        types: `{column: type}`, of all of `rows.names`; None where values are written as JSON.
    """

    def __init__(self, rows):
        found = {rows.id: pa.string()} if rows.numbered else {}
        for source in rows.sources:
            for name, type_ in _types(source).items():
                found[name] = type_ if name not in found else (
                    found[name] if rows.older else _common(found[name], type_))
        self.types = {name: found[name] for name in rows.names}

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
                                      f"{self.types[name]}, as in the first rows",
                                      "--format jsonl")))
        kept = [row for row in range(len(block.places)) if row not in wrong]
        return self.convert(block._replace(
            places=[block.places[row] for row in kept],
            **{part: {name: [values[row] for row in kept] for name, values in of.items()}
               for part, of in (("texts", block.texts), ("columns", block.columns))}), bad)

    def _array(self, name, values):
        if self.types[name] is None:
            return pa.array([value if value is None or isinstance(value, str)
                             else json.dumps(value, ensure_ascii=False) for value in values],
                            pa.string())
        array = pa.array(values, self.types[name])
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
    if value == kept:
        return isinstance(value, bool) == isinstance(kept, bool)
    if isinstance(value, dict) and isinstance(kept, dict):
        return value.keys() <= kept.keys() and all(
            _is_kept(inner, kept[name]) for name, inner in value.items())
    if {type(value), type(kept)} == {str, bytes}:
        return True  # as UTF-8
    if isinstance(value, list | tuple):
        return len(value) == len(kept) and all(map(_is_kept, value, kept))
    return value != value and kept != kept  # NaN


def _common(first, second):
    """Return a type that holds the values of two, else the first."""
    if first is None or second is None:
        return first
    try:
        common = pa.unify_schemas([pa.schema({"": first}), pa.schema({"": second})],
                                  promote_options="permissive").field(0).type
    except pa.ArrowException:
        return first
    return first if pa.types.is_decimal(first) and pa.types.is_floating(common) else common


def _types(source):
    """Return `{column: type}` of one file."""
    if source.holds == ".parquet":
        with local_copies.staged(source.path) as local:
            schema = parquet.read_schema(local)
        return {name: schema.field(name).type for name in source.names}
    if source.holds is None:
        return dict.fromkeys(source.names, pa.string())
    sample = [row for _, row in itertools.islice(
        read_rows(source.path, [], source.names, source.form), _SAMPLE)
        if not isinstance(row, BadRow)]
    return {name: _type([row.get(name) for row in sample]) for name in source.names}


def _type(values):
    try:
        found = pa.array(values).type
    except _WRONG:
        return None
    return None if _is_vague(found) else found


def _is_vague(found):
    """Return whether a type says nothing of some of the values that it has, such as `[]`."""
    return pa.types.is_null(found) or any(
        _is_vague(found.field(place).type) for place in range(found.num_fields))
