"""predict from its command line: every form of input and output, bad rows, resuming."""

import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pytest
from predicted import COUNT, LABELS, bad_rows, parts, read, run
from pyarrow import parquet
from sentiment import examples, tokenizer

import bert_tf
from bert_tf import cores, side_by_side
from bert_tf.errors import UsageError
from bert_tf.storage import checksums, files
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor

pytestmark = pytest.mark.usefixtures("same_predictor")


def test_predictions_stand_beside_the_columns_in_order(model, table, tmp_path, capsys):
    made = examples(COUNT, seed=3)
    expected = bert_tf.from_pretrained(model).classify([each.text_a for each in made])
    for form in ("parquet", "jsonl"):
        assert run(model, table, tmp_path / form, "--format", form, "--task", "classify") == 0
        rows = read(tmp_path / form)
        assert [(row["text"], row["label"]) for row in rows] == [
            (each.text_a, each.label) for each in made]
        assert [row["id"] for row in rows] == list(map(str, range(2, COUNT + 2)))
        assert [row["predicted_label"] for row in rows] == [each["label"] for each in expected]
        for row, each in zip(rows, expected, strict=True):
            assert row["probabilities"] == pytest.approx(each["probabilities"], abs=1e-5)
            assert row["score"] == max(row["probabilities"].values())
        assert [path.name for path in parts(tmp_path / form)] == [
            f"part-0000{number}.{form}" for number in range(3)]
    right = np.mean([one.label == each["label"]
                     for one, each in zip(made, expected, strict=True)])
    printed = capsys.readouterr().out
    assert f"{COUNT} rows in 3 files" in printed and f"accuracy {right:.4f}" in printed
    about = checksums.read_sealed(str(tmp_path / "jsonl/manifest.json"))
    assert (about["metrics"]["accuracy"], about["labelled"], about["rows"]) == (right, COUNT, COUNT)
    schema = parquet.read_schema(parts(tmp_path / "parquet")[0])
    assert schema.field("probabilities").type == pa.struct(
        [(label, pa.float32()) for label in LABELS])
    # Once is enough; another result is not replaced.
    words = ["--format", "jsonl", "--task", "classify"]
    assert run(model, table, tmp_path / "jsonl", *words) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert run(model, table, tmp_path / "jsonl", "--task", "classify") == 2
    assert "(format was 'jsonl', now 'parquet')" in capsys.readouterr().err


def test_vectors_beside_their_ids(model, table, tmp_path, capsys):
    assert run(model, table, tmp_path / "out", "--task", "embed", "--format", "npy") == 0
    first, second = np.load(parts(tmp_path / "out")[1]), parts(tmp_path / "out")[0]
    assert second.name == "part-00000.ids.json"
    assert json.loads(second.read_text()) == [str(number) for number in range(2, 18)]
    embedder = bert_tf.from_pretrained(model, "embedder",
                                       preprocessor=TextPreprocessor(tokenizer(), 8))
    np.testing.assert_allclose(
        first, embedder.embed([each.text_a for each in examples(COUNT, seed=3)][:16]), atol=1e-5)
    assert run(model, table, tmp_path / "other", "--format", "npy") == 2
    assert "gives no vectors; expected parquet or jsonl" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert run(model, table, tmp_path / "out", "--task", "embed") == 2
    assert run(model, table, tmp_path / "vectors", "--task", "embed") == 0
    assert parquet.read_schema(parts(tmp_path / "vectors")[0]).field("embedding").type == pa.list_(
        pa.float32(), first.shape[1])
    assert np.array_equal([row["embedding"] for row in read(tmp_path / "vectors")[:16]], first)


def write_everything(folder):
    """Files of all forms, with the same two texts each; a further column in some."""
    texts = ["the film great", "dull, the \"end\""]
    quoted = '1,"the film great"\n2,"dull, the ""end"""\n'
    (folder / "a.txt").write_text("\n".join([texts[0], "", texts[1]]))
    (folder / "b.csv").write_text("n,text\n" + quoted)
    (folder / "c.tsv.gz").write_bytes(gzip.compress("text\tn\n{}\t1\n{}\t2\n".format(
        *texts).encode()))
    (folder / "d.jsonl").write_text("".join(
        json.dumps({"text": text, "n": number, "more": {"a": [number]}}) + "\n"
        for number, text in enumerate(texts, 1)))
    parquet.write_table(pa.table({"text": texts, "n": [1, 2], "day": pa.array(
        [1, 2], pa.timestamp("us"))}), folder / "e.parquet", row_group_size=1)
    return texts


