"""Questions and their answers in a text: SQuAD's JSON (1.1, 2.0, KorQuAD 1.0) and custom tables.

An answer must equal the context at its offset, to the character; one that does not is refused,
never moved or skipped, and the message says where it is found.
"""

from bert_tf.data.table_form import AS_FOUND
from bert_tf.data.tables import BadRow, attempts, read_rows
from bert_tf.errors import explain
from bert_tf.tasks.base.squad_file import is_squad_file, squad_field, squad_questions
from bert_tf.tasks.base.text_files import check_text, short
from bert_tf.tasks.question_answering.examples import SpanExample


def read_squad_v1(path, _=None, form=AS_FOUND):
    """Yield the questions of a SQuAD 1.1 or KorQuAD 1.0 file, each with an answer; see
    `read_squad`."""
    for example in read_squad(path, form=form):
        if not isinstance(example, BadRow) and example.is_impossible:
            example = BadRow(explain(f"{example.where}: a question without an answer",
                                     "SQuAD 1.1", "--task squad_v2"))
        yield example


def read_squad(path, _=None, form=AS_FOUND):
    """Return an iterator of `SpanExample`s and BadRows; see `squad_questions`."""
    return squad_questions(path, form, _squad_example)


def _squad_example(where, id, question, context, group):
    answers = [(check_text(where, squad_field(where, answer, "text"), "answer"),
                squad_field(where, answer, "answer_start"))
               for answer in squad_field(where, question, "answers")]
    if answers and squad_field(where, question, "is_impossible"):
        raise BadRow(explain(f"{where}: answers, though is_impossible is true",
                             "plausible_answers there"))
    return _example(where, id, question.get("question"), context, answers, group)


def read_span_table(path, columns, form=AS_FOUND):
    """Read the questions of a table, see `tables`, or of a `.json` file that is no list as SQuAD's.

    `columns["text"]` is the question, `"text_b"` the context, `"label"` the answer, empty where
    there is none. The answer's first character is in the column `answer_start`; without it, the
    answer must stand in the context exactly once. In JSONL the answer may also be an object of
    the lists `text` and `answer_start`, for several right ones. Questions on one context are one
    group.

    Raises: as `read_texts`.
    """
    if is_squad_file(path, form):
        return read_squad(path, form=form)
    question, context, label = columns["text"], columns["text_b"], columns["label"]
    needed = [question, context, label, *filter(None, [columns.get("id")])]

    def example(number, where, row):
        text = check_text(where, row[context], "context")
        id = row[columns["id"]] if columns.get("id") else number
        answers = _answers(where, row[label], row.get("answer_start"), text)
        return _example(where, check_text(where, str(id), "id"), row[question], text, answers, text)

    return attempts(read_rows(path, needed, ["answer_start"], form), example)


def _answers(where, answer, start, context):
    """Return `(text, start)` of each answer in a row of a table."""
    if answer is None or answer == "":
        return []
    if isinstance(answer, dict):
        texts, starts = answer.get("text"), answer.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) \
                or len(texts) != len(starts) or any(type(start) is not int for start in starts):
            raise BadRow(explain(f"{where}: answers that are not two lists",
                                 '{"text": ["Paris"], "answer_start": [17]}'))
        return [(check_text(where, text, "answer"), start)
                for text, start in zip(texts, starts, strict=True)]
    check_text(where, answer, "answer")
    if start is None or start == "":
        count = len(_starts(answer, context))
        if count != 1:
            raise BadRow(explain(f"{where}: the answer {short(answer)} occurs in the context "
                                 f"{count} times", "once, or a column answer_start"))
        return [(answer, context.index(answer))]
    try:
        return [(answer, int(start))]
    except (TypeError, ValueError):
        raise BadRow(explain(f"{where}: answer_start {start!r}", "a whole number")) from None


def _example(where, id, question, context, answers, group):
    check_text(where, question, "question")
    for text, start in answers:
        if start < 0 or context[start:start + len(text)] != text:
            starts = _starts(text, context)
            found = "which does not hold it" if not starts else \
                f"which holds it at {', '.join(map(str, starts[:5]))}"
            raise BadRow(f"{where}: the answer {short(text)} is not at character {start} of the "
                         f"context, {found}")
    return SpanExample(id, question, context, tuple(answers), not answers, group, where)


def _starts(text, context):
    """Return the positions where `text` begins in `context`."""
    starts, start = [], context.find(text)
    while start >= 0:
        starts.append(start)
        start = context.find(text, start + 1)
    return starts
