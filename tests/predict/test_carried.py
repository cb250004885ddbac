"""The types of columns that are carried along into Parquet, and the rows that do not fit them."""

import datetime
import decimal
import json
import math

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.data.table_form import TableForm
from bert_tf.errors import UsageError
from bert_tf.predict import carried
from bert_tf.predict.as_json import as_json
from bert_tf.predict.carried import Carried
from bert_tf.predict.rows import Rows

LONG = [(1 << 60) + 1, (1 << 60) + 3]
END, NOW = datetime.datetime(9999, 12, 31), datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
REPEATED = [(2020, 10, 25, 0, 30), (2020, 10, 25, 1, 30)]  # half past two in Berlin, twice


def instant(*parts):
    return datetime.datetime(*parts, tzinfo=datetime.UTC)


def rows_of(paths):
    return Rows(list(map(str, paths)), ["text"], {}, TableForm(), 2000)


def convert(paths):
    """Return the columns of all rows as Arrow has them, and what was told of bad ones."""
    rows, told = rows_of(paths), []
    (block,) = rows.blocks(bad=None)
    made = Carried(rows).convert(block, lambda where, row: told.append(str(row)))
    return {name: column.to_pylist() for name, column in made.columns.items()}, told


def write_values(folder, *columns):
    """A Parquet file of each column of values, Arrow's arrays; return the paths."""
    paths = [folder / f"{number}.parquet" for number in range(len(columns))]
    for path, values in zip(paths, columns, strict=True):
        parquet.write_table(pa.table({"text": ["a"] * len(values), "value": values}), path)
    return paths


@pytest.mark.parametrize(("more", "fits"), [
    ({"lang": "en"}, True), ({"lang": None}, True), ({}, True), (None, True),
    ({"lang": "en", "source": "x"}, False)])
def test_a_field_that_first_rows_lack_is_not_lost(tmp_path, more, fits):
    path = tmp_path / "a.jsonl"
    lines = [{"text": "the film", "of": {"meta": [{"lang": "en"}]}}] * 1000
    lines += [{"text": "the film", "of": {"meta": [more]}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows, told = rows_of([path]), []
    (block,) = rows.blocks(bad=None)
    made = Carried(rows).convert(block, lambda where, row: told.append(str(row)))
    assert len(made.places) == 1000 + fits
    assert fits or "in the column 'of'; expected struct<" in told[0]


def test_numbers_are_not_cut_off(tmp_path):
    path = tmp_path / "a.jsonl"
    values = [*range(1000), 1000.5, 1001.0, None]
    path.write_text("".join(json.dumps({"text": "a", "n": value}) + "\n" for value in values))
    columns, (told,) = convert([path])
    assert columns["n"] == [*range(1000), 1001, None]
    assert "line 1001: 1000.5 in the column 'n'; expected int64" in told


def test_a_column_has_a_type_for_the_values_of_all_files(tmp_path):
    columns = {"n": (pa.int32(), 7, 9.99), "x": (pa.float32(), 0.5, 1e300),
               "of": (pa.struct({"a": pa.int64()}), {"a": 1}, {"a": 1.5}),
               "raw": (pa.binary(), b"\xff", "the")}
    for name, place in (("a", 1), ("b", 2)):
        table = {"text": ["the film"]}
        for column, values in columns.items():
            table[column] = pa.array([values[place]], values[0] if place == 1 else None)
        parquet.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    found, told = convert(paths)
    assert not told
    assert found["raw"] == [b"\xff", b"the"]
    del columns["raw"]
    assert {name: found[name] for name in columns} == {
        name: list(values[1:]) for name, values in columns.items()}


@pytest.mark.parametrize(("first", "second", "found"), [
    ((LONG, pa.int64()), ([1.0, None], pa.float64()), [*LONG, 1, None]),
    (([1.0, None], pa.float64()), (LONG, pa.int64()), [1, None, *LONG]),
    (([7], pa.int64()), ([9.5, None], pa.float64()), [7, 9.5, None]),
    (([1 << 63], pa.uint64()), ([1], pa.int64()), [1 << 63, 1]),
    (([-1], pa.int64()), ([1], pa.uint64()), [-1, 1]),
    (([None, None, 3], pa.int64()), ([0.5], pa.float64()), [None, None, 3, 0.5]),
    (([None], pa.null()), ([{"a": 1}], None), [None, {"a": 1}]),
    (([END, NOW], pa.timestamp("us")), ([NOW], pa.timestamp("ns")), [END, NOW, NOW]),
    (([NOW], pa.timestamp("ns")), ([END], pa.timestamp("ms")), [NOW, END]),
    (([END.date()], pa.date32()), ([NOW], pa.timestamp("ns")), [END, NOW]),
    (([NOW], pa.timestamp("ms")), ([END.date()], pa.date32()), [NOW.replace(microsecond=0), END]),
    ((["a"], pa.dictionary(pa.int8(), pa.string())), (["b"], pa.string()), ["a", "b"]),
    (([instant(2020, 1, 1)], pa.timestamp("us", "UTC")),
     ([instant(*parts) for parts in REPEATED], pa.timestamp("us", "Europe/Berlin")),
     [instant(2020, 1, 1), *(instant(*parts) for parts in REPEATED)])])
def test_types_of_two_files(tmp_path, first, second, found):
    paths = write_values(tmp_path, *(pa.array(values, kind) for values, kind in (first, second)))
    columns, told = convert(paths)
    assert (columns["value"], told) == (found, [])
    assert Carried(rows_of(paths)).types == Carried(rows_of(paths[::-1])).types


@pytest.mark.parametrize(("objects", "others", "found"), [
    ([1, "s", [1]], [7], "['1', 's', '[1]', '7']"), ([None], [7], "[None, 7]"),
    ([[]], [["x"]], "[[], ['x']]"), ([{}], [{"a": 1}], "[{'a': None}, {'a': 1}]"),
    ([{}], None, "['{}']"), ([[], None], None, "['[]', None]"),
    ([{"a": None}], [None], "['{\"a\": null}', None]")])
def test_what_holds_nothing_gives_way_and_what_differs_is_json(tmp_path, objects, others, found):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "a", "value": each}) + "\n" for each in objects))
    paths = [path, *write_values(tmp_path, pa.array(others))] if others else [path]
    columns, told = convert(paths)
    assert (str(columns["value"]), told) == (found, [])
    assert Carried(rows_of(paths)).types == Carried(rows_of(paths[::-1])).types


