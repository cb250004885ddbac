"""Rankings as trec_eval reads them."""

import re


def run_lines(name, query_ids, passage_ids, scores, rows):
    """Yield the lines `query Q0 passage rank score name` of rankings, ranks from 1.

    Args:
        name: of the system; like ids without blanks, which become their code: `%20`.
        query_ids: list of Q str.
        passage_ids: list of str.
        scores, rows: float32 and int64 `[Q, n]`, what was found, best first; rows index
            `passage_ids`, -1 for none. Scores are written with all their digits, as trec_eval
            orders passages by them and not by the ranks.
    """
    name = _without_blanks(name)
    passage_ids = list(map(_without_blanks, passage_ids))
    for query, scores_of, rows_of in zip(query_ids, scores, rows, strict=True):
        query = _without_blanks(query)
        for rank, (score, row) in enumerate(zip(scores_of, rows_of, strict=True), 1):
            if row >= 0:
                yield f"{query} Q0 {passage_ids[row]} {rank} {score:.9g} {name}"


def _without_blanks(text):
    return re.sub(r"\s", lambda blank: f"%{ord(blank.group()):02X}", text)
