"""The input's columns as Arrow arrays of one type each, for output in Parquet.

Of each file the type is Parquet's own, of a category that of its values; strings of other tables;
of objects that of the first ones. Of several files, in any order, it is one that holds the values
of all: what holds nothing, such as nulls throughout or `[]`, gives way to any type. A column in
which the objects of a file differ, or which holds nothing, is one of strings, in which whatever is
no string is written as JSON.
"""

import datetime
import functools
import itertools

import pyarrow as pa
from pyarrow import compute, parquet

from bert_tf.data.tables import BadRow, read_rows
from bert_tf.errors import UsageError, explain
from bert_tf.predict.as_json import as_json
from bert_tf.storage import local_copies

_SAMPLE = 1000  # objects that types are found by
_EXACT = 1 << 53  # up to which a float has all integers
_INT64 = (1 << 63) - 1  # the largest one
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
        found = {}
        for source in rows.sources:
            for name, type_ in _types(source).items():
                found.setdefault(name, {}).setdefault(type_, []).append(source)
        self.types = {name: _of_all(name, found[name]) if name in found else pa.string()  # an id
                      for name in rows.names}
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
            bad(where, BadRow(explain(
                f"{where}: {shown} in the column {name!r}", "text that is UTF-8"
                if self.types[name] is None else f"{self.types[name]}, as {self._of}",
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


def _of_all(name, found):
    """Return the type of a column, None of JSON.

    Args:
        name: of the column.
        found: `{type: files that have it}`.

    Raises:
        UsageError: no type holds the values of all.
    """
    if None in found:
        return None
    try:
        common = _common(list(found), functools.cache(
            lambda: max(_largest(name, found), default=0)))
    except pa.ArrowException:
        kinds = ", ".join(f"{type_} in {sources[0].path}" for type_, sources in found.items())
        raise UsageError(explain(f"the column {name!r} is {kinds}", "a type that holds all",
                                 "--format jsonl")) from None
    # Parquet has no further values of such a column; later objects may.
    from_objects = any(source.holds != ".parquet" for source in itertools.chain(*found.values()))
    return None if from_objects and _is_vague(common) else common


def _common(kinds, largest):
    """Return a type that holds the values of all of some types.

    Args:
        kinds: the types.
        largest: gives the `_largest` of all files, where the type depends on that.

    Raises:
        pyarrow.ArrowException: there is none.
    """
    if any(map(pa.types.is_timestamp, kinds)):
        kinds = [pa.timestamp("s") if pa.types.is_date(kind) else kind for kind in kinds]
    zones = {kind.tz for kind in kinds if pa.types.is_timestamp(kind)}
    if len(zones) > 1 and all(zones):  # the same instants
        kinds = [pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) else kind
                 for kind in kinds]
    common = pa.unify_schemas([pa.schema({"": kind}) for kind in kinds],
                              promote_options="permissive").field(0).type
    if any(map(pa.types.is_decimal, kinds)) and any(map(pa.types.is_floating, kinds)):
        raise pa.ArrowTypeError("decimal beside float")
    if pa.types.is_floating(common) and any(map(_is_long, kinds)) and largest() > _EXACT:
        common = pa.int64()
    if common == pa.int64() and pa.uint64() in kinds and largest() > _INT64:
        return pa.uint64()
    if len({kind for kind in kinds if pa.types.is_timestamp(kind)}) > 1:
        return pa.timestamp("us", common.tz)  # as Python has it; nanoseconds end in 2262
    return common


def _is_long(kind):
    return pa.types.is_integer(kind) and kind.bit_width == 64


def _largest(name, found):
    """Yield the largest 64-bit integers of a column, without their sign, of parts of its files, of
    objects of the first ones; arguments: see `_of_all`."""
    for type_, source in ((type_, source) for type_, sources in found.items()
                          if _is_long(type_) for source in sources):
        if source.holds != ".parquet":
            yield max(abs(row.get(name) or 0) for row in _sample(source, [name]))
            continue
        with local_copies.staged(source.path) as local, parquet.ParquetFile(local) as stored:
            for batch in stored.iter_batches(columns=[name]):
                ends = compute.min_max(batch.column(name).cast(type_)).as_py()
                yield max(abs(end or 0) for end in ends.values())


def _types(source):
    """Return `{column: type}` of one file."""
    if source.holds == ".parquet":
        with local_copies.staged(source.path) as local:
            schema = parquet.read_schema(local)
        # Indices of a category may have no room for the values of all files.
        return {name: type_.value_type if pa.types.is_dictionary(type_) else type_
                for name in source.names for type_ in (schema.field(name).type,)}
    if source.holds is None:
        return dict.fromkeys(source.names, pa.string())
    sample = _sample(source, source.names)
    return {name: _type([row.get(name) for row in sample]) for name in source.names}


def _sample(source, names):
    """Return columns of the first objects of a file: a list of dicts."""
    rows = itertools.islice(read_rows(source.path, [], names, source.form), _SAMPLE)
    return [row for _, row in rows if not isinstance(row, BadRow)]


def _type(values):
    """Return the type of values; None of those that differ."""
    try:
        return pa.array(values).type
    except _WRONG:
        return None


def _is_vague(found):
    """Return whether a type says nothing of some of the values that it has, such as `[]`, `{}`."""
    kinds = [found]
    for kind in kinds:
        kinds += [kind.field(place).type for place in range(kind.num_fields)]
    return any(pa.types.is_null(kind) or kind == pa.struct([]) for kind in kinds)