def test_without_statistics_a_column_is_read_once_for_all_files(tmp_path, monkeypatch):
    paths, read = write_values(tmp_path, *([1], [0.5]) * 5), []
    parquet.write_table(pa.table({"text": ["a"], "value": [3]}), paths[0], write_statistics=False)
    kept = carried._largest
    monkeypatch.setattr(carried, "_largest", lambda *given: read.append(given) or kept(*given))
    columns, told = convert(paths)
    assert (columns["value"], told, len(read)) == ([3, 0.5, *[1, 0.5] * 4], [], 1)


def test_categories_of_all_files_are_strings(tmp_path):
    """Indices of 8 bits have no room for more than 128 of them."""
    columns, told = convert(write_values(tmp_path, *(
        pa.array(list(map(str, values)), pa.dictionary(pa.int8(), pa.string()))
        for values in (range(100), range(100, 200)))))
    assert (columns["value"], told) == (list(map(str, range(200))), [])
    assert Carried(rows_of(tmp_path.glob("0.parquet"))).types["value"] == pa.string()


def test_half_a_character_is_no_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "x": 1}\n{"text": "a", "x": "\\ud800"}\n')
    columns, (told,) = convert([path])
    assert columns["x"] == ["1"]
    assert "line 2: '\\ud800' in the column 'x'; expected text that is UTF-8; try" in told


@pytest.mark.parametrize(("first", "second", "message"), [
    ([1], ["a"], "the column 'value' is int64 in .*0.parquet, string in .*1.parquet; expected a "
                 "type that holds all; try --format jsonl"),
    ([True], [1], "'value' is bool in .*, int64 in "),
    ([decimal.Decimal("0.1")], [0.1], r"is decimal128\(1, 1\) in .*, double in "),
    ([NOW], [instant(2020, 1, 1)], r"is timestamp\[us\] in .*, timestamp\[us, tz=UTC\] in ")])
def test_files_that_no_type_holds_are_refused(tmp_path, first, second, message):
    rows = rows_of(write_values(tmp_path, pa.array(first), pa.array(second)))
    with pytest.raises(UsageError, match=message):
        Carried(rows)


def test_a_value_that_does_not_fit_the_type_of_all_files_is_told(tmp_path):
    columns, (told,) = convert(write_values(tmp_path, pa.array(LONG), pa.array([9.5])))
    assert columns["value"] == LONG
    assert "1.parquet row 1: 9.5 in the column 'value'; expected int64, as of all files" in told


@pytest.mark.parametrize(("usual", "other"), [
    ([0.5], [True]), ({"a": 0.5}, {"a": True}), ([{"a": 1}], [{"a": False}])])
def test_bools_are_no_numbers(tmp_path, usual, other):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "a", "value": value}) + "\n"
                            for value in [usual] * 1000 + [other]))
    columns, told = convert([path])
    assert columns["value"] == [usual] * 1000
    assert len(told) == 1


def test_json_has_no_number_that_is_not_finite():
    assert as_json({"a": {math.nan: math.inf, 1: 2}}) == b'{"a": {"null": null, "1": 2}}'


def test_json_as_text_is_that_of_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "x": "one"}\n{"text": "a", "x": [1, NaN, "\\ud800"]}\n')
    columns, told = convert([path])
    assert (columns["x"], told) == (["one", '[1, null, "\\ud800"]'], [])
