"""The rows of all input files, in order, in blocks: texts that are predicted, columns beside them.

A block is a run of so many rows of the input, bad ones counted, or of so many characters: it
depends on the input alone. What it holds becomes one shard of predictions.
"""

import collections
import dataclasses
import itertools
import os
import typing

from bert_tf.data.table_form import fitting_delimiter, is_table, written_as
from bert_tf.data.tables import (
    BadRow,
    NoColumn,
    check_unicode,
    column_names,
    composed,
    id_prefixes,
    read_rows,
    read_text_lines,
)
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage.encodings import EncodingError
from bert_tf.tasks.base.text_files import check_text

ID, _BEIR_ID = "id", "_id"
_BLOCK_CHARACTERS = 1 << 26  # of a block, whatever its number of rows
_ITEM = 32  # bytes of a number in a list
_NESTED = list, tuple, dict
_DEEPEST = 200  # nested lists and objects: what pickles them, or writes them as JSON, is recursive


class Block(typing.NamedTuple):
    """A run of rows.

    Attributes:
        number: of the block, from 0.
        places: file and line of each row that is not bad, list of str.
        texts: `{input of the model: list of str}`.
        columns: `{column: list}`, all that the input has, and `id`.
        late: of each row a dict of fields that are no columns, see `others` of `Rows`.
    """

    number: int
    places: list
    texts: dict
    columns: dict
    late: list

    def ids(self, column):
        """Return the ids, a list of str; of a row without one its file's name and line."""
        return [os.path.basename(place) if value in (None, "") else str(value)
                for place, value in zip(self.places, self.columns[column], strict=True)]


@dataclasses.dataclass(frozen=True)
class _Source:
    """A file: its columns, and how its rows are read."""

    path: str
    names: tuple
    form: object  # `TableForm`
    is_table: bool

    @property
    def holds(self):
        """`.json`, `.jsonl` or `.parquet` of a file of objects; None of one of strings."""
        return written_as(self.path) if self.is_table else None

    def rows(self, needed, others=False):
        """Yield what `read_rows` does, of all columns."""
        try:
            if self.is_table:
                needed = list(dict.fromkeys(needed))
                yield from read_rows(self.path, needed, self.names, self.form, others)
            else:
                yield from read_text_lines(self.path, self.form)
        except EncodingError as error:
            raise BertTfError(f"{error}, or --encoding {error.likely or 'NAME'}") from error


