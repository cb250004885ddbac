"""The downstream tasks by name: their files, labels and metrics."""

import collections.abc
import dataclasses

from bert_tf.data import span_files, tag_files
from bert_tf.data.tables import NoColumn
from bert_tf.data.text_files import SEPARATOR, Columns, read_texts
from bert_tf.errors import BertTfError, UsageError, check_choice, explain


@dataclasses.dataclass(frozen=True)
class Task:
    """What is to be learned from a file of examples.

    Attributes:
        name: as in `TASKS`.
        kind: `text`, `span` or `tag`.
        read: `(path, columns) -> list` of examples of that kind, see `read_task`.
        problem: of a text: `single_label`, `multi_label` or `regression`.
        labels: the official names in their official order (of a regression: what is
            measured); None where the training file says.
        metrics: those published for the task.
        monitor: `(metric, "max" or "min")` by which models are compared.
        pair: whether examples are pairs of texts.
        unanswerable: whether a question may have no answer.
        unit: what a tag is of, `word` or `character`.
        dev_last: whether the share held out is the end of the file, as the published results of
            the task have it.
        columns: where the user's own table has what, unless told otherwise; None for the files
            of a named task, which have names of their own.
    """

    name: str
    kind: str
    read: collections.abc.Callable
    problem: str | None = None
    labels: tuple[str, ...] | None = None
    metrics: tuple[str, ...] = ("accuracy",)
    monitor: tuple[str, str] = ("accuracy", "max")
    pair: bool = False
    unanswerable: bool = False
    unit: str = "word"
    dev_last: bool = False
    columns: dict | None = None


def _text(name, columns, labels=("0", "1"), metrics=("accuracy",), problem="single_label",
          limits=None, dirty=False, **further):
    """A task of texts, in tables that have the columns given."""
    def read(path, _):
        return read_texts(path, columns, problem, None if problem == "regression" else labels,
                          limits, dirty)

    return Task(name, "text", read, problem, labels, metrics, (metrics[0], "max"),
                pair=columns.text_b is not None, **further)


def _own_texts(name, problem, columns, **further):
    """A task of texts in the user's own table."""
    def read(path, columns):
        columns = dict(columns)
        separator = columns.pop("separator", SEPARATOR)
        return read_texts(path, Columns(**columns), problem, separator=separator)

    return Task(name, "text", read, problem, columns=columns, **further)


_ENTAILMENT = ("entailment", "not_entailment")
_F1 = ("f1", "accuracy")
_SIMILARITY = {"problem": "regression", "labels": ("similarity",), "limits": (0, 5),
               "metrics": ("spearman", "pearson")}
_SPAN = {"kind": "span", "metrics": ("f1", "exact_match"), "monitor": ("f1", "max")}
_TAG = {"kind": "tag", "metrics": ("f1", "precision", "recall", "accuracy"),
        "monitor": ("f1", "max")}

