"""The passages of a corpus: TSV, CSV, JSONL, a JSON list, Parquet, plain text, SQuAD's JSON.

- A table has a column (JSON: a field) `text`, and may have `id` (or `_id`, as in BEIR) and `title`.
- A `.tsv` or `.csv` whose first row is said to be no header, or names no such column and has a
  number among its cells, has none: its columns are `text`; `id` and `text`; or `id`, `text` and
  `title`. Without a number, too, in a `.tsv`, which is told; but a first row above a column of
  numbers, or of a `.csv`, may be a header with other names: it is refused. Of columns that are
  given by number the first row is a header if it has these names there.
- Any other name: a passage a line; blank lines are passed over.
- A `.json` object is SQuAD's or KorQuAD's: each paragraph is a passage, with its article's title.

Where a file has no ids, a passage's is the number of its line (its row, of SQuAD
`article.paragraph`), where several files are read after the file's name, or its path where two have
one name, and a colon. All may be `.gz`; see `tables` for encodings.
"""

import dataclasses
import functools
import itertools
import os

from bert_tf.data.table_form import AS_FOUND, DELIMITERS, is_table, written_as
from bert_tf.data.tables import (
    BadRow,
    NoColumn,
    check_unicode,
    id_prefixes,
    is_number,
    read_rows,
    read_text_lines,
)
from bert_tf.errors import BertTfError, UsageError, explain, print_note
from bert_tf.storage import files
from bert_tf.storage.encodings import EncodingError

IDS = ("id", "_id")
_SHOWN = 5  # invalid rows that are named one by one
_SAMPLE = 50  # rows by which a header is told from a passage
_WITHOUT_HEADER = {1: ("text",), 2: ("id", "text"), 3: ("id", "text", "title")}


@dataclasses.dataclass(frozen=True, slots=True)
class Passage:
    """A text that can be found, under an id that no other passage of its corpus has."""

    id: str
    text: str
    title: str = ""

    @property
    def content(self):
        """Return what is searched: the title, if any, and the text."""
        return f"{self.title} {self.text}" if self.title else self.text


def read_corpus(paths, form=AS_FOUND, columns=None, what="passage"):
    """Yield every `Passage` of some files, in order; memory holds the ids alone.

    Args:
        paths: a path or several, see above; globs are the caller's (`files.expand`).
        form: a `TableForm`.
        columns: `{"text": …, "id": …}`, those of a table that are not to be known by their names.
        what: the word of errors for one: queries with ids are read as passages are.

    Raises:
        UsageError: a table has no texts, or its delimiter cannot be detected.
        BertTfError: an id is missing or there twice, or a text is empty or none: after the last
            row, so that all such rows are counted, the first of them named by file and line; or a
            file cannot be read, or there is no passage at all.
    """
    one = isinstance(paths, str | os.PathLike)
    paths = list(map(os.fspath, [paths] if one else paths))
    seen, total, number_bad, bad = set(), 0, 0, []
    for path, prefix in zip(paths, id_prefixes(paths), strict=True):
        identified = None  # whether the file's rows have ids
        for where, number, values in _rows(path, form, columns):
            total += 1
            try:
                if isinstance(values, BadRow):
                    raise values
                has_id, before = not values.keys().isdisjoint(IDS), identified
                identified = has_id if before is None else before
                if has_id != identified:
                    raise BadRow(explain(
                        f"{where}: {'an' if has_id else 'no'} id, unlike the rows before",
                        "an id in each row, or in none"))
                passage = _passage(where, prefix + number, values)
                if passage.id in seen:
                    raise BadRow(explain(f"{where}: the id {passage.id!r} a second time",
                                         f"an id of its own for each {what}"))
            except BadRow as error:
                number_bad += 1
                bad += [error][:_SHOWN - len(bad)]
                continue
            seen.add(passage.id)
            if not bad:  # else nobody is to work with what is refused at the end
                yield passage
    if number_bad == 1:
        raise bad[0]
    if bad:
        more = [f"and {number_bad - len(bad):,} more"] if number_bad > len(bad) else []
        raise BadRow("\n  ".join([f"{', '.join(paths)}: {number_bad:,} of {total:,} rows are "
                                  "invalid; try correcting or removing them", *map(str, bad),
                                  *more]))
    if not seen:
        raise BertTfError(explain(f"{', '.join(paths)}: no {what}", "one or more"))


def _rows(path, form, columns):
    """Yield `(where, number, {"text", …})` of each passage, a BadRow in place of an invalid one;
    `number` is the id of one without."""
    try:
        if files.suffix(path) == ".json" and isinstance(
                value := files.read_json(path, form.encoding), dict):
            yield from _paragraphs(path, value)
            return
        rows = _named(path, form, columns) if columns else (
            _table(path, form) if is_table(path) else read_text_lines(path, form))
        for where, row in rows:
            yield where, where.rpartition(" ")[2], row
    except EncodingError as error:
        raise BertTfError(f"{error}, or --encoding {error.likely or 'NAME'}") from error


