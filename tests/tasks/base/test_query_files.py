"""Files of queries and texts that match them: every form, and what is refused."""

import json

import pytest

from bert_tf.data.table_form import TableForm
from bert_tf.data.tables import BadRow, read_rows
from bert_tf.errors import UsageError
from bert_tf.tasks.base import query_files
from bert_tf.tasks.base.query_files import find_columns, read_queries


def read(path, *arguments):
    return [(each.query, each.positives, each.negatives, each.scores)
            for each in read_queries(path, *arguments)]


PAIR = [("a", ("b",), (), None), ("c", ("d",), (), None)]
TRIPLET = [("a", ("b",), ("c",), None)]


@pytest.mark.parametrize("name, text, expected", [
    ("a.tsv", "query\tpositive\na\tb\nc\td\n", PAIR),
    ("a.csv", "anchor,passage\na,b\nc,d\n", PAIR),
    ("a.csv", "question;answer\na;b\nc;d\n", PAIR),
    ("a.jsonl", '{"text_a": "a", "text_b": "b"}\n{"text_a": "c", "text_b": "d"}\n', PAIR),
    ("a.txt", "query\tpositive\na\tb\nc\td\n", PAIR),
    ("a.tsv", "anchor\tpositive\tnegative\na\tb\tc\n", TRIPLET),
    ("a.tsv", "query\tpositive\tnegative_1\tnegative_2\na\tb\tc\t\n", TRIPLET),
    ("a.csv", "query,positive,negative\na,b,\nc,d,\n", PAIR),
    ("a.jsonl", '{"query": "a", "pos": ["b"], "neg": ["c"]}', TRIPLET),
    ("a.csv", 'query,positive,negatives\na,b,"[""c""]"\n', TRIPLET),
    ("a.jsonl", '{"query": "a", "positive": "b", "negatives": ["c", "d"], "scores": [3, 2, 1]}',
     [("a", ("b",), ("c", "d"), (3.0, 2.0, 1.0))]),
    ("a.tsv", "query\tpositive\tnegative\tmargin\na\tb\tc\t2.5\n",
     [("a", ("b",), ("c",), (2.5, 0.0))]),
    ("a.jsonl", '{"query": "a", "positive": "b", "negatives": ["c", "c", "d"], '
                '"scores": [3, 2, 2, 1]}', [("a", ("b",), ("c", "d"), (3.0, 2.0, 1.0))]),
    ("a.tsv", "sentence1\tsentence2\tscore\na\tb\t4.5\n", [("a", ("b",), (), (4.5,))]),
    ("a.json", '[{"sentence1": "a", "sentence2": "b", "labels": {"real-label": 4.5}}]',
     [("a", ("b",), (), (4.5,))]),
    ("a.json", json.dumps([
        {"premise": "a", "hypothesis": text, "gold_label": label, "label2": "x"}
        for text, label in [("c", "contradiction"), ("n", "neutral"), ("b", "entailment")]]),
     TRIPLET),
    ("a.tsv", "Quality\t#1 String\t#2 String\n1\ta\tb\n0\tx\ty\n1\tc\td\n", PAIR),
    ("a.tsv", "question\tsentence\tlabel\na\tb\tentailment\nc\te\tnot_entailment\nc\td\t"
              "entailment\n", PAIR),
    ("a.jsonl", '{"query": "a", "positive": "b", "negative": "c", "label": "entailment"}', TRIPLET),
    ("a.txt", "a\n\nb\tc\n", [("a", (), (), None), ("b\tc", (), (), None)]),
    ("a.csv", "text,label\na,1\n", [("a", (), (), None)]),
    ("a.json", json.dumps({"data": [{"paragraphs": [{"context": "b", "qas": [
        {"id": "1", "question": "a", "answers": []},
        {"id": "2", "question": "no", "is_impossible": True}]}]}]}), [("a", ("b",), (), None)]),
])
def test_forms(write_file, name, text, expected):
    assert read(write_file(name, text)) == expected


def test_rows_of_one_query_have_ids_of_their_own(write_file):
    path = write_file("a.tsv", "qid\tquery\tpositive\nq1\ta\tb\nq1\ta\tc\nq2\td\te\nq2\tf\tg\n")
    assert [each.id for each in read_queries(path)] == ["q1", "q1.2", "q2", "q2"]
    dotted = write_file("b.tsv", "qid\tquery\tpositive\n1\ta\tb\n1\ta\tc\n1.2\td\te\n"
                                 "1\ta\tf\n1.2\td\tg\n")
    assert [each.id for each in read_queries(dotted)] == ["1", "1.3", "1.2", "1.4", "1.2.2"]


