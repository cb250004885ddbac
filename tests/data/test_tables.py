"""Rows of TSV, CSV and JSON by column: forms, dirt, and what is refused."""

import csv
import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.data.table_form import TableForm
from bert_tf.data.tables import BadRow, has_column, read_rows
from bert_tf.errors import BertTfError, UsageError

ROWS = [{"id": "1", "text": 'He said "no"', "label": "b"},
        {"id": "2", "text": "שלום 👩‍👩‍👧 \u2028 \x0b 다", "label": "a"}]
# Line ends end rows of a TSV, and CRLF is LF.
FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n"),
                 min_size=1, max_size=8)


def as_tsv(rows, end="\n"):
    names = list(rows[0])
    lines = [names, *([row[name] for name in names] for row in rows)]
    return "".join("\t".join(fields) + end for fields in lines)


def as_csv(rows):
    stream = io.StringIO()
    writer = csv.DictWriter(stream, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz", "a.csv", "a.csv.gz", "a.jsonl",
                                  "a.jsonl.gz", "a.json", "a.json.gz"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_every_form_gives_the_same_rows(write_file, name, begin):
    form = name.split(".")[1]
    text = {"csv": as_csv, "jsonl": as_jsonl, "json": json.dumps}.get(form, as_tsv)(ROWS)
    read = list(read_rows(write_file(name, begin + text), ["text", "label"]))
    assert [row for _, row in read] == [{"text": row["text"], "label": row["label"]}
                                        for row in ROWS]
    first = {"jsonl": "line 1", "json": "item 1"}.get(form, "line 2")
    assert read[0][0].endswith(f"{name} {first}")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.json"])
@pytest.mark.parametrize(("written", "asked"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_column_is_found_composed_or_not(write_file, name, written, asked):
    """macOS writes 라벨 in jamo."""
    rows = [{unicodedata.normalize(written, "라벨"): "b", "text": "a"}]
    text = {"csv": as_csv, "jsonl": as_jsonl, "json": json.dumps}.get(
        name.split(".")[1], as_tsv)(rows)
    column = unicodedata.normalize(asked, "라벨")
    [(_, row)] = read_rows(write_file(name, text), ["text", column])
    assert row == {"text": "a", column: "b"}
    if name == "a.csv":  # where the delimiter is told from the header
        [(_, row)] = read_rows(write_file(name, text.replace(",", ";")), ["text", column])
        assert row == {"text": "a", column: "b"}


def test_crlf_and_blank_lines(write_file):
    path = write_file("a.tsv", as_tsv(ROWS, "\r\n") + "\r\n" + "3\tlast\tc\r\n\r\n")
    read = list(read_rows(path, ["label"]))
    assert [row["label"] for _, row in read] == ["b", "a", "c"]
    assert read[-1][0].endswith("line 5")


def test_numbers_are_columns_of_a_table_without_header(write_file):
    path = write_file("a.tsv", "gj04\t1\t\tA sentence.\n")
    assert [row for _, row in read_rows(path, ["3", "1"])] == [{"3": "A sentence.", "1": "1"}]
    with pytest.raises(UsageError, match="line 1: no column '4' among 4 columns"):
        list(read_rows(path, ["4"]))


def test_a_carriage_return_within_a_text_is_a_character(write_file):
    path = write_file("a.tsv", "the\rfilm, the end\t1\nthe end\t0\n")
    assert [row for _, row in read_rows(path, ["0", "1"])] == [
        {"0": "the\rfilm, the end", "1": "1"}, {"0": "the end", "1": "0"}]


def test_a_number_beside_a_name_counts_after_the_header(write_file):
    path = write_file("a.tsv", as_tsv(ROWS))
    assert [row["2"] for _, row in read_rows(path, ["text", "2"])] == ["b", "a"]


def test_quotes_of_csv_hold_tabs_commas_and_line_ends(write_file):
    text = 'text,label\n"a\tb, ""c""\nd",1\n\nplain,0\n'
    read = list(read_rows(write_file("a.csv", text), ["text"]))
    assert [row["text"] for _, row in read] == ['a\tb, "c"\nd', "plain"]
    assert [where.rsplit(" ", 1)[1] for where, _ in read] == ["2", "5"]


def test_a_long_field_of_csv(write_file):
    text = "long, " * 50_000
    (_, row), = read_rows(write_file("a.csv", f'text,label\n"{text}",1\n'), ["text"])
    assert row["text"] == text


def test_quotes_of_tsv_are_characters(write_file):
    text = 'text\tlabel\n"open\t1\nnot "" doubled"\t0\n'
    read = list(read_rows(write_file("a.tsv", text), ["text"]))
    assert [row["text"] for _, row in read] == ['"open', 'not "" doubled"']


@pytest.mark.parametrize(("name", "text", "there", "missing"), [
    ("a.csv", "text;id\na, b;1\n", ["id", "1"], ["uid", "2"]),
    ("a.tsv", "a\tx\nb\ty\n", ["1"], ["id", "2"]),
    ("a.jsonl", '{"text": "a"}\n{"text": "b", "of": {"id": 1}}\n', ["of.id"], ["id", "1"]),
    ("a.json", '{"data": []}', [], ["data"])])
def test_whether_a_column_is_there(write_file, name, text, there, missing):
    path = write_file(name, text)
    assert all(has_column(path, column) for column in there)
    assert not any(has_column(path, column) for column in missing)


def test_fields_of_objects_within(write_file):
    path = write_file("a.jsonl", '{"a": {"b": 1}, "a.c": 2}\n')
    assert next(read_rows(path, ["a.b", "a.c"], ["a.d"]))[1] == {"a.b": 1, "a.c": 2}


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.tsv", "text\tlabel\na\tb\tc\n", r"line 2: 3 columns; expected 2 as in the first line "
                                        r"\(tabs within a text: use .csv\)"),
    ("a.tsv", "text\tlabel\na\n", "line 2: 1 columns; expected 2 as in the first line"),
    ("a.csv", "text,label\na\n", "line 2: 1 columns; expected 2"),
    ("a.csv", 'text,label\n"b"c,1\n', "line 2: not CSV: ',' expected after"),
    ("a.csv", 'text,label\n"b,1\n', "line 2: not CSV: unexpected end"),
    ("a.jsonl", '{"text": "a"}\n', "line 1: no field 'label' among text"),
    ("a.jsonl", "\n[1]\n", "line 2: list; expected an object"),
    ("a.jsonl", '{"text": \n', "line 1: invalid JSON"),
    ("a.json", '[{"text": "a"}]', "item 1: no field 'label'"),
])
def test_a_wrong_row_is_handed_over(write_file, name, text, message):
    (_, row), = read_rows(write_file(name, text), ["text", "label"])
    with pytest.raises(BadRow, match=message):
        raise row


