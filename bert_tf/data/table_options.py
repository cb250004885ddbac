"""Options of how tables are written, and which of their columns hold what."""

import codecs
import dataclasses

from bert_tf.data.table_form import DELIMITERS, TableForm
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.options import Options, option

_COLUMNS = ("text", "text_b", "label", "id")


def _delimiter(text):
    if len(text) == 1:
        return text
    try:
        return DELIMITERS[check_choice("delimiter", text, DELIMITERS)]
    except UsageError as error:
        raise UsageError(f"{error}, or one character") from None


def _encoding(text):
    try:
        "".encode(text)
    except LookupError:
        raise UsageError(explain(f"no encoding is called {text}",
                                 "such as UTF-8, UTF-16, CP949 or CP1252")) from None
    return codecs.lookup(text).name


@dataclasses.dataclass(frozen=True, kw_only=True)
class FormOptions(Options):
    """How a table is written."""

    delimiter: str | None = option(
        None, "between the fields of a row: tab, comma, semicolon or a character",
        metavar="NAME", parse=_delimiter, otherwise="detected in the file")
    encoding: str | None = option(
        None, "of the files, such as CP949", metavar="NAME", parse=_encoding,
        otherwise="UTF-8, or UTF-16 with a byte order mark")
    header: bool | None = option(
        None, "whether the first row holds names, where columns are numbers",
        otherwise="detected by its label")

    def columns(self):
        """The named columns as `{"text", "text_b", "label", "id"}`, without those not given."""
        given = {name: getattr(self, f"{name}_column", None) for name in _COLUMNS}
        return {name: column for name, column in given.items() if column is not None}

    def form(self):
        """The `TableForm` of the options."""
        return TableForm(self.delimiter, self.encoding, self.header)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnOptions(FormOptions):
    """The same of a table of examples, and where it has what."""

    text_column: str | None = option(
        None, "column, its name or its number from 0, of the text or question", metavar="NAME")
    text_b_column: str | None = option(
        None, "column, its name or its number from 0, of the second text or context",
        metavar="NAME")
    label_column: str | None = option(
        None, "column, its name or its number from 0, of the label, number, answer or tags",
        metavar="NAME")
    id_column: str | None = option(
        None, "column, its name or its number from 0, of the example's id", metavar="NAME")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusOptions(FormOptions):
    """The same of a table of passages."""

    text_column: str | None = option(
        None, "column, its name or its number from 0, of a passage's text", metavar="NAME",
        otherwise="text")
    id_column: str | None = option(
        None, "column, its name or its number from 0, of a passage's id", metavar="NAME",
        otherwise="id or _id, if any")
    header: bool | None = FormOptions.redefined("header", None, "detected by its names")
