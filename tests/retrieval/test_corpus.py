"""Corpora in every form that is read, and what is refused."""

import gzip
import json

import pytest

from bert_tf.data.table_form import TableForm
from bert_tf.errors import BertTfError
from bert_tf.retrieval.corpus import Passage, read_corpus

SQUAD = {"data": [{"title": "River_Seine", "paragraphs": [{"context": "A", "qas": []},
                                                          {"context": "B", "qas": []}]},
                  {"paragraphs": [{"context": "C", "qas": []}]}]}


@pytest.mark.parametrize("name, text, expected", [
    ("a.tsv", "id\ttext\ttitle\nx\tone, two\tT\ny\ttwo\t\n",
     [Passage("x", "one, two", "T"), Passage("y", "two")]),
    ("a.tsv", "7\tone, two\n8\ttwo\n", [Passage("7", "one, two"), Passage("8", "two")]),
    ("a.tsv", "7\tone\tT\n", [Passage("7", "one", "T")]),
    ("a.csv", 'text\n"one, ""two"""\nthree\n', [Passage("2", 'one, "two"'), Passage("3", "three")]),
    ("a.csv", '1,"one, two"\np2,x\n', [Passage("1", "one, two"), Passage("p2", "x")]),
    ("a.jsonl", '{"_id": 5, "text": "one", "title": "T"}\n\n{"_id": "b", "text": "two"}\n',
     [Passage("5", "one", "T"), Passage("b", "two")]),
    ("a.jsonl", '{"text": "one"}\n\n{"text": "two"}\n', [Passage("1", "one"), Passage("3", "two")]),
    ("a.ndjson", '{"text": "one"}\n', [Passage("1", "one")]),
    ("a.json", '[{"text": "one"}]', [Passage("1", "one")]),
    ("a.txt", "one\n\n two\tx\n", [Passage("1", "one"), Passage("3", " two\tx")]),
    ("a.json", json.dumps(SQUAD), [Passage("0.0", "A", "River Seine"),
                                   Passage("0.1", "B", "River Seine"), Passage("1.0", "C")]),
])
@pytest.mark.parametrize("packed", [False, True])
def test_forms(tmp_path, name, text, expected, packed):
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert list(read_corpus(path)) == expected


def test_without_a_header_by_request(tmp_path):
    path = tmp_path / "a.tsv"
    without = TableForm(header=False)
    path.write_text("id\ttext\nx\tone\n")
    assert list(read_corpus(path, without)) == [Passage("id", "text"), Passage("x", "one")]
    path.write_text("x\tone\tT\twiki\n")
    with pytest.raises(BertTfError, match="a.tsv line 1: more than three columns without a header"):
        list(read_corpus(path, without))
    path.write_text("")
    with pytest.raises(BertTfError, match="no passage"):
        list(read_corpus(path, without))


def test_a_first_row_of_unknown_names_is_told(tmp_path, capsys):
    path = tmp_path / "a.tsv"
    for text, note in [
            ("7\t하나\nx\t둘\n", ""),  # as of MS MARCO
            ("제목\t내용\n하나\t둘\n", f"note: {path} line 1, the first, is read as a passage, its "
             "columns as id, text; if it is a header, give --text_column and --id_column\n")]:
        path.write_text(text)
        first = tuple(text.splitlines()[0].split("\t"))
        for _ in range(2):
            assert next(read_corpus(path)) == Passage(*first)
        assert capsys.readouterr().out == note
    (tmp_path / "a.csv").write_text("제목,내용\n하나,둘\n")
    without = TableForm(header=False)
    assert next(read_corpus(tmp_path / "a.csv", without)) == Passage("제목", "내용")
    assert list(read_corpus(tmp_path / "a.csv", columns={"text": "내용"})) == [Passage("2", "둘")]


