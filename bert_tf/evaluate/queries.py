"""Queries and the passages of a corpus that are relevant to them.

| `--data` | relevant passages |
|---|---|
| a table or JSON with `positive_ids` beside the query | by their ids, of relevance 1 |
| queries with ids, and `--qrels` (as in BEIR, or TREC's) | by their ids, of the relevance there |
| SQuAD's JSON, and whatever else `--task rank` reads | by their texts, of relevance 1 |
"""

import collections
import dataclasses

from bert_tf.data.tables import BadRow, attempts, column_names, composed, read_rows
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.retrieval.corpus import Passage, read_corpus
from bert_tf.storage import files
from bert_tf.tasks.base.query_files import find_columns, of_json
from bert_tf.tasks.base.read_examples import bad_rows_message
from bert_tf.tasks.base.text_files import check_text
from bert_tf.tasks.registry import find_task

_IDS = "positive_ids"
_QRELS = ("query-id", "corpus-id", "score")


@dataclasses.dataclass(frozen=True)
class RelevantQuery:
    """A query.

    Attributes:
        id: no other query has it.
        text: what is searched for.
        relevant: `{row of the corpus: relevance above 0}`, not empty.
    """

    id: str
    text: str
    relevant: dict


def read_retrieval(options):
    """Read `(queries, passages, examples, left_out)`.

    Args:
        options: `EvaluateConfig`; without a `corpus` it is the paragraphs of SQuAD's JSON, of other
            files all positives and negatives.

    Returns: list of `RelevantQuery`; list of `Passage`; the `QueryExample`s that the queries come
        from, or an empty list; how many queries were skipped.

    Raises:
        UsageError: columns or flags are missing.
        BertTfError: a file cannot be read, a query has no relevant passage in the corpus, or
            judgements contradict each other.
    """
    form = options.form()
    beside = dataclasses.replace(form, header=None)  # --header and --no-header are of --data
    corpus = None if options.corpus is None else list(
        read_corpus(files.expand(options.corpus), beside))
    examples, left_out = [], 0
    if options.qrels:
        by_ids, left_out = _judged(options, form, beside)
    else:
        by_ids = _with_ids(options, form)
    if by_ids is None:
        examples, left_out = options.read_examples(find_task("rank"), options.data)
        if corpus is None:
            corpus = _own_corpus(options.data, form, examples)
        places = collections.defaultdict(list)
        for row, passage in enumerate(corpus):
            places[composed(passage.text)].append(row)
        found = [(example.where, example.id, example.query,
                  dict.fromkeys(map(composed, example.positives), 1)) for example in examples]
    else:
        if corpus is None:
            raise UsageError(explain(f"{options.data} names passages by their ids",
                                     "the passages", "--corpus"))
        places = {passage.id: [row] for row, passage in enumerate(corpus)}
        found = by_ids
    queries, bad = _resolved(found, places)
    if bad and not options.skip_bad_rows:
        raise BadRow(bad_rows_message(options.data, bad, len(found)))
    if not options.qrels:  # judged ones are told apart by their ids
        queries = _by_text(queries)
    if not queries:
        raise BertTfError(explain(f"{options.data}: no query with a relevant passage",
                                  "one or more"))
    return queries, corpus, examples, left_out + len(bad)


def _resolved(found, places):
    """Return queries whose relevant passages are all in the corpus, and a BadRow for each other."""
    queries, bad = [], []
    for each in found:
        if isinstance(each, BadRow):
            bad.append(each)
            continue
        where, id, text, relevant = each
        absent = next((name for name in relevant if not places.get(name)), None)
        if absent is None:
            queries.append(RelevantQuery(id, text, {
                row: relevance for name, relevance in relevant.items() for row in places[name]}))
        else:
            shown = absent if len(absent) <= 60 else absent[:59] + "…"
            bad.append(BadRow(explain(
                f"{where}: the passage {shown!r}, relevant to the query {id!r}, is not in the "
                "corpus", "all relevant passages there")))
    return queries, bad


def _by_text(queries):
    """Return one query for each text, composed or not, by the id of the first, to which all is
    relevant that is so to any of them."""
    merged = {}
    for query in queries:
        merged.setdefault(composed(query.text), query).relevant.update(query.relevant)
    return list(merged.values())


def _own_corpus(path, form, examples):
    """Return the passages of a file of queries."""
    if files.suffix(path) == ".json" and isinstance(files.read_json(path, form.encoding), dict):
        return list(read_corpus(path, form))
    texts = dict.fromkeys(text for example in examples
                          for text in (*example.positives, *example.negatives))
    return [Passage(str(number), text) for number, text in enumerate(texts)]


