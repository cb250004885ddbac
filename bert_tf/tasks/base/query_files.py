"""Files of queries and texts that match them: tables, SQuAD's JSON, plain text.

| file | an example |
|---|---|
| table with a query and positives, maybe negatives | a row |
| the same with `scores` (of positives, then negatives), or a `margin` of the two | a row |
| table of pairs with a `score`, such as STS-B and KLUE-STS | a labelled pair |
| pairs judged by a name or a yes: KLUE-NLI, MNLI, MRPC, QQP | a query with the texts that \
follow from it or say the same as positives; contradictions and noes as hard negatives |
| SQuAD's JSON, KorQuAD | a question that has an answer; its paragraph is the positive |
| `.txt`, or a table without positives | a text alone |

Columns are known by their names, see `ROLES`, or named by the caller. A column whose name is a
plural holds a list, in CSV and TSV a JSON list.
"""

import collections
import dataclasses
import functools
import json
import math
import os
import re

from bert_tf.data.table_form import AS_FOUND, is_table
from bert_tf.data.tables import BadRow, attempts, column_names, read_rows
from bert_tf.errors import UsageError, explain
from bert_tf.storage import files
from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.squad_file import is_squad_file, squad_field, squad_questions
from bert_tf.tasks.base.text_files import check_text, short

# The names by which columns are known, the first that a file has; `_1`, `_2` … may follow those of
# positives and negatives.
ROLES = {
    "query": ("query", "anchor", "question", "text_a", "sentence1", "premise", "question1",
              "#1 String", "text"),
    "positive": ("positive", "positives", "pos", "passage", "document", "context", "answer",
                 "text_b", "sentence2", "hypothesis", "question2", "#2 String", "sentence"),
    "negative": ("negative", "negatives", "neg", "hard_negative"),
    "score": ("score", "scores", "labels.real-label", "similarity", "margin", "gold_label",
              "is_duplicate", "Quality", "label"),
    "id": ("id", "guid", "index", "qid"),
}
_IDS_OF_QUERIES = ("qid",)  # which rows with other texts of a query repeat
_FLAGS = {"query": "text", "positive": "text_b", "score": "label", "id": "id"}
_ENTAILMENT = {"entailment": True, "contradiction": False, "neutral": None, "not_entailment": None,
               "-": None}  # whether a text matches; None: neither a positive nor a hard negative
_SAME = {"1": True, "0": False}
_JUDGEMENTS = {"gold_label": _ENTAILMENT, "is_duplicate": _SAME, "Quality": _SAME}  # by column


class NoQueries(UsageError):
    """A table at `path` without a column of queries among `names`; `attempt` is what may help."""

    def __init__(self, path, names, attempt):
        super().__init__(explain(f"{path}: no column of queries among {', '.join(names)}",
                                 f"one of {', '.join(ROLES['query'])}", attempt))
        self.path, self.names = path, names


@dataclasses.dataclass(frozen=True)
class QueryColumns:
    """Columns of a table of queries: names, or numbers (as str) of a table without header."""

    query: str
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    score: str | None = None
    id: str | None = None

    @property
    def all(self):
        """All of them, a list."""
        further = [self.score, self.id]
        return [self.query, *self.positives, *self.negatives, *filter(None, further)]