def test_ids_of_several_files_and_what_is_searched(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\n")
    passages = list(read_corpus([tmp_path / "a.txt", tmp_path / "b.txt"]))
    assert [passage.id for passage in passages] == ["a.txt:1", "b.txt:1"]
    (tmp_path / "more").mkdir()
    paths = [str((tmp_path / "a.txt").rename(tmp_path / "more" / "b.txt")), str(tmp_path / "b.txt")]
    assert [passage.id for passage in read_corpus(paths)] == [f"{path}:1" for path in paths]
    assert Passage("1", "text", "Title").content == "Title text" and passages[0].content == "one"


def test_all_bad_rows_are_counted(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("id\ttext\na\tone\n" + "a\ttwo\nb\t\n\tx\nc\td\te\n" * 2)
    read = read_corpus(path)
    assert next(read) == Passage("a", "one")
    with pytest.raises(BertTfError) as raised:
        next(read)
    lines = str(raised.value).splitlines()
    assert lines[0] == f"{path}: 8 of 9 rows are invalid; try correcting or removing them"
    assert [line.split("; ")[0] for line in lines[1:]] == [
        f"  {path} line 3: the id 'a' a second time", f"  {path} line 4: no text",
        f"  {path} line 5: no id", f"  {path} line 6: 3 columns",
        f"  {path} line 7: the id 'a' a second time", "  and 3 more"]


def test_columns_by_the_names_that_are_given(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("doc,title,body\nx,T,one\n")
    for columns, expected in [
            ({"text": "body", "id": "doc"}, Passage("x", "one", "T")),
            ({"text": "body"}, Passage("2", "one", "T")),
            ({"text": "title", "id": "doc"}, Passage("x", "T"))]:
        assert list(read_corpus(path, columns=columns)) == [expected]


@pytest.mark.parametrize(("header", "found"), [
    ("ID,Text\n", []), ("7,text\n", [Passage("7", "text")]), ("id,a b\n", [Passage("id", "a b")])])
def test_of_columns_by_number_a_header_is_known_by_its_names(tmp_path, header, found):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}x,one\n")
    assert list(read_corpus(path, columns={"text": "1", "id": "0"})) == [
        *found, Passage("x", "one")]


@pytest.mark.parametrize("name, text, message", [
    ("a.tsv", "id\ttext\nx\tone\nx\ttwo\n", "a.tsv line 3: the id 'x' a second time"),
    ("a.tsv", "id\ttext\n\tone\n", "a.tsv line 2: no id"),
    ("a.tsv", "id\ttext\nx\t \n", "a.tsv line 2: no text"),
    ("a.tsv", "id\ttext\nx\tone\ttwo\n", "a.tsv line 2: 3 columns"),
    ("a.tsv", "pid\tpassage\tsource\tlang\nx\tone\twiki\ten\n", "no column 'text' among pid"),
    ("a.csv", "ID,Text\nx,one\n", "no column 'text' among ID, Text"),
    ("a.csv", "번호,제목,내용\n1,하나,둘\n", "no column 'text' among 번호, 제목, 내용; try "
     "--text_column and --id_column, naming a column text, or --no-header if this is a passage"),
    ("a.csv", "리뷰,평점\n정말 재밌는 영화,9\n", "no column 'text' among 리뷰, 평점; try --text"),
    ("a.csv", "제목,내용\n하나,둘\n", "no column 'text' among 제목, 내용; try --text_column"),
    ("a.tsv", "번호\t내용\n1\t둘\n2\t셋\n", "no column 'text' among 번호, 내용; try --text"),
    ("a.tsv", "id\ttitle\tbody\nx\tT\tone\n", "no column 'text' among id, title, body"),
    ("a.jsonl", '{"id": "a", "text": "x"}\n{"text": "y", "id": null}\n', "line 2: no id"),
    ("a.jsonl", '{"id": "2", "text": "x"}\n{"text": "y"}\n', "line 2: no id, unlike the rows"),
    ("a.jsonl", '{"text": "x"}\n{"_id": "1", "text": "y"}\n', "line 2: an id, unlike the rows"),
    ("a.jsonl", '{"text": 5}\n', "line 1: text is int"),
    ("a.jsonl", '{"id": 5.0, "text": "a"}\n', "line 1: id is float"),
    ("a.jsonl", '{"text": "a", "title": 5}\n', "line 1: title is int"),
    ("a.jsonl", '{"text": "a \\ud83d"}\n', "line 1: half a surrogate pair in the text"),
    ("a.jsonl", '{"id": "\\ud83d", "text": "a"}\n', "half a surrogate pair in the id"),
    ("a.jsonl", '{"passage": "a"}\n', "no field 'text'"),
    ("a.json", '{"version": 1}', "no list 'data'"),
    ("a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', r"paragraphs\[0\]: no 'context'"),
    ("a.txt", "\n\n", "no passage"),
    ("a.txt", "", "no passage"),
    ("a.tar.gz", "", "a.tar.gz is an archive .*; try unpacking it first"),
    ("a.zip", "PK\3\4", "a.zip is an archive"),
])
def test_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(BertTfError, match=message):
        list(read_corpus(tmp_path / name))