TASKS = {task.name: task for task in (
    # GLUE (Wang et al. 2019), as distributed. CoLA has no header: source, label, mark, sentence.
    _text("cola", Columns("3", "1"), metrics=("mcc", "accuracy")),
    _text("mrpc", Columns("#1 String", "Quality", "#2 String"), metrics=_F1, dev_last=True),
    _text("sst2", Columns("sentence", "label")),
    _text("stsb", Columns("sentence1", "score", "sentence2", "index"), **_SIMILARITY),
    _text("qqp", Columns("question1", "is_duplicate", "question2", "id"), metrics=_F1,
          dirty=True),
    _text("mnli", Columns("sentence1", "gold_label", "sentence2", "index", "promptID"),
          ("contradiction", "entailment", "neutral")),
    _text("qnli", Columns("question", "label", "sentence", "index"), _ENTAILMENT),
    _text("rte", Columns("sentence1", "label", "sentence2", "index"), _ENTAILMENT),
    _text("wnli", Columns("sentence1", "label", "sentence2", "index")),
    _text("nsmc", Columns("document", "label", id="id"), dirty=True),
    _text("polarity", Columns("text", "label")),
    # KLUE (Park et al. 2021); the premise of one pair is that of two more.
    _text("klue_nli", Columns("premise", "gold_label", "hypothesis", "guid", "premise"),
          ("entailment", "contradiction", "neutral")),
    _text("klue_sts", Columns("sentence1", "labels.real-label", "sentence2", "guid"),
          **_SIMILARITY),
    Task("klue_ner", read=tag_files.read_klue, labels=tag_files.KLUE_TAGS, unit="character",
         **_TAG),
    Task("squad_v1", read=span_files.read_squad_v1, **_SPAN),
    Task("squad_v2", read=span_files.read_squad_v2, unanswerable=True, **_SPAN),
    Task("korquad", read=span_files.read_squad_v1, **_SPAN),
    Task("conll", read=tag_files.read_conll, **_TAG),
    # The user's own tables.
    _own_texts("classify", "single_label", {"text": "text", "label": "label"}),
    _own_texts("pair", "single_label", {"text": "text_a", "text_b": "text_b", "label": "label"},
               pair=True),
    _own_texts("regress", "regression", {"text": "text", "label": "label"}, labels=("value",),
               metrics=_SIMILARITY["metrics"], monitor=("spearman", "max")),
    Task("span", read=span_files.read_span_table, unanswerable=True, columns={
        "text": "question", "text_b": "context", "label": "answer"}, **_SPAN),
    Task("tag", read=tag_files.read_tag_table, columns={"text": "text", "label": "tags"}, **_TAG),
)}

# What the user may say the columns of.
_COLUMNS = {"text": ("text", "text_b", "label", "id", "separator"),
            "span": ("text", "text_b", "label", "id"), "tag": ("text", "label", "id")}


def task(name, multi_label=False):
    """The task of that name.

    With `multi_label`, `classify` and `pair` take any number of labels a text.

    Raises:
        UsageError: there is none, or its texts have one label each.
    """
    found = TASKS[check_choice("task", name, TASKS)]
    if not multi_label:
        return found
    if found.columns is None or found.problem != "single_label":
        raise UsageError(explain(f"several labels a text with task={name!r}",
                                 "task='classify' or task='pair'"))
    several = _own_texts(name, "multi_label", found.columns)
    return dataclasses.replace(found, read=several.read, problem="multi_label",
                               metrics=("f1", "macro_f1", "accuracy"), monitor=("f1", "max"))


def read_task(task_or_name, path, columns=None):
    """The examples of a file, checked as a whole.

    Args:
        task_or_name: a `Task`, or the name of one.
        path: the file, also `.gz`.
        columns: `{"text": …, "text_b": …, "label": …, "id": …}`, those that differ from
            `Task.columns`; numbers are columns from 0 of a table without header. For several
            labels also `"separator"` (a comma).

    Returns: list of `TextExample`, `SpanExample` or `TagExample`, as the task's kind says.

    Raises:
        UsageError: unknown task, missing columns, or columns for a task that has its own.
        BertTfError: the file cannot be read, has no examples, or has one that is wrong; file and
            line are named.
    """
    found = task(task_or_name) if isinstance(task_or_name, str) else task_or_name
    columns = {check_choice("columns", name, _COLUMNS[found.kind]): str(column)
               for name, column in (columns or {}).items() if column is not None}
    if columns and found.columns is None:
        raise UsageError(explain(
            f"columns for task={found.name!r}, whose files have names of their own",
            attempt="task='classify', 'pair', 'regress', 'span' or 'tag'"))
    columns = {**(found.columns or {}), **columns}
    try:
        examples = found.read(path, columns)
    except NoColumn as error:
        flags = [f"--{name}_column" for name in columns if columns[name] == error.column]
        raise UsageError(explain(str(error), attempt=" or ".join(flags))) from error
    if not examples:
        raise BertTfError(explain(f"{path}: no examples", f"examples of {found.name}"))
    places = {}
    for example in examples:
        if example.id in places:
            raise BertTfError(explain(
                f"{example.where}: id {example.id!r} again, first in {places[example.id]}",
                "a different one for every example"))
        places[example.id] = example.where
    return examples