def read_queries(path, columns=None, form=AS_FOUND):
    """Yield a `QueryExample` for each example of a file, see above, or a BadRow in its place.

    Args:
        path: the file.
        columns: `{"text": query, "text_b": positive, "label": score, "id": …}`, those that are not
            to be known by their names.
        form: a `TableForm`.

    Raises:
        UsageError: no column is one of queries.
        BertTfError: the file cannot be read.
    """
    path, columns = os.fspath(path), columns or {}
    if is_squad_file(path, form):
        return (example for example in squad_questions(path, form, _question)
                if example is not None)
    names, form = column_names(path, form)
    if not any(names):  # nothing, or rows of JSON none of which is an object with fields
        rows = read_rows(path, [columns.get("text", "query")], form=form) if is_table(path) else ()
        return (row for _, row in rows if isinstance(row, BadRow))
    if form.header is None and columns and all(map(str.isdecimal, columns.values())):
        form = dataclasses.replace(form, header=find_columns(names) is not None)
    found = find_columns(names, columns)
    if not (is_table(path) or columns or found and found.positives):
        return _lines(path, form)
    if found is None:
        raise NoQueries(path, names, "--text_column and --text_b_column, or --no-header")

    def rows():
        asked = (found.query, columns.get("id"))
        needed = [name for name in found.all if name in asked or name.isdecimal()]
        return read_rows(path, needed, found.all, form)

    meanings = _meanings(found, rows())
    if meanings is None:
        examples = attempts(rows(), functools.partial(_example, found))
    else:
        examples = _joined(attempts(rows(), functools.partial(_judged, found, meanings)))
    of_queries = found.id in _IDS_OF_QUERIES
    if found.id is None or columns.get("id") and not of_queries:
        return examples
    return _numbered(examples, of_queries)


def find_columns(names, columns=None):
    """Return the `QueryColumns` of a table, or None without a query.

    Args:
        names: its columns; numbers, where it has no header: the query, the positive, negatives.
        columns: as of `read_queries`.
    """
    given = {role: (columns or {}).get(flag) for role, flag in _FLAGS.items()}
    if all(map(str.isdecimal, names)) and not any(given.values()):
        return QueryColumns(names[0], tuple(names[1:2]), tuple(names[2:])) if names else None
    roles = {role: [given[role]] if given.get(role) else _named(names, known)
             for role, known in ROLES.items()}
    if not roles["query"]:
        return None
    taken = {roles["query"][0]}
    positives = [name for name in roles["positive"] if name not in taken]
    first = {role: next((name for name in roles[role] if name not in taken), None)
             for role in ("score", "id")}
    if not positives:
        first["score"] = None  # of a text alone: a label of something else
    return QueryColumns(roles["query"][0], tuple(positives), tuple(roles["negative"]), **first)


def _named(names, known):
    """Return those of `names` that are the first of `known` that is there, with a number or not."""
    for name in known:
        numbered = r"(_?\d+)?" if name in ("positive", "negative", "hard_negative") else ""
        fitting = [other for other in names if re.fullmatch(re.escape(name) + numbered, other)]
        if fitting:
            return fitting
    return []


def _meanings(columns, rows):
    """Return what the values of the score's column mean where they are judgements, else None."""
    if columns.score is None or columns.query == "premise":
        return columns.score and _ENTAILMENT
    first = next((row.get(columns.score) for _, row in rows if not isinstance(row, BadRow)), None)
    known = isinstance(first, str) and first in _ENTAILMENT
    return _ENTAILMENT if known else _JUDGEMENTS.get(columns.score)


def _question(where, id, question, context, group):
    if squad_field(where, question, "is_impossible"):
        return None
    text = check_text(where, question.get("question"), "question")
    return QueryExample(id, text, (context,), group=group, where=where)


def _lines(path, form):
    for number, line in enumerate(files.read_lines(path, form.encoding), 1):
        if line.strip():
            where = f"{path} line {number}"
            try:
                yield QueryExample(str(number - 1), check_text(where, line), where=where)
            except BadRow as error:
                yield error


def _numbered(examples, of_queries):
    """Give further rows of an id one that no other has: of `q1` `q1.2`, `q1.3` …; ids
    `of_queries` are only repeated by rows of the same query."""
    examples, counts = list(examples), collections.Counter()
    taken = {example.id for example in examples if not isinstance(example, BadRow)}
    for example in examples:
        if not isinstance(example, BadRow):
            row = example.id, of_queries and example.query
            counts[row] += 1
            if counts[row] > 1:
                while (id := f"{example.id}.{counts[row]}") in taken:
                    counts[row] += 1
                taken.add(id)
                example = dataclasses.replace(example, id=id)
        yield example


