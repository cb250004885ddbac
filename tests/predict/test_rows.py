"""What is read of the input's rows, carried along and measured, without a model."""

import datetime
import gzip
import json
import types
import unicodedata

import numpy as np
import pytest
import sklearn.metrics

from bert_tf.data.table_form import TableForm
from bert_tf.errors import BertTfError, UsageError
from bert_tf.predict.carried import Carried
from bert_tf.predict.measure import measure
from bert_tf.predict.progress import count_rows
from bert_tf.predict.rows import Rows
from bert_tf.predict.work import Work
from bert_tf.predict.writer import FORMATS, JsonLines, predicted_names
from bert_tf.tasks.classification.metrics import classification_metrics, multi_label_metrics

QUESTIONS = ["question", "context"]
NO_PREDICTOR = types.SimpleNamespace(columns=[], schema=list)


def rows_of(paths, inputs=("text",), columns=None, form=None):
    return Rows(list(map(str, paths)), list(inputs), columns or {}, form or TableForm(), 100)


def test_what_is_predicted_need_not_be_of_the_form_of_labelled_files(write_file):
    path = write_file("q.csv", "question,context\nWho?,Ann is here.\n")
    rows = rows_of([path], QUESTIONS)
    places = [(f"{path} line 2",)]
    found = [(each, [{"answer": "Ann"}]) for each in places]
    assert measure("squad_v2", False, rows, {}, found) == ({}, 0, 0)


def test_metrics_are_those_of_all_rows(write_file):
    names, random = ["bad", "fair", "good"], np.random.default_rng(0)
    gold, told = (list(random.choice(names, 200)) for _ in range(2))
    rows = Rows([write_file("a.tsv", "text\tlabel\n" + "".join(f"a\t{name}\n" for name in gold))],
                ["text"], {}, TableForm(), 300)
    (block,) = rows.blocks(bad=None)
    found = [{"label": name, "probabilities": dict.fromkeys(names)} for name in told]
    expected = classification_metrics(gold, told, names)
    assert measure("classify", False, rows, {}, [(block.places, found)]) == (expected, 200, 0)
    macro = sklearn.metrics.f1_score(gold, told, average="macro")
    assert expected == {"accuracy": sklearn.metrics.accuracy_score(gold, told), "f1": macro,
                        "mcc": sklearn.metrics.matthews_corrcoef(gold, told), "macro_f1": macro}


def test_metrics_of_several_labels_are_those_of_all_rows(tmp_path):
    names, random = ["a", "b", "c"], np.random.default_rng(0)
    gold, told = ([tuple(name for name in names if random.random() < 0.4) for _ in range(200)]
                  for _ in range(2))
    (tmp_path / "a.jsonl").write_text("".join(
        json.dumps({"text": "a", "label": labels}) + "\n" for labels in gold))
    rows = Rows([str(tmp_path / "a.jsonl")], ["text"], {}, TableForm(), 300)
    (block,) = rows.blocks(bad=None)
    found = [{"label": "", "chosen": chosen, "probabilities": dict.fromkeys(names)}
             for chosen in told]
    assert measure("classify", True, rows, {}, [(block.places, found)]) == (
        multi_label_metrics(gold, told, names), 200, 0)


def test_files_without_labels_are_passed_over(write_file):
    rows = rows_of([write_file("a.txt", "a\nb\n"), write_file("b.tsv", "text\tlabel\nc\t1\n"),
                    write_file("c.tsv", "text\nd\n"), write_file("d.tsv", "text\tlabel\ne\t0\n")])
    (block,) = rows.blocks(bad=None)
    told = {"label": "1", "probabilities": {"0": 0, "1": 1}}
    metrics, *counts = measure("classify", False, rows, {}, [(block.places, [told] * 5)])
    assert (metrics["accuracy"], counts) == (0.5, [2, 0])


@pytest.mark.parametrize(("task", "inputs", "columns", "table"), [
    ("nsmc", ["text"], {"text": "리뷰", "label": "평가"}, "리뷰\t평가\n가\t0\n나\t1\n"),
    ("nsmc", ["text"], {}, "text\tlabel\n가\t0\n나\t1\n"),
    ("klue_nli", ["text_a", "text_b"], {"text": "a", "text_b": "b"},
     "a\tb\tgold_label\n가\t나\tneutral\n나\t가\tentailment\n")])