def test_rows_after_one_that_is_no_csv(write_file):
    path = write_file("a.csv", 'text,label\na,1\n50,"bad "quote" here"\n"b, c",0\n')
    found = dict(read_rows(path, ["text", "label"]))
    assert isinstance(found.pop(f"{path} line 3"), BadRow)
    assert found == {f"{path} line 2": {"text": "a", "label": "1"},
                     f"{path} line 4": {"text": "b, c", "label": "0"}}


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.tsv", "text\tlabl\n", "line 1: no column 'label' among text, labl"),
    ("a.tsv", "text\tlabel\tlabel\n", "line 1: two columns are named 'label'"),
    ("a.csv", "text|label\n", "no column 'text'"),
    ("a.csv", 'text,label\n"b\nc,1\n', "line 2: not CSV up to line 3: unexpected end"),
    ("a.csv", 'text,label\n"b,1\n' + "c,1\n" * 20 + '"d, e",1\n',
     "line 2: not CSV up to line 23: ',' expected after"),  # else 20 good rows would be lost
    ("a.csv", "text,label\r,x\nb,1,2\n", "line 1: not CSV: new-line character"),
    ("a.json", '{"text": "a"}', "dict; expected a JSON list"),
    ("a.tsv", b"text\tlabel\n\xe9t\xe9\t1\n", "line 2: byte 0xe9 at column 1 is not UTF-8"),
])
def test_a_wrong_file_is_refused(write_file, name, text, message):
    with pytest.raises(BertTfError, match=message):
        list(read_rows(write_file(name, text), ["text", "label"]))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("columns", [["text", "label"], ["0", "1"]])
