"""The table of tasks, and the checks over a whole file."""

import subprocess
import sys

import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.tasks.base.examples import TextExample
from bert_tf.tasks.question_answering.examples import SpanExample
from bert_tf.tasks.registry import find_task, read_task, tasks
from bert_tf.tasks.token_classification.examples import TagExample

# What a row of GLUE's or the task's own table of results states.
MONITORS = {
    "cola": "mcc", "mrpc": "f1", "sst2": "accuracy", "stsb": "spearman", "qqp": "f1",
    "mnli": "accuracy", "qnli": "accuracy", "rte": "accuracy", "wnli": "accuracy",
    "nsmc": "accuracy", "polarity": "accuracy", "squad_v1": "f1", "squad_v2": "f1",
    "korquad": "f1", "conll": "f1", "klue_ner": "f1", "klue_nli": "accuracy",
    "klue_sts": "spearman", "classify": "accuracy", "pair": "accuracy", "regress": "spearman",
    "tag": "f1", "span": "f1",
    "rank": "mrr@10", "embed": "mrr@10", "sparse": "mrr@10", "multi_vector": "mrr@10"}


def test_monitors():
    assert {name: entry.monitor for name, entry in tasks().items()} == {
        name: (metric, "max") for name, metric in MONITORS.items()}
    for name, entry in tasks().items():
        assert entry.name == name
        assert entry.monitor[0] in entry.metrics


@pytest.mark.parametrize("name, row", [
    ("classify", "text\tlabel\nfine\tgood\n"), ("tag", "text\ttags\nAnn ran\tB-P O\n"),
    ("span", "question\tcontext\tanswer\nWho?\tAnn ran.\tAnn\n")])
def test_a_path_object_is_a_path(name, row, tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text(row)
    assert read_task(name, path) == read_task(name, str(path))
    with pytest.raises(BertTfError, match="missing.tsv"):
        read_task(name, tmp_path / "missing.tsv")


def test_official_labels():
    assert find_task("mnli").labels == ("contradiction", "entailment", "neutral")
    assert find_task("klue_nli").labels == ("entailment", "contradiction", "neutral")
    assert find_task("mrpc").labels == ("0", "1")
    assert find_task("rte").labels == ("entailment", "not_entailment")
    assert find_task("stsb").labels == ("similarity",)
    assert find_task("klue_ner").labels[:3] == ("B-PS", "I-PS", "B-LC")
    assert find_task("conll").labels is find_task("classify").labels is None


def test_several_labels_a_text():
    several = find_task("pair", multi_label=True)
    assert (several.problem, several.monitor, several.pair) == ("multi_label", ("f1", "max"), True)
    assert several.monitor[0] in several.metrics
    for name in ("cola", "regress", "tag"):
        with pytest.raises(UsageError, match=f"several labels a text with task='{name}'"):
            find_task(name, multi_label=True)


def test_a_column_that_is_missing_is_told_with_its_flag(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("review,stars\nfine,5\n")
    with pytest.raises(UsageError, match="'text' among review, stars; try --text_column$"):
        read_task("classify", str(path))
    with pytest.raises(UsageError, match="'sentence' among review, stars; try --task classify"):
        read_task("sst2", str(path))


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="task='squad2' is unknown.*try task='squad_v2'"):
        find_task("squad2")


@pytest.mark.parametrize(("name", "text", "kind"), [
    ("sst2", "sentence\tlabel\na\t1\n", TextExample),
    ("conll", "a O\n", TagExample),
    ("span", "question\tcontext\tanswer\nq\ta b\tb\n", SpanExample),
])
def test_kinds_of_examples(write_file, name, text, kind):
    example, = read_task(name, write_file("a.tsv", text))
    assert type(example) is kind


@pytest.mark.parametrize("name", tasks())
@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_a_file_without_examples_is_refused(write_file, name, text):
    form = ".json" if name.startswith(("squad", "korquad", "span", "klue_n", "klue_s")) \
        and name != "klue_ner" else ".tsv"
    if form == ".json":
        text = '{"data": []}' if name in ("squad_v1", "squad_v2", "korquad", "span") else "[]"
    path = write_file("a" + form, text)
    with pytest.raises(BertTfError, match=f"a{form}: no examples; expected examples of {name}"):
        read_task(name, path)


def test_an_id_twice_is_refused_with_both_places(write_file):
    path = write_file("a.csv", "key,text,label\n7,a,x\n8,b,x\n7,a,x\n")
    with pytest.raises(BertTfError, match=f"{path} line 4: id '7' again, first in {path} line 2"):
        read_task("classify", path, {"id": "key"})


def test_columns_that_do_not_suit_the_task_are_refused(write_file):
    path = write_file("a.tsv", "text\tlabel\na\tx\n")
    with pytest.raises(UsageError, match="columns for task='sst2', whose files have fixed columns"):
        read_task("sst2", path, {"text": "text"})
    with pytest.raises(UsageError, match="columns='txt' is unknown.*try columns='text'"):
        read_task("classify", path, {"txt": "text"})
    with pytest.raises(UsageError, match="columns='text_b' is unknown"):
        read_task("tag", path, {"text_b": "text"})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BertTfError, match=r"cannot read .*nowhere.tsv: no such file"):
        read_task("cola", str(tmp_path / "nowhere.tsv"))


def test_import_is_light():
    code = ("import sys, bert_tf.tasks.registry, bert_tf.tasks.base.split;"
            "sys.exit(' '.join({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False).stderr.strip() == ""
