"""The downstream tasks by name: their files, labels and metrics."""

import collections.abc
import dataclasses
import os
import sys

from bert_tf.data.table_form import AS_FOUND
from bert_tf.data.tables import BadRow, NoColumn
from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.storage.encodings import EncodingError
from bert_tf.tasks.base.text_files import SEPARATOR, BadLabel, Columns, read_texts
from bert_tf.tasks.question_answering import files as span_files
from bert_tf.tasks.token_classification import files as tag_files


@dataclasses.dataclass(frozen=True)
class Task:
    """What is to be learned from a file of examples.

    Attributes:
        name: as in `TASKS`.
        kind: `text`, `span` or `tag`.
        read: `(path, columns, form)`, gives examples of that kind and BadRows, see `read_task`.
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
        dirty: the file as published has broken rows, of a wrong number of columns or without a
            proper text, which are left out.
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
    dirty: bool = False
    columns: dict | None = None


def _text(name, columns, labels=("0", "1"), metrics=("accuracy",), problem="single_label",
          limits=None, **further):
    """A task of texts, in tables that have the columns given."""
    def read(path, _, form):
        if form.header is None:
            form = dataclasses.replace(form, header=not columns.text.isdigit())
        return read_texts(path, columns, problem, None if problem == "regression" else labels,
                          limits, form=form)

    return Task(name, "text", read, problem, labels, metrics, (metrics[0], "max"),
                pair=columns.text_b is not None, **further)


def _own_texts(name, problem, columns, **further):
    """A task of texts in the user's own table."""
    def read(path, columns, form):
        columns = dict(columns)
        separator = columns.pop("separator", SEPARATOR)
        return read_texts(path, Columns(**columns), problem, separator=separator, form=form)

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

_SHOWN = 5  # wrong examples that are told one by one

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


def read_task(task_or_name, path, columns=None, form=AS_FOUND, left_out=None):
    """The examples of a file, checked as a whole.

    Args:
        task_or_name: a `Task`, or the name of one.
        path: the file, str or `os.PathLike`, also `.gz`.
        columns: `{"text": …, "text_b": …, "label": …, "id": …}`, those that differ from
            `Task.columns`; numbers are columns from 0 of a table without header. For several
            labels also `"separator"` (a comma).
        form: a `TableForm`.
        left_out: list that a BadRow is appended to for each example that is wrong, and so left
            out; None refuses them, but for what `Task.dirty` is about. Both is told on standard
            error.

    Returns: list of `TextExample`, `SpanExample` or `TagExample`, as the task's kind says.

    Raises:
        UsageError: unknown task, missing columns, or columns for a task that has its own.
        BertTfError: the file cannot be read, has no examples, or has wrong ones; they are counted,
            the first of them named by file and line.
    """
    found = task(task_or_name) if isinstance(task_or_name, str) else task_or_name
    columns = {check_choice("columns", name, _COLUMNS[found.kind]): str(column)
               for name, column in (columns or {}).items() if column is not None}
    if columns and found.columns is None:
        raise UsageError(explain(
            f"columns for task={found.name!r}, whose files have names of their own",
            attempt="task='classify', 'pair', 'regress', 'span' or 'tag'"))
    columns = {**(found.columns or {}), **columns}
    path = os.fspath(path)
    try:
        examples, bad = _sorted_out(found.read(path, columns, form))
    except NoColumn as error:
        flags = [f"--{name}_column" for name in columns if columns[name] == error.column]
        raise UsageError(explain(str(error), attempt=" or ".join(flags))) from error
    except EncodingError as error:
        raise BertTfError(f"{error}, or --encoding {error.likely or 'NAME'}") from error
    total = len(examples) + len(bad)
    if not total:
        raise BertTfError(explain(f"{path}: no examples", f"examples of {found.name}"))
    refused = [] if left_out is not None else [
        error for error in bad if not found.dirty or isinstance(error, BadLabel)]
    if refused or not examples:
        raise BadRow(_told(path, refused or bad, total))
    if bad:
        print(f"{path}: {len(bad)} of {total} examples left out; the first: {bad[0]}",
              file=sys.stderr)
        if left_out is not None:
            left_out += bad
    return examples


def _sorted_out(read):
    """Examples, and a BadRow for each that is wrong or has the id of another, two lists."""
    examples, bad, places = [], [], {}
    for example in read:
        if isinstance(example, BadRow):
            bad.append(example)
        elif example.id in places:
            bad.append(BadRow(explain(
                f"{example.where}: id {example.id!r} again, first in {places[example.id]}",
                "a different one for every example")))
        else:
            places[example.id] = example.where
            examples.append(example)
    return examples, bad


def _told(path, bad, total):
    """All wrong examples of a file in one message."""
    if len(bad) == 1:
        joint = ", or" if "; try " in str(bad[0]) else "; try"
        return f"{bad[0]}{joint} --skip_bad_rows"
    lines = [f"{path}: {len(bad)} of {total} examples are wrong; try mending them, or "
             "--skip_bad_rows", *map(str, bad[:_SHOWN])]
    if len(bad) > _SHOWN:
        lines.append(f"and {len(bad) - _SHOWN} more")
    return "\n  ".join(lines)