def test_a_file_with_ids_is_read_once(write_file, monkeypatch):
    """What is in it says which ids are taken."""
    seen = []
    monkeypatch.setattr(query_files, "read_rows", lambda *arguments: (
        seen.append(row) or row for row in read_rows(*arguments)))
    path = write_file("a.tsv", "qid\tquery\tpositive\nq1\ta\tb\nq1\ta\tc\nq1.2\td\te\n")
    assert [each.id for each in read_queries(path)] == ["q1", "q1.3", "q1.2"]
    assert len(seen) == 3


def test_ids_that_come_again_in_a_column_that_was_found(write_file):
    """As in KorSTS, whose ids begin anew with every part of it."""
    path = write_file("a.tsv", "genre\tid\tscore\tsentence1\tsentence2\nnews\t7\t1\ta\tb\n"
                               "forum\t7\t2\tc\td\n")
    assert [each.id for each in read_queries(path)] == ["7", "7.2"]
    assert [each.id for each in read_queries(path, {"id": "id"})] == ["7", "7"]  # as asked for
    judged = write_file("b.jsonl", "".join(json.dumps(
        {"id": 7, "premise": text, "hypothesis": "x", "label": "entailment"}) for text in "ab"
        ).replace("}{", "}\n{"))
    assert [each.id for each in read_queries(judged)] == ["7", "7.2"]


def test_columns_by_number_and_by_name(write_file):
    bare = write_file("a.tsv", "a\tb\tc\n")
    assert read(bare, None, TableForm(header=False)) == TRIPLET
    assert read(bare, {"text": "0", "text_b": "1"}) == [("a", ("b",), (), None)]
    named = write_file("b.csv", "left,right,gold\na,b,2\n")
    assert read(named, {"text": "left", "text_b": "right", "label": "gold"}) == [
        ("a", ("b",), (), (2.0,))]
    assert find_columns(["query", "positive", "id"]).id == "id"


@pytest.mark.parametrize("name, text, message", [
    ("a.tsv", "query\tpositive\na\t \n", "line 2: empty positive"),
    ("a.jsonl", '{"query": "a", "positives": []}', "line 1: no positives"),
    ("a.tsv", "query\tpositive\tnegative\na\tb\tb\n", "is a positive and a negative"),
    ("a.tsv", "query\tpositive\tnegative\tmargin\na\tb\t\t1\n", "line 2: empty negative"),
    ("a.tsv", "query\tpositive\tscore\na\tb\tmuch\n", "score 'much'; expected a finite number"),
    ("a.jsonl", '{"query": "a", "positive": "b", "negatives": ["c"], "scores": [1, 2, 3]}',
     "3 scores of 2 texts"),
    ("a.csv", 'query,positive,negatives\na,b,"[""c"\n', "no JSON list"),
    ("a.tsv", "premise\thypothesis\tlabel\na\tb\t0\n", "label '0'; expected one of entailment"),
    ("a.jsonl", '{"query": "a", "positive": 3}', "int as positive; expected a string"),
    ("a.jsonl", '["a", "b"]\n', "line 1: list; expected an object with its fields"),
    ("a.jsonl", "a,b\n", "line 1: invalid JSON"),
])
def test_rows_that_are_refused(write_file, name, text, message):
    (row,) = read_queries(write_file(name, text))
    assert isinstance(row, BadRow) and message in str(row)


def test_a_table_without_queries_is_refused(write_file):
    with pytest.raises(UsageError, match="no column of queries among left, right.*--text_column"):
        read_queries(write_file("a.csv", "left,right\na,b\n"))


def test_a_column_of_ids_that_is_not_there_is_named(write_file):
    path = write_file("a.csv", "query,positive,number\na,b,7\n")
    (example,) = read_queries(path, {"id": "number"})
    assert example.id == "7"
    with pytest.raises(UsageError, match="no column 'numbr'"):
        list(read_queries(path, {"id": "numbr"}))


def test_real_files(shared):
    data = shared / "data"
    nli = list(read_queries(data / "klue" / "nli_a.json"))
    assert len(nli) == sum(len(each.positives) for each in nli) == 799
    assert sum(len(each.negatives) for each in nli) == 799
    sts = list(read_queries(data / "klue" / "sts_a.json"))
    assert len(sts) == 415 and all(each.is_labelled_pair for each in sts)
    assert sts[0].id == "klue-sts-v1_dev_00000" and abs(sts[0].scores[0] - 4.857142857) < 1e-6
    korquad = list(read_queries(data / "korquad" / "KorQuAD_v1.0_dev.json"))
    assert len(korquad) == 5774 and len({each.group for each in korquad}) == 140
    mrpc = list(read_queries(data / "mrpc" / "msr_paraphrase_train.txt"))
    assert sum(len(each.positives) for each in mrpc) == 2753
    squad = list(read_queries(data / "squad_v2" / "small_dev.json"))
    assert len(squad) == 617 and all(len(each.positives) == 1 for each in squad)
