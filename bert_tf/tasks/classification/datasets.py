"""Tasks of texts and pairs: GLUE, KLUE, NSMC, and custom tables."""

import dataclasses

from bert_tf.tasks.base.text_files import SEPARATOR, Columns, read_texts
from bert_tf.tasks.task import Task

_ENTAILMENT = ("entailment", "not_entailment")
_F1 = ("f1", "accuracy")
_CORRELATIONS = ("spearman", "pearson")
_SIMILARITY = {"problem": "regression", "labels": ("similarity",), "limits": (0, 5),
               "metrics": _CORRELATIONS}


def _published(name, columns, labels=("0", "1"), metrics=("accuracy",), problem="single_label",
               limits=None, **further):
    """Return a task whose tables have the given columns, unless a reader names others."""
    def read(path, others, form):
        here = dataclasses.replace(columns, **others)
        if form.header is None:
            form = dataclasses.replace(form, header=not here.text.isdecimal())
        return read_texts(path, here, problem, None if problem == "regression" else labels,
                          limits, form=form)

    return Task(name, "classification", read, metrics, (metrics[0], "max"), labels, problem,
                pair=columns.text_b is not None,
                text_columns=tuple(filter(None, (columns.text, columns.text_b))), **further)


def _own(name, problem, columns, **further):
    """Return a task of custom tables; for labels, also the one with several labels a text."""
    def read(path, columns, form):
        columns = dict(columns)
        separator = columns.pop("separator", SEPARATOR)
        return read_texts(path, Columns(**columns), problem, separator=separator, form=form)

    several = problem == "single_label" and _own(
        name, "multi_label", columns, metrics=("f1", "macro_f1", "accuracy"),
        monitor=("f1", "max"), pair=further.get("pair", False))
    return Task(name, "classification", read, problem=problem, columns=columns,
                optional_columns=("text_b", "id", "separator"), several=several or None, **further)


TASKS = (
    # GLUE (Wang et al. 2019), as distributed. CoLA has no header: source, label, mark, sentence.
    _published("cola", Columns("3", "1"), metrics=("mcc", "accuracy")),
    _published("mrpc", Columns("#1 String", "Quality", "#2 String"), metrics=_F1, dev_last=True),
    _published("sst2", Columns("sentence", "label")),
    _published("stsb", Columns("sentence1", "score", "sentence2", "index"), **_SIMILARITY),
    _published("qqp", Columns("question1", "is_duplicate", "question2", "id"), metrics=_F1,
               dirty=True),
    _published("mnli", Columns("sentence1", "gold_label", "sentence2", "index", "promptID"),
               ("contradiction", "entailment", "neutral")),
    _published("qnli", Columns("question", "label", "sentence", "index"), _ENTAILMENT),
    _published("rte", Columns("sentence1", "label", "sentence2", "index"), _ENTAILMENT),
    _published("wnli", Columns("sentence1", "label", "sentence2", "index")),
    _published("nsmc", Columns("document", "label", id="id"), dirty=True),
    _published("polarity", Columns("text", "label")),
    # KLUE (Park et al. 2021); the premise of one pair is that of two more.
    _published("klue_nli", Columns("premise", "gold_label", "hypothesis", "guid", "premise"),
               ("entailment", "contradiction", "neutral")),
    _published("klue_sts", Columns("sentence1", "labels.real-label", "sentence2", "guid"),
               **_SIMILARITY),
    # Custom tables.
    _own("classify", "single_label", {"text": "text", "label": "label"}),
    _own("pair", "single_label", {"text": "text_a", "text_b": "text_b", "label": "label"},
         pair=True),
    _own("regress", "regression", {"text": "text", "label": "label"}, labels=("value",),
         metrics=_CORRELATIONS, monitor=("spearman", "max")),
)