def _example(columns, number, where, row):
    query = check_text(where, row[columns.query], columns.query)
    # A number beside a positive alone would make it a labelled pair.
    given = (_texts(where, row, columns.positives),
             _texts(where, row, columns.negatives, optional=columns.score is None))
    positives, negatives = (tuple(dict.fromkeys(texts)) for texts in given)
    if columns.positives and not positives:
        raise BadRow(explain(f"{where}: no {columns.positives[0]}", "a text beside the query"))
    both = sorted(set(positives).intersection(negatives))
    if both:
        raise BadRow(explain(f"{where}: {short(both[0])} is a positive and a negative",
                             "one of the two"))
    scores = None if columns.score is None else _scores(
        where, columns.score, row.get(columns.score), *given)
    return QueryExample(_id(columns, number, where, row), query, positives, negatives, scores,
                        where=where)


def _texts(where, row, names, optional=False):
    """Return the texts of columns, a list; of a list those in it, of None none, nor of a blank
    where it is one of several or optional."""
    texts = []
    for name in names:
        value = row.get(name)
        if value is None or value == "" and (optional or len(names) > 1):
            continue
        if _is_plural(name):
            value = of_json(where, name, value)
        texts += value if isinstance(value, list) else [value]
    return [check_text(where, text, names[0]) for text in texts]


def _scores(where, name, value, positives, negatives):
    """Return the scores of the different texts; a number beside one negative is their
    difference."""
    value = of_json(where, name, value)
    values = [_number(where, name, each) for each in (
        value if isinstance(value, list) else [value])]
    texts = [*positives, *negatives]
    places = {}  # of each text the first
    for place, text in enumerate(texts):
        places.setdefault(text, place)
    if len(values) == 1 and len(set(positives)) == len(set(negatives)) == 1:
        return (values[0], 0.0)
    if len(values) == len(texts):
        return tuple(values[place] for place in places.values())
    if len(values) != len(places):
        raise BadRow(explain(f"{where}: {len(values)} {name} of {len(texts)} texts",
                             "one for each positive, then each negative"))
    return tuple(values)


def _judged(columns, meanings, number, where, row):
    """Return `(example, judgement)`: True for a positive, False for a negative, None for
    neither."""
    value = str(row.get(columns.score))
    if value not in meanings:
        raise BadRow(explain(f"{where}: {columns.score} {value!r}",
                             f"one of {', '.join(meanings)}"))
    unscored = dataclasses.replace(columns, score=None)
    return _example(unscored, number, where, row), meanings[value]


def _joined(pairs):
    """Yield an example for each query of judged pairs that has a positive, and all BadRows."""
    queries = collections.defaultdict(list)
    for pair in pairs:
        if isinstance(pair, BadRow):
            yield pair
        else:
            queries[pair[0].query].append(pair)
    for pairs in queries.values():
        positives = dict.fromkeys(text for each, judgement in pairs if judgement
                                  for text in each.positives)
        negatives = dict.fromkeys(
            text for each, judgement in pairs if judgement is not None
            for text in (each.negatives if judgement else each.positives))
        if positives:
            first = next(each for each, judgement in pairs if judgement)
            yield dataclasses.replace(first, positives=tuple(positives), negatives=tuple(
                text for text in negatives if text not in positives))


def _id(columns, number, where, row):
    value = row.get(columns.id) if columns.id else None
    return str(number) if value is None else check_text(where, str(value), "id").strip()


def _number(where, name, value):
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadRow(explain(f"{where}: {name} {value!r}", "a finite number"))
    return number


def of_json(where, name, value):
    """Return the list of a text that begins with `[`; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise BadRow(explain(f"{where}: {name} begins with [ and is no JSON list")) from None


def _is_plural(name):
    return name in ("positives", "negatives", "pos", "neg")