def _with_ids(options, form):
    """Return `[(where, id, text, {passage id: 1})]` of a file with the ids of positives, a BadRow
    in place of an invalid one; of another file None."""
    path = options.data
    if files.suffix(path) == ".json" and isinstance(files.read_json(path, form.encoding), dict):
        return None
    names, _ = column_names(path, form)
    if _IDS not in names:
        return None
    for name in sorted(options.columns().keys() - {"text", "id"}):
        raise UsageError(f"--{name}_column with {path}, whose column {_IDS} says what is relevant; "
                         "omit it")
    columns = find_columns(names, options.columns())
    if columns is None:
        raise UsageError(explain(f"{path}: no column of queries among {', '.join(names)}",
                                 "a column query", "--text_column"))
    id = columns.id or ("_id" if "_id" in names else None)
    texts = {}  # of the ids

    def query(number, where, row):
        given = row.get(id)
        ids = _listed(where, row[_IDS])
        text = check_text(where, row[columns.query], "query")
        name = str(number if given is None else given)
        if texts.setdefault(name, text) != text:
            raise BadRow(explain(f"{where}: the query id {name!r} a second time",
                                 "an id of its own for each query"))
        return where, name, text, dict.fromkeys(ids, 1)

    return list(attempts(read_rows(path, [columns.query, _IDS], [id] if id else [], form), query))


def _judged(options, form, beside):
    """Return the same of queries with ids and of judgements in another file, and how many were
    judged without anything relevant."""
    columns = options.columns()
    for name in sorted(columns.keys() - {"text", "id"}):
        raise UsageError(f"--{name}_column with --qrels; omit it")
    relevant = collections.defaultdict(dict)
    for where, query, passage, relevance in _judgements(options.qrels, beside):
        first, known = relevant[query].setdefault(passage, (where, relevance))
        if relevance != known:
            raise BertTfError(explain(
                f"{where}: the passage {passage!r} has relevance {relevance} to the query "
                f"{query!r}, but {known} in {first}", "one judgement"))
    found, known, left_out = [], set(), 0
    for query in read_corpus(options.data, form, columns, "query"):
        known.add(query.id)
        left_out += query.id in relevant
        positive = {passage: relevance for passage, (_, relevance) in relevant[query.id].items()
                    if relevance > 0}
        if positive:
            left_out -= 1
            found.append((options.qrels, query.id, query.text, positive))
    unknown = next((query for query in relevant if query not in known), None)
    if unknown is not None:
        where = next(iter(relevant[unknown].values()))[0]
        raise BertTfError(explain(f"{where}: the query {unknown!r} is not in {options.data}",
                                  "one of its ids"))
    return found, left_out


def _judgements(path, form):
    """Yield `(where, query id, passage id, relevance)` of BEIR's columns, or TREC's four."""
    names, form = column_names(path, form)
    if set(_QRELS) <= set(names):
        columns = list(_QRELS)
    # TREC's blanks, though an id may hold what delimits tables: no relevance has a blank.
    elif len((form.delimiter or "\t").join(names).split()) == 4 and " " in names[-1]:
        for number, line in enumerate(files.read_lines(path, form.encoding), 1):
            if line.strip():
                where, fields = f"{path} line {number}", line.split()
                if len(fields) != 4:
                    raise BertTfError(explain(f"{where}: {len(fields)} fields", "4"))
                yield where, fields[0], fields[2], _relevance(where, fields[3])
        return
    elif len(names) in (3, 4):
        columns = ["0", str(len(names) - 2), str(len(names) - 1)]
        form = dataclasses.replace(form, header=False)
    else:
        raise UsageError(explain(f"{path}: the columns {', '.join(names)}",
                                 f"{', '.join(_QRELS)}, or TREC's query 0 passage relevance"))
    for where, row in read_rows(path, columns, form=form):
        if isinstance(row, BadRow):
            raise row
        query, passage, relevance = (row[column] for column in columns)
        yield where, str(query), str(passage), _relevance(where, relevance)


def _relevance(where, value):
    try:
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        relevance = int(value)
        if abs(relevance) >= 10**9:  # gains are added as floats
            raise ValueError
        return relevance
    except (TypeError, ValueError, OverflowError):
        raise BertTfError(explain(f"{where}: relevance {value!r}", "a whole number of at "
                                  "most 9 digits")) from None


def _listed(where, value):
    """Return ids, a list of str, of a list, JSON or a single one."""
    value = of_json(where, _IDS, value)
    values = value if isinstance(value, list) else [value]
    ids = [str(each) for each in values if each is not None and str(each).strip()]
    if not ids:
        raise BadRow(explain(f"{where}: no {_IDS}", "the id of a relevant passage"))
    return ids
