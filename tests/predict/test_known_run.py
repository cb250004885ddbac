"""What a run says of the tables that its model is given: columns, encoding, header."""

import json
import os

import pytest
from predicted import COUNT, read, run

import bert_tf
from bert_tf.storage import checksums, files

pytestmark = pytest.mark.usefixtures("same_predictor")


def run_of(model, folder, columns, task="classify", **results):
    """A finished run with the model; returns its folder."""
    made = str(folder / "run")
    os.makedirs(made)
    os.symlink(model, os.path.join(made, "model"))
    checksums.write_sealed(os.path.join(made, "results.json"), {
        "task": task, "columns": columns, **results})
    return made


@pytest.mark.parametrize(("columns", "words", "count"), [
    ({"text": "review", "label": "stars"}, [], COUNT),
    ({"text": "0", "label": "stars"}, [], COUNT),  # a name beside it: there is a header
    ({"text": "review", "label": "stars", "id": "number"}, [], COUNT),  # ids of other tables
    ({"text": "0", "label": "1"}, ["--header"], COUNT),
    ({"text": "review", "label": "stars"}, ["--text_column", "0"], COUNT + 1)])
def test_a_run_knows_its_columns(model, table, tmp_path, columns, words, count):
    known = run_of(model, tmp_path, columns)
    content = files.read_text(table).replace("text\tlabel", "review\tstars", 1)
    files.write_text(table, content)
    assert run(known, table, tmp_path / "out", *words) == 0
    rows = read(tmp_path / "out")
    assert len(rows) == count
    assert list(rows[0])[:4] == ["id", *(["review", "stars"] if count == COUNT else "01"), "label"]
    manifest = files.read_json(str(tmp_path / "out" / "manifest.json"))
    assert manifest["labelled"] == (COUNT if count == COUNT else 0)


@pytest.mark.parametrize(("encoding", "words", "earlier"), [
    ("cp949", [], False), ("cp949", [], True), ("utf-8", [], False), ("utf-8-sig", [], False),
    ("utf-16", [], False), ("utf-8", ["--encoding", "utf-8"], False)])
def test_an_encoding_that_a_run_knows_is_not_that_of_unicode(model, tmp_path, encoding, words,
                                                             earlier):
    form = {"delimiter": None, "encoding": "cp949", "header": None}
    known = run_of(model, tmp_path, {}, **({} if earlier else {"form": form}))
    if earlier:  # when results did not tell it
        checksums.write_sealed(os.path.join(known, "run.json"), {"options": form})
    texts = ["정말 재밌는 영화", "다시 보고 싶다"]
    source = tmp_path / "data.csv"
    source.write_bytes("\n".join(["text", *texts]).encode(encoding))
    assert run(known, str(source), tmp_path / "out", *words) == 0
    assert [row["text"] for row in read(tmp_path / "out")] == texts


def test_lines_of_text_have_no_columns_that_a_run_knows(model, tmp_path, capsys):
    known = run_of(model, tmp_path, {"text": "review", "label": "stars", "id": "number"})
    (tmp_path / "lines.txt").write_text("the film\n\nfine end\n")
    given = known, tmp_path / "lines.txt", tmp_path / "out"
    assert run(*given, "--text_column", "review") == 2
    assert "no column 'review' among text; try --text_column" in capsys.readouterr().err
    assert run(*given) == 0
    assert [(row["id"], row["text"]) for row in read(tmp_path / "out")] == [
        ("1", "the film"), ("3", "fine end")]


class LongestFirst:
    """A predictor of pairs, of which the longer first text has the higher score."""

    signature, inputs, columns = "predict", ("text_a", "text_b"), ["score"]

    def __call__(self, texts, done=None):
        return {"score": [float(len(text)) for text in texts["text_a"]]}


def test_beside_a_second_text_the_first_has_the_column_of_the_task(model, tmp_path, monkeypatch):
    monkeypatch.setattr(bert_tf.predict.work, "Predictor", lambda *arguments: LongestFirst())
    known = run_of(model, tmp_path, {"text_b": "reply"}, "regress")
    source = tmp_path / "data.jsonl"
    files.write_json_lines(str(source), [{"text": "a" * number, "reply": "b", "label": number}
                                         for number in (1, 2, 3)])
    assert run(known, source, tmp_path / "out", "--format", "jsonl") == 0
    assert [row["score"] for row in read(tmp_path / "out")] == [1, 2, 3]
    assert files.read_json(str(tmp_path / "out" / "manifest.json"))["metrics"]["mse"] == 0


@pytest.mark.parametrize(("name", "words"), [
    ("data.tsv", []), ("data.jsonl", ["--format", "jsonl"])])
def test_published_columns_of_the_task_are_found(model, tmp_path, capsys, name, words):
    known, rows = run_of(model, tmp_path, {}, "nsmc"), [("the film", "1"), ("the end", "0")]

    def write(texts):
        (tmp_path / name).write_text(f"{texts}\tlabel\n" + "".join(
            f"{text}\t{label}\n" for text, label in rows) if name == "data.tsv" else "".join(
                json.dumps({texts: text, "label": label}) + "\n" for text, label in rows))
    for column in ("document", "text"):
        write(column)
        assert run(known, tmp_path / name, tmp_path / column, *words) == 0
        assert [row[column] for row in read(tmp_path / column)] == ["the film", "the end"]
    assert [row["score"] for row in read(tmp_path / "document")] == [
        row["score"] for row in read(tmp_path / "text")]
    write("sentence")
    assert run(known, tmp_path / name, tmp_path / "other", *words) == 2
    assert "no column 'text' among sentence, label; try --text_column" in capsys.readouterr().err
