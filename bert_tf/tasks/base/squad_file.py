"""Files in SQuAD's JSON form: SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), KorQuAD 1.0,
KLUE-MRC."""

import functools

from bert_tf.data.tables import BadRow, attempts
from bert_tf.errors import explain
from bert_tf.storage import files
from bert_tf.tasks.base.text_files import check_text

_FIELDS = {"data": list, "paragraphs": list, "qas": list, "answers": list, "id": str, "text": str,
           "answer_start": int, "is_impossible": bool}
_OPTIONAL = {"answers": [], "is_impossible": False}


def is_squad_file(path, form):
    """Return whether a file is JSON that begins with an object; a list is a table's rows."""
    if files.suffix(path) != ".json":
        return False
    first = next((line for line in files.read_lines(path, form.encoding) if line.strip()), "")
    return first.lstrip().startswith("{")


def squad_questions(path, form, make):
    """Yield `make(where, id, question, context, group)` of each question of a file, in order.

    `question` is the JSON object, `context` its paragraph. Questions on one article are one group;
    on one paragraph, where the file has a single article. In place of a question that is invalid,
    or for which `make` raises it, comes a BadRow with its position.

    Raises:
        BertTfError: not JSON.
        BadRow: an article or paragraph is not as it should be, and named.
    """
    articles = squad_field(path, files.read_json(path, form.encoding), "data")
    for i, article in enumerate(articles):
        of_article = f"{path} data[{i}]"
        for j, paragraph in enumerate(squad_field(of_article, article, "paragraphs")):
            of_paragraph = f"{of_article}.paragraphs[{j}]"
            qas = squad_field(of_paragraph, paragraph, "qas")
            context = check_text(of_paragraph, paragraph.get("context"), "context")
            group = f"article {i}" if len(articles) > 1 else f"paragraph {j}"
            rows = ((f"{of_paragraph}.qas[{k}]", question) for k, question in enumerate(qas))
            yield from attempts(rows, functools.partial(_question, make, context, group))


def _question(make, context, group, _, where, question):
    if isinstance(question, dict) and "id" not in question and "guid" in question:  # KLUE-MRC's
        question = {**question, "id": question["guid"]}
    id = check_text(where, squad_field(where, question, "id"), "id")
    return make(f"{where} (id {id})", id, question, context, group)


def squad_field(where, value, name):
    """Return `value[name]`, of the type that SQuAD's field of that name has.

    Raises:
        BadRow: it is missing or of another type.
    """
    if not isinstance(value, dict):
        raise BadRow(explain(f"{where}: {type(value).__name__}", f"an object with {name!r}"))
    if name not in value and name not in _OPTIONAL:
        raise BadRow(explain(f"{where}: no field {name!r}", f"{_FIELDS[name].__name__} {name!r}"))
    value = value.get(name, _OPTIONAL.get(name))
    if name == "id" and type(value) is int:
        return str(value)
    if type(value) is not _FIELDS[name]:
        raise BadRow(explain(f"{where}: {name!r} is {type(value).__name__}",
                             f"{_FIELDS[name].__name__}"))
    return value
