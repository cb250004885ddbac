"""The task of queries and passages, in whatever form `read_queries` reads, and judged pairs."""

import collections
import dataclasses
import textwrap

from bert_tf.data.tables import BadRow
from bert_tf.errors import explain
from bert_tf.tasks.base.query_files import read_queries
from bert_tf.tasks.task import Task

_SHOWN = 60  # characters of a query in a message


class NothingRelevant(BadRow):
    """A query all of whose passages are judged as not relevant."""


def read_ranked(path, columns, form):
    """Yield a `QueryExample` for each query that has a positive, and BadRows.

    Rows of a query, a passage and a number are joined by their queries: passages with a number
    above 0 are positives, the others negatives.

    Args, errors: as of `read_queries`.
    """
    judged = collections.defaultdict(list)
    for example in read_queries(path, columns, form):
        if isinstance(example, BadRow):
            yield example
        elif example.is_labelled_pair:
            judged[example.query].append(example)
        elif not example.positives:
            yield BadRow(explain(f"{example.where}: a text without a passage",
                                 "a query and a passage that is relevant to it"))
        else:
            yield example
    for query, pairs in judged.items():
        relevant = dict.fromkeys(pair.positives[0] for pair in pairs if pair.scores[0] > 0)
        others = dict.fromkeys(pair.positives[0] for pair in pairs if pair.scores[0] <= 0)
        if relevant:
            yield dataclasses.replace(
                pairs[0], positives=tuple(relevant), scores=None,
                negatives=tuple(text for text in others if text not in relevant))
        else:
            shown = textwrap.shorten(query, _SHOWN, placeholder=" …")
            yield NothingRelevant(explain(
                f"{pairs[0].where}: all {len(pairs)} labels of the query {shown!r} are 0 or below",
                "a passage with a label above 0"))


TASKS = (
    Task("rank", "ranking", read_ranked, ("mrr@10", "ndcg@10", "map"), ("mrr@10", "max"),
         seq_length=256, columns={}, optional_columns=("text", "text_b", "label", "id")),
)
