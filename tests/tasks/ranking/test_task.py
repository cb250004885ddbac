"""Candidates, predictions by hand, files that are read and refused."""

import json

import numpy as np
import pytest
from queries import queries, ranker
from sentiment import options

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.ranking.candidates import Candidates
from bert_tf.tasks.registry import find_task, make_type, read_task


def make(**values):
    return make_type(find_task("rank"), options(task="rank", max_seq_length=24, **values))


def test_negatives_are_those_of_the_file_or_drawn_and_never_a_positive():
    made = [QueryExample("0", "q", ("a", "b"), ("c", "d", "e")), QueryExample("1", "q", ("c",)),
            QueryExample("2", "r", ("f",)), QueryExample("3", "s", ("g",), where="line 4")]
    drawn = Candidates(made, 5)
    assert drawn.negatives(made[0], 2) == ["d", "e"]  # c answers the same query elsewhere
    assert list(drawn.lists(made[0], 1)) != list(Candidates(made, 6).lists(made[0], 1))
    assert [each[0] for each in drawn.lists(made[0], 5)] == ["a", "b"]
    for example in made[1:]:
        found = drawn.negatives(example, 3)
        assert len(set(found)) == 3 and not {*found} & (
            {"a", "b", "c"} if example.query == "q" else {*example.positives})
    assert drawn.negatives(made[3], 3) == Candidates(made, 5).negatives(made[3], 3)
    with pytest.raises(BertTfError, match="line 4: a query without negatives, and no passage"):
        Candidates(made[3:], 1).negatives(made[3], 2)


def test_a_query_s_own_text_is_no_negative():
    made = [QueryExample("0", "a", ("b",)), QueryExample("1", "b", ("a",)),
            QueryExample("2", "c", ("d",))]
    drawn = Candidates(made, 5)
    assert [{*drawn.negatives(example, 3)} for example in made] == [{"d"}, {"d"}, {"a", "b"}]


def test_what_differs_from_a_positive_in_case_or_blanks_is_not_drawn():
    made = [QueryExample("0", "who", ("Paris",)), QueryExample("1", "Who ", ("the  Seine",)),
            QueryExample("2", "c", ("paris", "The Seine", "WHO", "d"))]
    assert Candidates(made, 5).negatives(made[0], 5) == ["d"]


def test_a_query_in_another_spelling_is_the_same():
    made = [QueryExample("0", "café", ("a",)), QueryExample("1", "Cafe\u0301 ", ("b",), ("a", "c"))]
    assert Candidates(made, 5).negatives(made[1], 5) == ["c"]
    assert Candidates(made, 5).negatives(made[0], 5) == ["c"]


def test_a_query_of_which_several_pairs_are_truncated_is_one_example():
    made = [QueryExample("0", "w1", tuple(f"w{n} " * 40 for n in range(3)), ("w5",))]
    assert make().features(made, ranker(), training=True).truncated == 1


def test_predictions_and_metrics_by_hand(eager):
    kind, made = make(), queries(8)
    model = ranker()
    lines = kind.predict(model, made)
    ranks = []
    for example, line in zip(made, lines, strict=True):
        texts = [*example.positives, *example.negatives]
        scores = model.scores([example.query] * len(texts), texts)
        assert line["ranks"] == [1 + int(np.sum(scores[1:] >= scores[0]))]
        assert line["ranking"][0]["score"] == pytest.approx(scores.max(), abs=2e-6)
        assert line["candidates"] == len(texts)
        ranks += line["ranks"]
    metrics = kind.metrics(made, lines)
    assert metrics["mrr@10"] == metrics["map"] == pytest.approx(np.mean(1 / np.array(ranks)))
    # Equal scores rank nothing.
    model.head.output_weights.assign(np.zeros_like(model.head.output_weights))
    lines = make().predict(model, made)
    assert all(line["ranks"] == [line["candidates"]] for line in lines)
    assert "the same score" in kind.notes(made, lines, kind.metrics(made, lines))[0]


def test_an_order_by_chance_is_noted():
    kind = make()
    line = {"ranks": [2, 3], "candidates": 3, "ranking": [{"score": 1.0}, {"score": 0.0}]}
    assert "0.5000 is no better than 0.8333" in kind.notes([None], [line], {"mrr@10": 0.5})[0]
    assert kind.notes([None], [line], {"mrr@10": 0.9}) == []


def test_features_are_lists_of_as_many_negatives_as_requested():
    made = queries(5, negatives=4)
    features = make(negatives=2).features(made, ranker(), training=True)
    assert features.lists.shape == (5, 3) and features.rows["label_ids"].tolist() == [[1, 0, 0]] * 5
    bare = [QueryExample(each.id, each.query, each.positives) for each in made]
    features = make(negatives=3).features(bare, ranker(), training=True)
    assert features.lists.shape == (5, 4) and len(features.rows["input_word_ids"]) == 20
    assert make().features_to_predict(ranker(), bare).example.tolist() == sorted([*range(5)] * 5)


@pytest.mark.parametrize("name, text, expected", [
    ("a.tsv", "query\tpassage\tlabel\nq\ta\t1\nr\tb\t1\nq\tc\t0\nq\ta\t0\n",
     [("q", ("a",), ("c",)), ("r", ("b",), ())]),
    ("a.jsonl", '{"query": "q", "positives": ["a"], "negatives": ["b"]}',
     [("q", ("a",), ("b",))]),
    ("a.json", json.dumps({"data": [{"paragraphs": [{"context": "a", "qas": [
        {"id": "1", "question": "q", "answers": []}]}]}]}), [("q", ("a",), ())]),
])
def test_files(write_file, name, text, expected):
    assert [(each.query, each.positives, each.negatives)
            for each in read_task("rank", write_file(name, text))] == expected


@pytest.mark.parametrize("name, text, message", [
    ("a.tsv", "query\tpassage\tlabel\nq\ta\t0\nq\tb\t0\n",
     "line 2: all 2 labels of the query 'q' are 0 or below; expected a passage with a label above"),
    ("a.tsv", "query\tpassage\nq\t \n", "line 2: empty passage"),
    ("a.txt", "a line\n", "a text without a passage"),
    ("a.tsv", "query\tpassage\tlabel\nq\ta\tyes\n", "label 'yes'; expected a finite number"),
])
def test_files_that_are_refused(write_file, name, text, message):
    with pytest.raises(BertTfError, match=message):
        read_task("rank", write_file(name, text))


def test_models_that_cannot_rank():
    with pytest.raises(UsageError, match="no number to rank by.*finetune --task rank first"):
        make().check_model({"task": "classifier", "problem": "single_label"}, "runs/a")
    make().check_model({"task": "classifier", "problem": "regression"}, "runs/a")
    with pytest.raises(UsageError, match="--class_weights with --task rank"):
        make(class_weights=True)
    with pytest.raises(UsageError, match="without the signature `embed`, which takes text"):
        make().predict_served({"predict": None}, {}, queries(2))