def _named(path, form, columns):
    """Return the rows of a table by our names of the columns that the caller names."""
    text, id = columns.get("text", "text"), columns.get("id")
    needed, optional = ([text, id], []) if id else ([text], IDS)
    ours = {text: "text", id: "id"}
    if form.header is None and all(map(str.isdecimal, needed)) and not written_as(path):
        _, first = next(read_rows(path, needed, form=form), (path, BadRow()))
        if not isinstance(first, BadRow) and _lowered(first[text]) in ("text", "title") and (
                id is None or _lowered(first[id]) in IDS):
            form = dataclasses.replace(form, header=True)
    return ((where, row if isinstance(row, BadRow) else {
        ours.get(name, name): value for name, value in row.items()})
        for where, row in read_rows(path, needed, [*optional, "title"], form))


def _table(path, form):
    """Return the rows of a table as `read_rows` does, by the names of the columns."""
    no_header = None
    if form.header is not False or written_as(path):
        try:
            return _begun(read_rows(path, ["text"], [*IDS, "title"], form))
        except NoColumn as error:
            if written_as(path) or form.header:
                raise
            no_header = error
    usual = DELIMITERS["comma" if files.suffix(path) == ".csv" else "tab"]
    form = dataclasses.replace(form, header=False, delimiter=form.delimiter or usual)
    rows = read_rows(path, ["0"], ["1", "2", "3"], form)
    sample = list(itertools.islice(rows, _SAMPLE))
    if not sample:
        return ()
    where, first = sample[0]
    names = _WITHOUT_HEADER.get(len(first))
    if no_header:
        named = {*IDS, "text", "title"} & set(map(_lowered, first.values()))
        header = named and len(first) > 1 or _is_header(sample)
        if names is None or header or (header is None and files.suffix(path) == ".csv"):
            raise UsageError(explain(
                str(no_header), attempt="--text_column and --id_column, naming a column text, or "
                "--no-header if this is a passage")) from no_header
        if header is None:
            _tell(f"{where}, the first, is read as a passage, its columns as {', '.join(names)}; "
                  "if it is a header, give --text_column and --id_column")
    if names is None:
        raise UsageError(explain(f"{where}: more than three columns without a header",
                                 "text; id and text; or id, text and title"))
    return ((where, row if isinstance(row, BadRow) else dict(zip(names, row.values(), strict=True)))
            for where, row in itertools.chain(sample, rows))


def _is_header(sample):
    """Return whether the first of the rows that `read_rows` gives is a header with names that are
    not ours: without a number above numbers alone; None where neither it nor they are numbers."""
    cells = zip(*(row.values() for _, row in sample if not isinstance(row, BadRow)), strict=True)
    numbers = [list(map(is_number, column)) for column in cells]
    if any(column[0] for column in numbers):
        return False
    return any(column[1:] and all(column[1:]) for column in numbers) or None


@functools.cache  # a corpus is read more than once
def _tell(text):
    print_note(text)


def _lowered(name):
    return name.strip().lower()


def _begun(rows):
    """Return the rows, the first of which was read: what is wrong with the columns is raised."""
    first = list(itertools.islice(rows, 1))
    return itertools.chain(first, rows)


def _passage(where, number, values):
    present = [name for name in IDS if name in values]
    id = values[present[0]] if present else number
    if type(id) is int:
        id = str(id)
    if id is None or isinstance(id, str) and not id.strip():
        raise BadRow(explain(f"{where}: no id", "an id in each row, or in none"))
    title = values.get("title")
    for name, value in (("id", id), ("text", values["text"]), ("title", title or "")):
        if not isinstance(value, str):
            raise BadRow(explain(f"{where}: {name} is {type(value).__name__}", "a string"))
        check_unicode(where, value, name)
    if not values["text"].strip() and not (title or "").strip():
        raise BadRow(explain(f"{where}: no text", "at least a character", "removing the row"))
    return Passage(id, values["text"], title or "")


def _paragraphs(path, value):
    """Yield the paragraphs of SQuAD's JSON (Rajpurkar et al. 2016)."""
    for i, article in enumerate(_list(path, value, "data")):
        of_article = f"{path} data[{i}]"
        for j, paragraph in enumerate(_list(of_article, article, "paragraphs")):
            where = f"{of_article}.paragraphs[{j}]"
            if not isinstance(paragraph, dict) or "context" not in paragraph:
                raise BertTfError(explain(f"{where}: no 'context'", "an object with its text"))
            title = article.get("title") or ""
            # Wikipedia's titles in SQuAD are those of its addresses.
            yield where, f"{i}.{j}", {"text": paragraph["context"], "title":
                                      title.replace("_", " ") if isinstance(title, str) else title}


def _list(where, value, name):
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise BertTfError(explain(f"{where}: no list {name!r}",
                                  "SQuAD's JSON, or a list of objects with a field text"))
    return found
