"""Rows of a Parquet file, of which the columns that are asked for alone are read."""

import itertools

from bert_tf.data.table_form import BadRow, composed
from bert_tf.errors import BertTfError, UsageError, explain, needs
from bert_tf.storage import local_copies

_ROWS = 4096  # that are in memory as objects, at most
_BYTES = 64 << 20  # of those


def parquet_rows(path, _, columns, optional):
    """Yield `(where, record)` of each row; in place of a value that Python cannot hold a BadRow.

    Args:
        path: the file, which may be in an object store.
        columns: names that every row must have: the records have these alone, and the `optional`
            ones, where the file has them all; all fields where it lacks one, or there are no
            `columns`.

    Raises:
        UsageError: two columns have one of these names.
        BertTfError: the file cannot be read.
    """
    with needs("parquet", f"{path}: Parquet needs pyarrow, which is not installed", ", or CSV"):
        from pyarrow import ArrowException, parquet
    with local_copies.staged(path) as local:
        try:
            # Ahead would be read the whole file.
            stored = parquet.ParquetFile(local, pre_buffer=False)
            count = 0
            names = _stored_names(path, stored.schema_arrow.names, columns, optional)
            for batch in stored.iter_batches(_rows_at_once(stored.metadata), columns=names):
                yield from _records(path, batch, count)
                count += len(batch)
        except (ArrowException, OSError) as error:
            raise BertTfError(f"{path}: not Parquet: {error}") from error


def _stored_names(path, names, columns, optional):
    """Return those of a file's columns that hold what is asked for; None, all of them, where it is
    not there or nothing is asked for."""
    asked = {column: {composed(column), composed(column.split(".")[0])}
             for column in (*columns, *optional)}
    held = {column: [name for name in names if composed(name) in asked[column]]
            for column in asked}
    for column, found in held.items():
        if len(found) > len(set(found)):
            raise UsageError(explain(f"{path}: two columns are named {column!r}", "a name each",
                                     "renaming one, or removing it"))
    if not all(map(held.get, columns)) or not columns:
        return None
    return list(dict.fromkeys(itertools.chain(*held.values())))


def _rows_at_once(metadata):
    """Return how many rows are held at once, fewer where they are long."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    longest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=0)
    return int(min(max(_BYTES / max(longest, 1), 1), _ROWS))


def _records(path, batch, before):
    """Yield the rows of a batch, of which `before` came before it."""
    wheres = [f"{path} row {before + number}" for number in range(1, len(batch) + 1)]
    try:
        yield from zip(wheres, batch.to_pylist(), strict=True)
    except (OverflowError, ValueError):  # one of them has a value that Python cannot hold
        for number, where in enumerate(wheres):
            yield where, {name: _held(where, name, column[number]) for name, column in zip(
                batch.schema.names, batch.columns, strict=True)}


def _held(where, name, scalar):
    """Return a value; a BadRow for text that is not UTF-8, a date after the year 9999."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError) as error:
        return BadRow(f"{where}: a {scalar.type} in the column {name!r} that Python cannot hold: "
                      f"{error}")
