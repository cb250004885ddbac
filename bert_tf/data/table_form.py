"""The form of a table's file: detected in the file, or given by the user.

- Delimiter: the one of tab, comma and semicolon under which the header has the requested columns,
  or, of columns by number, under which the first rows are equally wide.
- Quotes, as in RFC 4180, hold delimiters, line ends and doubled quotes: in `.csv` and wherever
  commas or semicolons separate. In other files with tabs they are characters like any other, as
  in the GLUE files.
- Workbooks and archives are refused, Parquet is known by its first bytes.
"""

import csv
import dataclasses
import itertools
import re
import unicodedata

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files

DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";"}
_TABLES = (".tsv", ".csv", ".jsonl", ".json", ".parquet", ".xlsx", ".xls", ".ods")
_PARQUET = b"PAR1"
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # zipped XML, and Excel before 2007
_SAMPLE = 50  # rows by which a delimiter is detected
_SIMILAR = 0.9  # fraction of them that must be as wide as the first
_LONGEST_FIELD = 1 << 30


class BadRow(BertTfError):
    """A row that is not as its file should be."""


@dataclasses.dataclass(frozen=True)
class TableForm:
    """Options that the user gives about a table's file; None is detected in the file.

    Attributes:
        delimiter: one character between the fields of a row.
        encoding: name of a codec; None is UTF-8, or UTF-16 with a byte order mark.
        header: whether the first row holds the names of the columns.
        errors: as of `encodings.Decoder`.
    """

    delimiter: str | None = None
    encoding: str | None = None
    header: bool | None = None
    errors: str = "strict"


AS_FOUND = TableForm()  # all of it is detected in the file


def composed(text):
    """Return a str as it is known by, whether it came composed (NFC) or decomposed (NFD)."""
    return unicodedata.normalize("NFC", text)


def is_table(path):
    """Return whether a file is a table, by its name, or one of Parquet by what is in it."""
    return files.suffix(path) in _TABLES or written_as(path) is not None


def written_as(path):
    """Return `.json` or `.jsonl` by the file's name, `.parquet` by its first bytes; else None.

    Raises:
        UsageError: the file is a workbook or an archive.
    """
    files.refuse_packed(path)
    if files.suffix(path) in (".json", ".jsonl"):
        return files.suffix(path)
    with files.explained("read", path), files.open_stored(path) as stream:
        begin = stream.read(4)
    if begin in _WORKBOOKS:
        raise UsageError(explain(f"{path} is a workbook or a zip archive", "a table as text",
                                 "saving the sheet as CSV (UTF-8)"))
    return ".parquet" if begin == _PARQUET else None


def split_rows(path, columns, form):
    """Return how a file of delimited fields is split, `(delimiter, quoted)`.

    Args:
        path, columns, form: as of `fitting_delimiter`; the form's own delimiter counts.

    Raises: as `fitting_delimiter`.
    """
    quotes = files.suffix(path) == ".csv"
    delimiter = form.delimiter or fitting_delimiter(path, columns, form) or (
        "," if quotes else "\t")
    return delimiter, quotes or delimiter != "\t"


def fitting_delimiter(path, columns, form):
    """Return the delimiter under which a file has the columns; None where none is.

    Args:
        path: the file.
        columns: names or numbers (as str) of the columns that it must have.
        form: a `TableForm`.

    Raises:
        UsageError: it could be either of two delimiters.
    """
    quotes = files.suffix(path) == ".csv"
    widths = {delimiter: _width(path, columns, form, delimiter, quotes or delimiter != "\t")
              for delimiter in DELIMITERS.values()}
    least = 2 if max(widths.values()) > 1 else 1  # a single column is what any other makes, too
    fitting = [delimiter for delimiter, width in widths.items() if width >= least]
    if quotes and max(widths.values()) == 1 and _width(path, [], form, ",", True) == 1 and any(
            "\t" in line for line in itertools.islice(table_lines(path, form), _SAMPLE)):
        return ","  # tabs are text in a single column
    if len(fitting) > 1 and fitting[0] != "\t":  # tabs at as many positions of every text: no
        raise UsageError(explain(f"{path}: commas and semicolons both make equal rows",
                                 attempt="--delimiter comma or --delimiter semicolon"))
    return next(iter(fitting), None)


def table_lines(path, form):
    """Yield the lines of a file; Excel's `sep=;`, which may be the first of a `.csv`, as an empty
    one."""
    lines = files.read_lines(path, form.encoding, form.errors)
    if files.suffix(path) == ".csv" and (first := next(lines, None)) is not None:
        yield "" if re.fullmatch("sep=.", first) else first
    yield from lines


def guess_delimiter(path, first):
    """Return the delimiter that a file's first line suggests: the usual one for its name if it is
    there, else the one that makes most fields."""
    usual = "," if files.suffix(path) == ".csv" else "\t"
    return usual if usual in first else max(DELIMITERS.values(), key=first.count)


def quoted_rows(lines, delimiter, strict=False):
    """Return a `csv.reader` of lines without their ends."""
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=strict)


def _width(path, columns, form, delimiter, quoted):
    """Return how many columns a delimiter makes, 0 where these are not among them."""
    lines = (line for line in table_lines(path, form) if line)
    rows = quoted_rows(lines, delimiter) if quoted else (line.split(delimiter) for line in lines)
    named = any(not column.isdecimal() for column in columns)
    try:
        sample = list(itertools.islice(rows, 1 if named else _SAMPLE))
    except csv.Error:
        return 0
    names = [composed(name.strip()) for name in sample[0]] if sample else []
    fits = (all(composed(column) in names or column.isdecimal() and int(column) < len(names)
                for column in columns)
            and sum(len(row) == len(names) for row in sample) >= _SIMILAR * len(sample))
    return len(names) if fits else 0