def test_files_for_a_named_task_may_have_other_columns(write_file, task, inputs, columns, table):
    rows = rows_of([write_file("a.tsv", table)], inputs, columns)
    (block,) = rows.blocks(bad=None)
    (_, first), (_, second) = [line.rsplit("\t", 1) for line in table.splitlines()[1:]]
    found = [{"label": first, "probabilities": {first: 1, second: 0}}] * 2
    metrics, *counts = measure(task, False, rows, columns, [(block.places, found)])
    assert (metrics["accuracy"], counts) == (0.5, [2, 0])


@pytest.mark.parametrize("task", ["conll", "klue_ner", "squad_v2"])
def test_a_table_is_not_read_as_tagged_words_or_squad(monkeypatch, task):
    """Else all of it would be one sentence."""
    monkeypatch.setattr("bert_tf.predict.measure._labelled", None)
    assert measure(task, False, None, {}, []) == ({}, 0, 0)


def test_columns_are_found_composed_or_not_and_by_number(write_file):
    text, number = (unicodedata.normalize("NFD", name) for name in ("본문", "번호"))
    for name, content in (("a.csv", f"{number},{text}\n7,hi\n"),
                          ("a.jsonl", json.dumps({number: 7, text: "hi"}))):
        for asked in ("번호", number, *(("0",) if name == "a.csv" else ())):
            rows = rows_of([write_file(name, content)], columns={"text": "본문", "id": asked})
            (block,) = rows.blocks(bad=None)
            assert (block.texts, block.ids(rows.id)) == ({"text": ["hi"]}, ["7"])


def test_a_row_without_an_id_is_known_by_its_place(write_file):
    for name, content in (
            ("a.jsonl", '{"id": 1, "text": "a"}\n{"text": "b"}\n{"id": null, "text": "c"}'),
            ("a.csv", "id,text\n,b\n,c\n1,a\n")):
        rows = rows_of([write_file(name, content)])
        (block,) = rows.blocks(bad=None)
        assert sorted(block.ids(rows.id)) == ["1", f"{name} line 2", f"{name} line 3"]


def test_an_id_of_beir_is_one_where_no_file_has_another(tmp_path):
    for name, ids in (("a", {"_id": "d7"}), ("b", {"_id": "d8", "id": 3})):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": "a", **ids}) + "\n")
    for names, expected in (("a", ["d7"]), ("b", ["3"]), ("ab", ["a.jsonl line 1", "3"])):
        rows = rows_of([tmp_path / f"{name}.jsonl" for name in names])
        (block,) = rows.blocks(bad=None)
        assert block.ids(rows.id) == expected


def test_rows_with_a_label_that_the_model_does_not_know_are_counted(write_file):
    rows = rows_of([write_file("a.tsv", "text\tlabel\na\tgood\nb\tnew\nc\t\n")])
    (block,) = rows.blocks(bad=None)
    told = {"label": "good", "probabilities": {"bad": 0, "good": 1}}
    metrics, *counts = measure("classify", False, rows, {}, [(block.places, [told] * 3)])
    assert (metrics["accuracy"], counts) == (1, [1, 1])


def test_so_they_are_where_the_labels_are_those_of_the_task(write_file):
    """A row without a label is none of them."""
    rows = rows_of([write_file("a.tsv", "text\tlabel\na\t1\nb\t2\nc\t\n")])
    (block,) = rows.blocks(bad=None)
    told = {"label": "1", "probabilities": {"0": 0, "1": 1}}
    metrics, *counts = measure("polarity", False, rows, {}, [(block.places, [told] * 3)])
    assert (metrics["accuracy"], counts) == (1, [1, 1])


def test_answers_are_measured_whatever_their_ids(tmp_path):
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for path, answer in zip(paths, ("Ann", "Bob"), strict=True):
        path.write_text(json.dumps({"question": "Who?", "context": f"{answer} is here.",
                                    "answer": answer, "id": "1"}) + "\n")
    rows = rows_of(paths, QUESTIONS)
    places = [f"{path} line 1" for path in paths]
    for answers, expected in ((["Ann", "Bob"], 100), (["Bob", "Bob"], 50), (["Bob", "Ann"], 0)):
        metrics, labelled, _ = measure("span", False, rows, {}, [
            (places, [{"answer": answer} for answer in answers])])
        assert (metrics["exact_match"], labelled) == (expected, 2)


def test_columns_without_names_are_carried_along(write_file):
    path = write_file("a.tsv", "one\t1\tthe film\ntwo\t0\tthe end\n")
    rows = rows_of([path], columns={"text": "2", "id": "0"})
    (block,) = rows.blocks(bad=None)
    assert block.texts == {"text": ["the film", "the end"]}
    assert block.columns == {"0": ["one", "two"], "1": ["1", "0"], "2": ["the film", "the end"]}
    assert block.ids(rows.id) == ["one", "two"]