def test_all_forms_of_input_at_once(model, tmp_path):
    texts = write_everything(tmp_path)
    assert run(model, tmp_path / "*.*", tmp_path / "out", "--format", "jsonl") == 0
    rows = read(tmp_path / "out")
    assert [row["text"] for row in rows] == texts * 5
    assert [row["id"] for row in rows] == [
        "a.txt:1", "a.txt:3", "b.csv:2", "b.csv:3", "c.tsv.gz:2", "c.tsv.gz:3", "d.jsonl:1",
        "d.jsonl:2", "e.parquet:1", "e.parquet:2"]
    assert [row["n"] for row in rows] == [None, None, "1", "2", "1", "2", 1, 2, 1, 2]
    assert len({round(row["probabilities"]["good"], 5) for row in rows}) == 2
    assert rows[6]["more"] == {"a": [1]} and rows[8]["day"] == "1970-01-01 00:00:00.000001"
    for name, types in (("d.jsonl", {"n": "int64", "more": "struct<a: list<item: int64>>"}),
                        ("e.parquet", {"n": "int64", "day": "timestamp[us]"})):
        assert run(model, tmp_path / name, tmp_path / name[0]) == 0
        schema = parquet.read_schema(parts(tmp_path / name[0])[0])
        assert {field.name: str(field.type).replace("element", "item") for field in schema
                if field.name in types} == types


BAD = [({"text": None}, "NoneType as text; expected a string"),
       ({"text": 7}, "int as text; expected a string"),
       ({"text": "  "}, "empty text; try removing the row"),
       ({"text": "a\0b"}, "a NUL character in the text; try removing it"),
       ({"text": "\ud800"}, "half a surrogate pair in the text; expected whole characters"),
       ({"words": "the"}, "no field 'text' among words"),
       ({"text": "the", "n": "one"},
        "'one' in the column 'n'; expected int64, as in the first rows; try --format jsonl"),
       ({"text": "the", "n": 1 << 70}, f"{1 << 70} in the column 'n'")]


def test_ids_are_of_the_files_that_were_named(model, tmp_path, capsys):
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(f"a fine film\n{name}\n")
    (tmp_path / "c.txt").write_text((tmp_path / "b.txt").read_text())
    arguments = (model, tmp_path / "a.txt", tmp_path / "out", "--format", "jsonl")
    assert run(*arguments, "--input", str(tmp_path / "a.txt"), str(tmp_path / "b.txt")) == 0
    renamed = ("--input", str(tmp_path / "a.txt"), str(tmp_path / "c.txt"))
    assert run(*arguments, *renamed) == 2
    assert "file_names was" in capsys.readouterr().err


def test_another_form_of_the_output_is_refused(model, write_file, tmp_path, capsys):
    source = write_file("a.tsv", "text\nthe film\n")
    assert run(model, source, tmp_path / "out") == 0
    record = str(tmp_path / "out/manifest.json")
    before = checksums.read_sealed(record)
    version = before["options"].pop("output_format_version")
    checksums.write_sealed(record, before)
    assert run(model, source, tmp_path / "out") == 2
    assert f"(output_format_version was None, now {version})" in capsys.readouterr().err
    assert run(model, source, tmp_path / "out", "--overwrite") == 0
    assert checksums.read_sealed(record)["options"]["output_format_version"] == version


@pytest.mark.parametrize(("content", "words"), [
    ("text\tn\nthe film\t1\n", []), ("the film\t1\n", ["--text_column", "0"])])
def test_files_without_labels_are_not_read_again(model, write_file, tmp_path, monkeypatch, capsys,
                                                 content, words):
    monkeypatch.setattr("bert_tf.predict.run.measure", None)
    source = write_file("a.tsv", content)
    assert run(model, source, tmp_path / "out", "--task", "classify", *words) == 0
    assert "not measured" not in capsys.readouterr().err


