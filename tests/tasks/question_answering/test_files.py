"""Questions and answers: SQuAD's JSON, own tables, exact offsets, and what is refused."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.errors import BertTfError
from bert_tf.tasks.registry import read_task

CONTEXT = "👩‍👩‍👧 Paris is the capital.\n שלום Paris"
SQUAD = {"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": [
    {"id": "q1", "question": "Where?", "answers": [{"text": "Paris", "answer_start": 6},
                                                   {"text": "Paris", "answer_start": 34}]}]}]}]}
UNANSWERABLE = {"id": "q2", "question": "Why?", "is_impossible": True, "answers": [],
                "plausible_answers": [{"text": "Paris", "answer_start": 6}]}


def changed(**fields):
    """SQUAD with fields of its question changed, deleted where they are None."""
    data = copy.deepcopy(SQUAD)
    question = data["data"][0]["paragraphs"][0]["qas"][0]
    question.update(fields)
    for name, value in fields.items():
        if value is None:
            del question[name]
    return data


def two_questions():
    data = copy.deepcopy(SQUAD)
    data["data"][0]["paragraphs"][0]["qas"].append(UNANSWERABLE)
    return data


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("task", ["squad_v1", "squad_v2", "korquad", "span"])
def test_squad(write_file, task, name):
    path = write_file(name, "\ufeff" + json.dumps(SQUAD))
    example, = read_task(task, path)
    assert (example.id, example.question, example.context) == ("q1", "Where?", CONTEXT)
    assert example.answers == (("Paris", 6), ("Paris", 34))
    assert not example.is_impossible
    assert example.where == f"{path} data[0].paragraphs[0].qas[0] (id q1)"


def test_klue_names_its_ids_otherwise(write_file):
    example, = read_task("squad_v2", write_file("a.json", json.dumps(changed(id=None, guid="k"))))
    assert example.id == "k"


def test_a_question_without_answer(write_file):
    path = write_file("a.json", json.dumps(two_questions()))
    assert [(example.answers, example.is_impossible)
            for example in read_task("squad_v2", path)][1] == ((), True)
    for task in ("squad_v1", "korquad"):
        with pytest.raises(BertTfError, match=r"qas\[1\] \(id q2\): a question without an answer.*"
                                              "try --task squad_v2"):
            read_task(task, path)


@pytest.mark.parametrize(("task", "file", "answered", "impossible", "groups"), [
    ("squad_v2", "squad_v2/small_train.json", 1865, 2137, 11),
    ("squad_v2", "squad_v2/small_dev.json", 617, 654, 3),
    ("korquad", "korquad/KorQuAD_v1.0_dev.json", 5774, 0, 140),
])
def test_real_files(shared, task, file, answered, impossible, groups):
    path = shared / "data" / file
    examples = read_task(task, str(path))
    assert sum(bool(example.answers) for example in examples) == answered
    assert sum(example.is_impossible for example in examples) == impossible
    assert len({example.group for example in examples}) == groups
    questions = [question for article in json.loads(path.read_text("utf-8"))["data"]
                 for paragraph in article["paragraphs"] for question in paragraph["qas"]]
    assert [example.id for example in examples] == [question["id"] for question in questions]
    for example in examples:
        assert all(example.context[start:].startswith(text) for text, start in example.answers)


def test_groups(write_file):
    data = copy.deepcopy(SQUAD)
    paragraphs = data["data"][0]["paragraphs"]
    paragraphs.append({"context": "Else.", "qas": [dict(UNANSWERABLE, id="q3"), UNANSWERABLE]})
    one = [example.group for example in read_task("span", write_file("a.json", json.dumps(data)))]
    assert one[0] != one[1] == one[2]
    data["data"].append({"paragraphs": [{"context": "More.", "qas": [
        dict(UNANSWERABLE, id="q4")]}]})
    two = [example.group for example in read_task("span", write_file("b.json", json.dumps(data)))]
    assert two[0] == two[1] == two[2] != two[3]


@pytest.mark.parametrize(("data", "message"), [
    (changed(answers=[{"text": "Paris", "answer_start": 5}]),
     r"qas\[0\] \(id q1\): the answer 'Paris' is not at character 5 of the context, which "
     "holds it at 6, 34"),
    (changed(answers=[{"text": "Paris", "answer_start": -5}]), "not at character -5"),
    (changed(answers=[{"text": "Rome", "answer_start": 6}]), "the context, which does not hold it"),
    (changed(answers=[{"text": " ", "answer_start": 11}]), "empty answer"),
    (changed(answers=[{"text": "Paris"}]), "no field 'answer_start'"),
    (changed(answers=[{"text": "Paris", "answer_start": "6"}]), "'answer_start' is str; expected"),
    (changed(answers={"text": "Paris", "answer_start": 6}), "'answers' is dict; expected list"),
    (changed(is_impossible=True), "answers, though is_impossible is true"),
    (changed(is_impossible=0), "'is_impossible' is int; expected bool"),
    (changed(id=None), "no field 'id'"),
    (changed(question=None), "NoneType as question"),
    (changed(question=""), "empty question"),
    (changed(question="a\0"), "a NUL character in the question"),
    ({"data": [{"paragraphs": [{"context": "", "qas": []}]}]}, r"paragraphs\[0\]: empty context"),
    ({"data": [{"paragraphs": {}}]}, r"data\[0\]: 'paragraphs' is dict; expected list"),
    ({"version": "1.1"}, "a.json: no field 'data'"),
    ([], "a.json: list; expected an object with 'data'"),
])
def test_what_is_not_as_it_claims_is_refused(write_file, data, message):
    with pytest.raises(BertTfError, match=message):
        read_task("squad_v1", write_file("a.json", json.dumps(data)))


def test_damaged_json_is_refused_with_its_line(write_file):
    with pytest.raises(BertTfError, match="a.json line 2: invalid JSON"):
        read_task("squad_v1", write_file("a.json", '{"data":\n [}'))


def test_the_same_id_twice_is_refused(write_file):
    data = two_questions()
    data["data"][0]["paragraphs"][0]["qas"][1] = dict(UNANSWERABLE, id="q1")
    with pytest.raises(BertTfError, match=r"id 'q1' again, first in .*qas\[0\]"):
        read_task("squad_v2", write_file("a.json", json.dumps(data)))


@pytest.mark.parametrize(("file", "text", "answers"), [
    ("a.tsv", "question\tcontext\tanswer\nq\tb a b\ta\n", (("a", 2),)),
    ("a.tsv", "question\tcontext\tanswer\nq\tb a b\t\n", ()),
    ("a.tsv", "answer_start\tquestion\tcontext\tanswer\n4\tq\tb a b\tb\n", (("b", 4),)),
    ("a.csv", 'question,context,answer\nq,"b\na, b","a, b"\n', (("a, b", 2),)),
    ("a.jsonl", '{"question": "q", "context": "b a b", "answer": null}', ()),
    ("a.json", '[{"question": "q", "context": "b a b", "answer": "a"}]', (("a", 2),)),
    ("a.jsonl", '{"question": "q", "context": "b a b", "answer": "b", "answer_start": 0}',
     (("b", 0),)),
    ("a.jsonl", '{"question": "q", "context": "b a b", "answer": {"text": ["b", "a"], '
                '"answer_start": [4, 2]}}', (("b", 4), ("a", 2))),
])
def test_own_tables(write_file, file, text, answers):
    example, = read_task("span", write_file(file, text))
    assert example.answers == answers
    assert example.is_impossible == (not answers)


def test_own_columns(write_file):
    path = write_file("a.tsv", "x1\twho\tin a place\tplace\n")
    example, = read_task("span", path, {"id": 0, "text": 1, "text_b": 2, "label": 3})
    assert (example.id, example.question, example.answers) == ("x1", "who", (("place", 5),))


@pytest.mark.parametrize(("row", "message"), [
    ("q\tb a b\tb\t", "the answer 'b' occurs in the context 2 times; expected once, or a column"),
    ("q\tb a b\tc\t", "the answer 'c' occurs in the context 0 times"),
    ("q\tb a b\tb\t1", "line 2: the answer 'b' is not at character 1 .* holds it at 0, 4"),
    ("q\tb a b\tb\tx", "line 2: answer_start 'x'; expected a whole number"),
    ("\tb a b\ta\t", "line 2: empty question"),
    ("q\t \ta\t", "line 2: empty context"),
    ("q\ta b", "line 2: 2 columns; expected 4"),
])
def test_wrong_rows_are_refused_with_their_line(write_file, row, message):
    path = write_file("a.tsv", f"question\tcontext\tanswer\tanswer_start\n{row}\n")
    with pytest.raises(BertTfError, match=message):
        read_task("span", path)


@settings(deadline=None)
@given(st.data())
def test_offsets_are_exact_or_refused(tmp_path_factory, data):
    context = data.draw(st.text("ab 다👩\u0301ש", min_size=1).filter(str.strip))
    first = data.draw(st.integers(0, len(context) - 1))
    answer = context[first:data.draw(st.integers(first + 1, len(context)))]
    claimed = data.draw(st.integers(0, len(context)))
    squad = changed(answers=[{"text": answer, "answer_start": claimed}])
    squad["data"][0]["paragraphs"][0]["context"] = context
    path = tmp_path_factory.mktemp("squad") / "a.json"
    path.write_text(json.dumps(squad))
    if answer.strip() and context.startswith(answer, claimed):
        assert read_task("squad_v1", str(path))[0].answers == ((answer, claimed),)
    else:
        with pytest.raises(BertTfError, match=r"qas\[0\] \(id q1\): (the|empty) answer"):
            read_task("squad_v1", str(path))