def test_numbers_count_after_a_header_that_the_form_states(write_file):
    path = write_file("a.csv", "stars,review\n5,the film\n1,the end\n")
    columns = {"text": "1", "label": "0"}
    rows = rows_of([path], columns=columns, form=TableForm(header=True))
    (block,) = rows.blocks(bad=None)
    assert block.texts == {"text": ["the film", "the end"]}
    assert block.columns == {"id": ["2", "3"], "stars": ["5", "1"], "review": block.texts["text"]}
    predicted = [(block.places, [{"label": "5", "probabilities": {"1": 0, "5": 1}}] * 2)]
    metrics, labelled, _ = measure("classify", False, rows, columns, predicted)
    assert (metrics["accuracy"], labelled) == (0.5, 2)


@pytest.mark.parametrize("column, begin", [("0", ""), ("review", "review;price, EUR\n")])
def test_the_delimiter_is_that_of_all_rows(write_file, column, begin):
    path = write_file("a.csv", begin + "the film, at last;5\nthe end;1\nfine;5\n")
    (block,) = rows_of([path], columns={"text": column}).blocks(bad=None)
    assert block.texts == {"text": ["the film, at last", "the end", "fine"]}


def test_several_columns_without_a_name_in_the_header_have_their_numbers(write_file):
    path = write_file("a.csv", ",text,,\n0,the film,,\n1,the end,x,\n")
    (block,) = rows_of([path]).blocks(bad=None)
    assert block.columns == {"id": ["2", "3"], "0": ["0", "1"], "text": ["the film", "the end"],
                             "2": ["", "x"], "3": ["", ""]}


def test_columns_after_a_name_of_several_lines_are_carried_along(write_file):
    path = write_file("a.csv", 'text,"stars\n(1 to 5)",label\nthe film,2,1\n')
    (block,) = rows_of([path]).blocks(bad=None)
    assert block.columns == {"id": ["3"], "text": ["the film"], "stars\n(1 to 5)": ["2"],
                             "label": ["1"]}


def test_a_header_that_is_no_csv_is_named(write_file):
    with pytest.raises(BertTfError, match="line 1: not CSV"):
        rows_of([write_file("a.csv", "text,label\rthe film,1\n")])


def test_a_field_without_a_name_is_one_of_many(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"": 0, "text": "the film", "of": {"a": 1}}) + "\n")
    (block,) = rows_of([path]).blocks(bad=None)
    assert block.columns == {"id": ["1"], "": [0], "text": ["the film"], "of": [{"a": 1}]}