def test_files_that_no_type_holds_leave_nothing_behind(model, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "the", "n": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "the", "n": "one"}\n')
    assert run(model, tmp_path / "*.jsonl", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "the column 'n' is int64 in" in error and "b.jsonl; expected a type that" in error
    assert not (tmp_path / "out").exists()


def test_bad_rows_go_into_a_file_of_their_own(model, tmp_path, capsys):
    lines = [json.dumps({"text": "the film", "n": 1}), *(json.dumps(row) for row, _ in BAD),
             "{", "[]", json.dumps({"text": "the end", "n": 2})]
    source = tmp_path / "data.jsonl"
    words = ["--shard_size", "300"]
    source.write_text("\n".join([lines[0]] * 1000 + lines))
    assert run(model, source, tmp_path / "out", *words) == 0
    assert "10 bad rows in " in capsys.readouterr().out
    assert [row["n"] for row in read(tmp_path / "out")] == [1] * 1001 + [2]
    found = {each["where"]: each["reason"] for each in bad_rows(tmp_path / "out")}
    for number, (_, reason) in enumerate(BAD, 1002):
        assert found[f"{source} line {number}"].startswith(reason)
    assert found[f"{source} line 1010"].startswith("invalid JSON")
    assert found[f"{source} line 1011"] == "list; expected an object with its fields"
    assert run(model, source, tmp_path / "strict", *words, "--strict") == 1
    assert f"{source} line 1002: NoneType as text; expected a string" in capsys.readouterr().err
    assert checksums.read_sealed(str(tmp_path / "out/manifest.json"))["bad_rows"] == 10


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_row_with_bytes_of_another_encoding_is_one_bad_row(model, write_file, tmp_path, form):
    source = write_file("data.tsv", b"text\tby\nthe\tx\ncaf\xe9\tx\nend\tx\xff\n")
    assert run(model, source, tmp_path / "out", "--format", form) == 0
    assert [row["text"] for row in read(tmp_path / "out")] == ["the", "end"][:1 + (form == "jsonl")]
    reasons = [each["reason"] for each in bad_rows(tmp_path / "out")]
    assert reasons[0] == "byte 0xe9 in the text is not UTF-8; try --encoding"
    assert (len(reasons) == 1) if form == "jsonl" else "in the column 'by'" in reasons[1]


def test_a_file_that_was_refused_may_be_another_one(model, write_file, tmp_path, capsys):
    for content in ("text\n", "text\n \n"):
        source = write_file("data.tsv", content)
        assert run(model, source, tmp_path / "out") == 1
        assert "data.tsv" in capsys.readouterr().err
    assert run(model, write_file("data.tsv", "text\nthe\n"), tmp_path / "out") == 0
    assert [row["text"] for row in read(tmp_path / "out")] == ["the"]
    assert bad_rows(tmp_path / "out") == []
    source = write_file("data.tsv", "text\n \n")
    assert run(model, source, tmp_path / "strict", "--strict") == 1  # before there is any shard
    source = write_file("data.tsv", "text\nthe\n")
    assert run(model, source, tmp_path / "strict", "--strict") == 0


@pytest.mark.parametrize("content, words, code, message", [
    ("", [], 1, "data.tsv: no rows; expected one or more"),
    ("text\n", [], 1, "data.tsv: no rows; expected one or more"),
    ("text\tn\n \t1\n", [], 1, "data.tsv line 2: empty text"),
    ("a\tb\nthe\t1\n", [], 2, "no column 'text' among a, b; try --text_column"),
    ("a\tb\nthe\t1\n", ["--text_column", "a", "--id_column", "c"], 2, "no column 'c' among a, b"),
    ("text\tb\nthe\t1\n", ["--label_column", "c", "--task", "nsmc"], 2,
     "no column 'c' among text, b"),
    ("text\ttext_b\nthe\tend\n", ["--text_b_column", "text_b"], 2,
     "--text_b_column text_b with a model of single texts; try omitting it"),
    ("text\tn\tn\nthe\t1\t2\n", [], 2, "data.tsv: two columns are named 'n'; expected a name each; "
     "try renaming one, or removing it"),
    ("text\tlabel\tpredicted_label\na\tb\tc\n", [], 2,
     "the input has the columns label and predicted_label"),
    (b"text\ncaf\xe9\n", [], 1, "line 2: byte 0xe9 in the text is not UTF-8; try --encoding"),
    ("text\nthe\n".encode("utf-16") + b"\xd8\xd8", [], 1, "is not UTF-16"),
    (b"PK\x03\x04", [], 2, "is a workbook or a zip archive")])
def test_what_is_no_input_is_one_line(model, write_file, tmp_path, capsys, content, words, code,
                                      message):
    source = write_file("data.tsv", content)
    assert run(model, source, tmp_path / "out", *words) == code
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert code == 1 or not (tmp_path / "out").exists()  # options and columns leave nothing behind


def test_a_folder_of_others_is_left_alone(model, table, tmp_path, capsys):
    (tmp_path / "bad_rows.jsonl").write_text("mine")
    assert run(model, table, tmp_path, "--overwrite") == 2
    assert "already holds bad_rows.jsonl, not written by this command" in capsys.readouterr().err


def test_what_was_interrupted_goes_on(model, table, tmp_path, monkeypatch, capsys):
    from bert_tf.predict.work import Work

    assert run(model, table, tmp_path / "whole") == 0
    expected = {path.name: path.read_bytes() for path in parts(tmp_path / "whole")}
    do, done = Work.do, []

    def dies(self, block, *arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(block.number)
        return do(self, block, *arguments)

    monkeypatch.setattr(Work, "do", dies)
    assert run(model, table, tmp_path / "out") == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert [path.name for path in parts(tmp_path / "out")] == sorted(expected)[:2]
    assert not (tmp_path / "out" / "bad_rows.jsonl").exists()
    parts(tmp_path / "out")[0].write_bytes(b"PAR1")  # what a dying disk leaves is made again
    (tmp_path / "out/predictions/.tmp-part-00002.parquet-0123456789ab").write_bytes(b"PA")
    monkeypatch.setattr(Work, "do", do)
    assert run(model, table, tmp_path / "out") == 0
    assert {path.name: path.read_bytes() for path in parts(tmp_path / "out")} == expected


def test_a_table_by_the_name_of_a_text_is_told(model, write_file, tmp_path, capsys):
    """NSMC's files are called so."""
    source = write_file("ratings_test.txt", "id\tdocument\tlabel\n1\tthe film\t1\n")
    assert run(model, source, tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert f"note: {source} is read as a text a line, though its first line has tabs" in printed
    assert run(model, source, tmp_path / "nsmc", "--task", "nsmc") == 2
    assert "a table with the column 'document'; expected" in capsys.readouterr().err
    write_file("ratings_test.txt", "id\ttext\n1\tthe film\n")
    assert run(model, source, tmp_path / "text") == 2
    assert "try a name that ends with .tsv" in capsys.readouterr().err


def test_rows_whose_label_the_model_does_not_know_are_told(model, write_file, tmp_path, capsys):
    source = write_file("a.tsv", "text\tlabel\nthe film\tgood\nthe end\tnew\n")
    assert run(model, source, tmp_path / "out", "--task", "classify") == 0
    printed = capsys.readouterr().out
    assert "1 labelled rows: " in printed
    assert "1 rows are not measured: the model does not know their label" in printed


class Tagger:
    """A predictor that is not asked."""

    signature = "tag"


def test_words_with_their_tags_are_no_texts(model, write_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bert_tf.predict.work, "Predictor",
                        lambda *arguments: Tagger())
    assert run(model, write_file("a.conll", "Ann\tB-PER\n"), tmp_path / "out") == 2
    assert "a.conll: words with their tags; expected a text a line" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_alone_sets_how_many_batches_are_computed_at_once(
        model, write_file, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(bert_tf.predict.work, "Predictor", lambda *arguments: Tagger())
    monkeypatch.setattr(side_by_side, "set_threads", asked.append)
    path, out = write_file("a.conll", "Ann\tB-PER\n"), tmp_path / "out"  # refused once it is loaded
    assert run(model, path, out) == run(model, path, out, "--num_processes", "2") == 2
    with pytest.raises(UsageError, match="words with their tags"):
        bert_tf.predict(model=model, input=str(path), output_dir=str(out))
    assert asked == [cores.usable()]


def test_in_an_object_store(model, table, tmp_path, monkeypatch):
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    files.copy(table, "memory://predict/data.tsv")
    for form in ("parquet", "jsonl"):
        folder = f"memory://predict/{form}"
        assert run(model, "memory://predict/*.tsv", folder, "--format", form) == 0
        assert run(model, table, tmp_path / form, "--format", form) == 0
        for path in parts(tmp_path / form):
            with files.open_binary(f"{folder}/predictions/{path.name}") as stream:
                assert stream.read() == path.read_bytes()
        assert files.list_folder(folder) == sorted(os.listdir(tmp_path / form))
        files.remove(f"{folder}/manifest.json")  # as if it had been stopped just before
        assert run(model, "memory://predict/*.tsv", folder, "--format", form) == 0


def test_a_parquet_table_whose_columns_repeat_is_refused(model, tmp_path, capsys):
    source = tmp_path / "data.parquet"
    parquet.write_table(pa.table([["the"], ["1"], ["2"]], names=["text", "n", "n"]), source)
    assert run(model, str(source), tmp_path / "out") == 2
    assert capsys.readouterr().err.endswith(
        "data.parquet: two columns are named 'n'; expected a name each; try renaming one, or "
        "removing it\n")
    assert not (tmp_path / "out" / "predictions").exists()
