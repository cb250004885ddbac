"""A shard of predictions as a file: Parquet, JSON lines, or vectors beside their ids.

Each format has `suffix`, `write` and `count_rows`. A file appears whole, and the same rows give the
same bytes.
"""

import json

import numpy as np

from bert_tf.errors import UsageError, explain, needs
from bert_tf.predict.as_json import as_json
from bert_tf.storage import disk, files, local_copies


class JsonLines:
    """`{column: value}` a line, vectors as lists.

    Args:
        rows: the `Rows` of the input.
        predictor: the `Predictor`.
    """

    suffix = ".jsonl"

    def __init__(self, rows, predictor):
        self.names = predicted_names(rows, predictor.columns)

    def write(self, path, block, predictions):
        """Write a `Block` and what `Predictor` gave of it."""
        columns = {**block.columns,
                   **{self.names[name]: values for name, values in predictions.items()}}
        with files.atomic_path(path) as temporary, open(temporary, "wb") as stream:
            for late, values in zip(block.late, zip(*columns.values(), strict=True), strict=True):
                row = dict(zip(columns, values, strict=True))
                for name, value in late.items():
                    row.setdefault(name, value)  # a prediction of that name stays
                stream.write(as_json(row) + b"\n")

    @staticmethod
    def count_rows(path):
        """Return the rows of a file that `write` wrote; None of a damaged one."""
        return sum(len(lines) for lines in files.read_line_blocks(path))

    def read(self, path):
        """Yield the predictions of a file, a dict for each row."""
        for row in map(json.loads, files.read_lines(path)):
            yield {name: row[written] for name, written in self.names.items()}


class Parquet:
    """A table in one row group, see `carried` for its types; arguments: see `JsonLines`."""

    suffix = ".parquet"

    def __init__(self, rows, predictor):
        from bert_tf.predict.carried import Carried

        self.names = predicted_names(rows, predictor.columns)
        self.predicted = [field.with_name(self.names[field.name]) for field in predictor.schema()]
        self.convert = Carried(rows).convert

    def write(self, path, block, predictions):
        """See `JsonLines.write`; the block's columns are arrays."""
        import pyarrow as pa
        from pyarrow import parquet

        columns = dict(block.columns)
        for field, values in zip(self.predicted, predictions.values(), strict=True):
            if pa.types.is_map(field.type):
                values = [list(value.items()) for value in values]
            elif pa.types.is_list(field.type) and pa.types.is_fixed_size_list(
                    field.type.value_type):
                values = list(map(list, values))  # of each text an array of several vectors
            columns[field.name] = _vectors(pa, values, field.type) if isinstance(
                values, np.ndarray) else pa.array(values, field.type)
        texts = [name for name, column in columns.items() if pa.types.is_string(column.type)]
        with files.atomic_path(path) as temporary:
            parquet.write_table(pa.table(columns), temporary, use_dictionary=texts)

    @staticmethod
    def count_rows(path):
        """See `JsonLines.count_rows`."""
        from pyarrow import ArrowException, parquet

        try:
            with local_copies.staged(path) as local:
                return parquet.read_metadata(local).num_rows
        except (ArrowException, OSError):
            return None

    def read(self, path):
        """See `JsonLines.read`."""
        from pyarrow import parquet

        with local_copies.staged(path) as local:
            table = parquet.read_table(local, columns=list(self.names.values()))
        yield from table.rename_columns(list(self.names)).to_pylist()


class Npy:
    """An array `[n, width]`, and beside it a JSON list of the ids; arguments: see `JsonLines`."""

    suffix = ".npy"

    def __init__(self, rows, predictor):
        if predictor.vector is None:
            raise UsageError(explain(f"--format npy of the signature {predictor.signature}, which "
                                     "gives no vectors", "parquet or jsonl", "--task embed"))
        self.id, self.vector = rows.id, predictor.vector

    def write(self, path, block, predictions):
        """See `JsonLines.write`; the array comes last."""
        files.write_json(self._ids(path), block.ids(self.id))
        with files.atomic_path(path) as temporary, disk.open_for_array(temporary) as stream:
            np.save(stream, predictions[self.vector], allow_pickle=False)

    def count_rows(self, path):
        """See `JsonLines.count_rows`; None of one without its ids."""
        if not files.exists(self._ids(path)):
            return None
        try:
            with local_copies.staged(path) as local:
                return len(np.load(local, mmap_mode="r", allow_pickle=False))
        except (ValueError, EOFError, OSError):
            return None

    def _ids(self, path):
        return path.removesuffix(self.suffix) + ".ids.json"


FORMATS = {"parquet": Parquet, "jsonl": JsonLines, "npy": Npy}


def predicted_names(rows, predicted):
    """Return `{column of the predictor: its name in the output}`: where the input has a column of
    that name, such as the labelled `label`, it is `predicted_label`. `Label` is the same name, as
    Spark takes it to be.

    Args:
        rows: the `Rows` of the input.
        predicted: names of the predictor's columns.

    Raises:
        UsageError: the input has that, too.
    """
    carried = {name.casefold(): name for name in rows.names}
    names = {name: f"predicted_{name}" if name.casefold() in carried else name
             for name in predicted}
    for name, written in names.items():
        if written.casefold() in carried:
            raise UsageError(explain(f"the input has the columns {carried[name.casefold()]} and "
                                     f"{carried[written.casefold()]}", "at most one of them"))
    return names


def check_installed(name):
    """Raise UsageError where the package that a format needs is missing."""
    if name == "parquet":
        with needs("parquet", "--format parquet needs pyarrow, which is not installed",
                   ", or --format jsonl"):
            import pyarrow  # noqa: F401


def _vectors(pa, values, kind):
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)
