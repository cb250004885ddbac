"""Rows of Parquet: columns, types, and what is refused."""

import pytest

from bert_tf.data import parquet as reader
from bert_tf.data.tables import BadRow, read_rows
from bert_tf.errors import UsageError

pa, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))


def test_fields_of_records_and_rows_by_number(tmp_path):
    path = tmp_path / "a.parquet"
    rows = [{"text": "좋다", "more": {"label": 1}}, {"text": None, "more": {"label": 0}}]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    read = list(read_rows(str(path), ["text", "more.label"]))
    assert [row for _, row in read] == [{"text": "좋다", "more.label": 1},
                                        {"text": None, "more.label": 0}]
    assert read[1][0] == f"{path} row 2"


def test_only_the_columns_that_are_asked_for_are_read(tmp_path, monkeypatch):
    path, held, records = tmp_path / "a.parquet", [], reader._records
    columns = {"id": ["1"], "a.b": ["c"], "text": ["t"], "vector": [[0.5, 1.0]]}
    parquet.write_table(pa.table(columns), path)
    monkeypatch.setattr(reader, "_records", lambda path, batch, before: held.append(
        batch.schema.names) or records(path, batch, before))
    (_, row), = read_rows(str(path), ["text", "a.b"], ["id", "title"])
    assert row == {"text": "t", "a.b": "c", "id": "1"} and set(held[-1]) == {"text", "a.b", "id"}
    (_, row), = read_rows(str(path), ["text"], others=True)
    assert row == {name: values[0] for name, values in columns.items()}
    (_, row), = read_rows(str(path), ["label", "text"])
    assert "row 1: no field 'label' among id, a.b, text, vector" in str(row)


def test_two_columns_of_one_name(tmp_path):
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pa.table([["a"], ["b"], ["c"]], names=["text", "text", "id"]), path)
    with pytest.raises(UsageError, match="a.parquet: two columns are named 'text'"):
        list(read_rows(path, ["text"]))
    assert [row["id"] for _, row in read_rows(path, ["id"])] == ["c"]


def test_long_rows_are_held_a_few_at_a_time(tmp_path, monkeypatch):
    texts, held, records = [f"{number}" * 1000 for number in range(10, 60)], [], reader._records
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=30)
    monkeypatch.setattr(reader, "_BYTES", 20_000)
    monkeypatch.setattr(reader, "_records", lambda path, batch, before: held.append(len(batch))
                        or records(path, batch, before))
    found = read_rows(str(tmp_path / "a.parquet"), ["text"])
    assert [row["text"] for _, row in found] == texts and 5 <= max(held) <= 10


def test_values_that_python_cannot_hold(tmp_path):
    texts = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"c"]).buffers())
    days = pa.array([0, 0, 10 ** 18], pa.timestamp("ms"))
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": texts, "until": days}), path)
    (_, first), (_, text), (_, until) = read_rows(str(path), ["text"], ["until"])
    assert first["text"] == "a"
    assert "row 2: a string in the column 'text' that Python cannot hold" in str(text)
    assert "row 3: a timestamp[ms] in the column 'until' that" in str(until)
    assert isinstance(text, BadRow) and isinstance(until, BadRow)