def test_ids_tell_files_of_one_name_apart(tmp_path):
    paths = [tmp_path / folder / "data.txt" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("the film\n")
    (block,) = rows_of(paths).blocks(bad=None)
    assert block.columns["id"] == [f"{path}:1" for path in paths]


def test_what_json_has_no_type_for(tmp_path):
    pa, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    table = pa.table({"text": ["the film"], "key": [b"\xff\0"], "inner": [[b"a"]],
                      "day": [datetime.date(2020, 1, 2)]})
    parquet.write_table(table, tmp_path / "a.parquet")
    rows = rows_of([tmp_path / "a.parquet"])
    (block,) = rows.blocks(bad=None)
    path = str(tmp_path / "out.jsonl")
    JsonLines(rows, NO_PREDICTOR).write(path, block, {})
    with open(path) as stream:
        assert json.loads(stream.read()) == {
            "id": "1", "text": "the film", "key": "/wA=", "inner": ["YQ=="], "day": "2020-01-02"}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_nested_too_deeply_is_a_bad_row(tmp_path, form):
    path, told = tmp_path / "a.jsonl", []
    path.write_text("".join(json.dumps({"text": "a", name: nested(depth)}) + "\n"
                            for name, depth in (("v", 200), ("v", 201), ("deep", 700))))
    rows = Rows([str(path)], ["text"], {}, TableForm(), 100, others=form == "jsonl")
    (block,) = rows.blocks(lambda where, row: told.append(str(row)))
    assert told == [f"{path} line {line}: lists or objects nested too deeply; expected 200 levels"
                    for line in (2, 3)]
    FORMATS[form](rows, NO_PREDICTOR).write(
        str(tmp_path / "out"), Carried(rows).convert(block, None) if form == "parquet" else block,
        {})
    if form == "jsonl":
        assert json.loads((tmp_path / "out").read_text())["v"] == nested(200)


def test_fields_that_first_objects_lack_are_in_json_lines(tmp_path):
    """Each in its own row, whatever else is in the shard."""
    lines = [*['{"text": "a"}'] * 1000, '{"text": "b", "late": 1, "id": "mine"}',
             '{"text": "c", "score": 2, "late": null, "id": null}', '{"text": "d"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    rows = Rows([str(tmp_path / "a.jsonl")], ["text"], {}, TableForm(), 1000, others=True)
    first, second = rows.blocks(bad=None)
    assert first.late == [{}] * 1000
    path = tmp_path / "out.jsonl"
    JsonLines(rows, types.SimpleNamespace(columns=["score"])).write(
        str(path), second, {"score": [0.5] * 3})
    assert list(map(json.loads, path.read_text().splitlines())) == [
        {"id": "mine", "text": "b", "score": 0.5, "late": 1},
        {"id": "1002", "text": "c", "score": 0.5, "late": None},
        {"id": "1003", "text": "d", "score": 0.5}]


def test_numbers_that_json_lacks_are_null(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "x": NaN, "of": [{"y": -Infinity}, 1.5]}\n')
    rows = rows_of([tmp_path / "a.jsonl"])
    (block,) = rows.blocks(bad=None)
    path = tmp_path / "out.jsonl"
    JsonLines(rows, types.SimpleNamespace(columns=["vector"])).write(
        str(path), block, {"vector": [np.array([np.nan, 2], np.float32)]})
    assert json.loads(path.read_text(), parse_constant=pytest.fail) == {
        "id": "1", "text": "a", "x": None, "of": [{"y": None}, 1.5], "vector": [None, 2]}


def test_a_name_in_capitals_is_the_same(write_file):
    rows = rows_of([write_file("a.tsv", "text\tLabel\na\t1\n")])
    assert predicted_names(rows, ["label", "score"]) == {
        "label": "predicted_label", "score": "score"}
    rows = rows_of([write_file("b.tsv", "text\tLabel\tpredicted_LABEL\na\t1\t1\n")])
    with pytest.raises(UsageError, match="the columns Label and predicted_LABEL; expected at most"):
        predicted_names(rows, ["label"])


def test_vectors_and_bytes_end_a_block(tmp_path, monkeypatch):
    pa, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    monkeypatch.setattr("bert_tf.predict.rows._BLOCK_CHARACTERS", 1000)
    path = str(tmp_path / "a.parquet")
    for value in (b"a" * 600, [0.5] * 30):
        parquet.write_table(pa.table({"text": ["a"] * 6, "value": [value] * 6}), path)
        assert [len(block.places) for block in rows_of([path]).blocks(bad=None)] == [2, 2, 2]


def test_shards_sort_as_their_rows(write_file):
    rows = rows_of([write_file("a.tsv", "text\na\n")])
    work = Work(types.SimpleNamespace(output_dir="out"), rows, JsonLines)
    paths = list(map(work.shard, (0, 9, 99_999, 100_000, 999_999, 1_000_000)))
    assert paths == sorted(paths) and paths[1].endswith("part-00009.jsonl")


def test_rows_of_a_truncated_file_are_not_counted(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text\nthe film\n" * 1000))
    whole = rows_of([path])
    assert count_rows(whole.sources) == 1999
    path.write_bytes(path.read_bytes()[:-20])
    assert count_rows(whole.sources) is None


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_dots_in_names_of_fields(tmp_path, form):
    pa, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    row = {"text": "the film", "probabilities": {"4.5": 0.25, "comp.graphics": 0.75},
           "of": {"a": 1}, "of.a": 2}
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps(row) + "\n")
    rows = rows_of([path])
    (block,) = rows.blocks(bad=None)
    assert block.columns == {"id": ["1"], **{name: [value] for name, value in row.items()}}
    assert len(Carried(rows).convert(block, bad=None).places) == 1


def test_rows_that_are_no_objects_are_bad_wherever_they_stand(tmp_path):
    path, told = tmp_path / "a.jsonl", []
    path.write_text('"the film"\n' * 1000 + '{"text": "the film"}\n')
    rows = Rows([str(path)], ["text"], {}, TableForm(), 2000)
    (block,) = rows.blocks(lambda where, row: told.append(str(row)))
    assert len(told) == 1000 and "line 1: str; expected an object" in told[0]
    assert block.columns == {"id": ["1001"], "text": ["the film"]}


def test_a_header_of_another_encoding_is_told(tmp_path):
    (tmp_path / "a.csv").write_bytes("리뷰,label\n재미있다,1\n".encode("cp949"))
    with pytest.raises(BertTfError, match="a.csv line 1: byte 0xb8 in the header is not UTF-8, but "
                                          "may be CP949; try --encoding CP949"):
        rows_of([tmp_path / "a.csv"], columns={"text": "리뷰"})