def test_the_delimiter_is_told_from_the_file(write_file, name, delimiter, columns):
    rows = [["text", "label"], *([f"a, b{', c' * (number % 3)}" + "; d" * (number % 2), "1"]
                                 for number in range(20))]
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL).writerows(rows)
    path = write_file(name, stream.getvalue())
    form = TableForm(header=True)
    read = [list(row.values()) for _, row in read_rows(path, columns, form=form)]
    assert read == rows[1:]
    said = TableForm(delimiter, header=True)
    assert [list(row.values()) for _, row in read_rows(path, columns, form=said)] == read


def test_a_delimiter_that_could_be_either_is_asked_for(write_file):
    path = write_file("a.csv", "a, b;1\nc, d;2\n")
    with pytest.raises(UsageError, match="both make equal rows; try --delimiter comma or"):
        list(read_rows(path, ["0", "1"]))
    form = TableForm(";")
    assert [row["0"] for _, row in read_rows(path, ["0", "1"], form=form)] == ["a, b", "c, d"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp949"])
@pytest.mark.parametrize("name", ["a.tsv", "a.csv.gz", "a.jsonl", "a.json"])
def test_encodings(write_file, encoding, name):
    rows = [{"text": "똠방각하, 재미있다", "label": "긍정"}, {"text": "뷁", "label": "부정"}]
    form = name.split(".")[1]
    text = {"csv": as_csv, "jsonl": as_jsonl,
            "json": lambda rows: json.dumps(rows, ensure_ascii=False)}.get(form, as_tsv)(rows)
    mark = "\ufeff" if encoding.startswith("utf-16-") else ""
    path = write_file(name, (mark + text).encode(encoding))
    said = TableForm(encoding=None if encoding.startswith("utf-16") else encoding)
    assert [row for _, row in read_rows(path, ["text", "label"], form=said)] == rows


def test_what_is_no_text_is_refused_by_its_name(write_file):
    for begin in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        with pytest.raises(UsageError, match=r"a.xlsx is a workbook.*saving .* as CSV \(UTF-8\)"):
            list(read_rows(write_file("a.xlsx", begin + b"\xa1\xb1"), ["text"]))
    with pytest.raises(BertTfError, match="a.parquet: not Parquet"):
        list(read_rows(write_file("a.parquet", b"PAR1 and what else"), ["text"]))


def test_a_header_that_comes_again_is_named(write_file):
    path = write_file("a.tsv", as_tsv(ROWS) + as_tsv(ROWS))
    read = list(read_rows(path, ["text"]))
    assert [isinstance(row, BadRow) for _, row in read] == [False, False, True, False, False]
    assert "line 4: a second header; try removing the row" in str(read[2][1])


def test_a_header_is_as_the_form_says(write_file):
    path = write_file("a.tsv", as_tsv(ROWS))
    assert [len(list(read_rows(path, ["1"], form=TableForm(header=header))))
            for header in (None, True, False)] == [3, 2, 3]
    with pytest.raises(UsageError, match="column 'text' without a header"):
        list(read_rows(path, ["text"], form=TableForm(header=False)))


@given(st.lists(st.fixed_dictionaries({"text": FIELDS, "label": FIELDS}), min_size=1, max_size=5))
def test_what_was_written_is_read(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("tables")
    for name, form in (("a.tsv", as_tsv), ("a.csv", as_csv), ("a.jsonl", as_jsonl)):
        path = folder / name
        path.write_bytes(form(rows).encode())
        assert [row for _, row in read_rows(str(path), ["text", "label"])] == rows


def test_a_single_column_of_csv(write_file):
    rows = read_rows(write_file("a.csv", "text\na\tb\nc; d\n"), ["text"])
    assert [row["text"] for _, row in rows] == ["a\tb", "c; d"]
    rows = read_rows(write_file("b.csv", "text\na, b\nc, d, e\nf\n"), ["text"])  # by hand
    assert [row["text"] for _, row in rows] == ["a, b", "c, d, e", "f"]


def test_the_first_line_by_which_excel_tells_its_delimiter(write_file):
    path = write_file("a.csv", "sep=;\r\ntext;label\r\na, b;x\r\n")
    assert list(read_rows(path, ["text", "label"])) == [
        (f"{path} line 3", {"text": "a, b", "label": "x"})]
    assert [row["1"] for _, row in read_rows(path, ["1"])] == ["label", "x"]