class Rows:
    """The rows of all input files.

    Args:
        paths: of the files.
        inputs: names of the texts that the model takes, one or two.
        columns: `{"text": …, "text_b": …, "id": …}`, the columns that have other names than
            these.
        form: a `TableForm`.
        size: rows of a block.
        needs_id: whether a file must have the column of ids where `columns` names it.
        others: whether a block has fields, too, that the first objects of a file lack.

    Attributes:
        sources: the files, each with its `path`, `names` and `form`.
        names: the columns of all files, `id` first where no file has ids.
        id: the column of ids.
        numbered: whether no file has them: an id is the number of the line, see `id_prefixes`.

    Raises:
        UsageError: a file lacks a column.
        BertTfError: a file cannot be read.
    """

    def __init__(self, paths, inputs, columns, form, size, needs_id=True, others=False):
        self.size, self.others = size, others
        self.text_columns = dict(zip(inputs, (
            columns.get(key, name) for key, name in zip(("text", "text_b"), inputs, strict=False)),
            strict=True))
        if len(inputs) == 1 and "text_b" in columns:
            raise UsageError(explain(f"--text_b_column {columns['text_b']} with a model of single "
                                     "texts", attempt="omitting it"))
        self.sources = [self._source(path, form) for path in paths]
        self._prefixes = dict(zip(paths, id_prefixes(paths), strict=True))
        self.names = list(dict.fromkeys(
            name for source in self.sources for name in source.names))
        self.id = self._named(columns.get("id", ID), needs_id)
        if self.id not in self.names and not (needs_id and "id" in columns):
            self.id = _BEIR_ID if _BEIR_ID in self.names else ID
        self.numbered = self.id not in self.names
        if self.numbered:
            if needs_id and "id" in columns:
                raise NoColumn(paths[0], self.id, ", ".join(self.names))
            self.names.insert(0, self.id)

    def _named(self, column, needs_id):
        """Return a column as the files call it, a number by the header that all have."""
        if column in self.names:
            return column
        sources = [source for source in self.sources if source.names]
        if needs_id and column.isdecimal() and len({source.names for source in sources}) == 1 and (
                all(source.is_table and not source.holds for source in sources)):
            column = dict(enumerate(self.names)).get(int(column), column)
        return next((name for name in self.names if composed(name) == composed(column)), column)

    def _source(self, path, form):
        """Look at a file: are there the columns that are needed?"""
        needed = self.text_columns.values()
        form = dataclasses.replace(form, errors="surrogateescape")  # a row alone is bad
        if form.header is None and all(map(str.isdecimal, needed)):
            form = dataclasses.replace(form, header=False)
        table = is_table(path)
        if table and form.delimiter is None and written_as(path) is None:
            form = dataclasses.replace(form, delimiter=fitting_delimiter(path, needed, form))
        names, form = column_names(path, form) if table else (["text"], form)
        header = names if table and written_as(path) is None else ()
        for name, count in collections.Counter(header).items():
            check_unicode(f"{path} line 1", name, "header")
            if count > 1:
                raise UsageError(explain(f"{path}: two columns are named {name!r}", "a name each",
                                         "renaming one, or removing it"))
        if names in ([], [""]):  # an empty file, or objects in none of the first rows
            objects = table and written_as(path) in (".json", ".jsonl")
            return _Source(path, tuple(dict.fromkeys(needed)) if objects else (), form, table)
        source = _Source(path, tuple(names), form, table)
        numbers = list(map(str, range(len(names)))) if table and source.holds is None else []
        for key, column in zip(("text", "text_b"), needed, strict=False):
            if composed(column) not in (*map(composed, names), *numbers):
                raise UsageError(explain(str(NoColumn(path, column, ", ".join(names))),
                                         attempt=f"--{key}_column"))
        if source.holds is None:
            return source
        # What is inside an object is carried along in it.
        source = dataclasses.replace(
            source, names=tuple(column_names(path, form, inner=False)[0]))
        if source.holds == ".parquet":  # which may have two columns of a name
            next(source.rows(needed), None)
        return source

    def blocks(self, bad):
        """Yield every `Block`.

        Args:
            bad: called with file and line of each bad row, and its `BadRow`.
        """
        rows = (each for source in self.sources for each in self._of(source))
        for number in itertools.count():
            block, begun = self._block(number, rows, bad)
            if not begun:
                return
            yield block

    def _of(self, source):
        if not source.names:
            return
        for where, row in source.rows(self.text_columns.values(), self.others):
            # An id of its own may come late.
            if not isinstance(row, BadRow) and self.numbered and row.get(self.id) is None:
                row[self.id] = self._prefixes[source.path] + where.rpartition(" ")[2]
            yield where, row

    def _block(self, number, rows, bad):
        """Return the next block, and whether there were any rows for it."""
        block = Block(number, [], {name: [] for name in self.text_columns},
                      {name: [] for name in self.names}, [])
        known = {*self.names, *self.text_columns.values()}
        count = characters = 0
        for where, row in rows:
            count += 1
            try:
                if isinstance(row, BadRow):
                    raise row
                texts = [check_text(where, row[column]) for column in self.text_columns.values()]
                characters += sum(_size(where, value) for value in row.values())
            except BadRow as error:
                bad(where, error)
            else:
                block.places.append(where)
                for column, text in zip(block.texts.values(), texts, strict=True):
                    column.append(text)
                for name, column in block.columns.items():
                    column.append(row.get(name))
                block.late.append({name: value for name, value in row.items()
                                   if name not in known} if self.others else {})
            if count == self.size or characters >= _BLOCK_CHARACTERS:
                break
        return block, count > 0


def _size(where, value):
    """Return the characters of a string, and about the bytes of a list with all that it holds.

    Raises:
        BadRow: lists and objects are nested too deeply.
    """
    if not isinstance(value, _NESTED):
        return len(value) if isinstance(value, str | bytes) else 1
    size, level = 0, [value]
    for _ in range(_DEEPEST):
        inner = []
        for each in level:
            size += _ITEM * len(each)
            for item in each.values() if isinstance(each, dict) else each:
                if isinstance(item, _NESTED):
                    inner.append(item)
                elif isinstance(item, str | bytes):
                    size += len(item)
        if not inner:
            return size
        level = inner
    raise BadRow(explain(f"{where}: lists or objects nested too deeply", f"{_DEEPEST} levels"))
