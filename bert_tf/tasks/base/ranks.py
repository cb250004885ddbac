"""Models that rank passages by a query, whatever their scores are."""

import numpy as np

from bert_tf.errors import UsageError, explain
from bert_tf.retrieval.ranking import ranking
from bert_tf.tasks.base.signature import Signature, result, texts
from bert_tf.tokenization.texts import text_list


class Ranks:
    """Mixin of Keras models with `scores`."""

    def rank(self, query, passages, batch_size=None):
        """Rank passages by their scores beside the query.

        Args:
            query: a str.
            passages: what `text_list` takes.
            batch_size: see `scores`.

        Returns: list of dicts of `text`, `index` in `passages` and `score`, highest first; of equal
            scores the earlier first. Rerankers, embedders and clients rank in this one form.
        """
        passages = text_list(passages, "passages")
        if not isinstance(query, str):
            raise UsageError(explain(f"query={query!r}", "a string"))
        return ranking(passages, self.scores([query] * len(passages), passages, batch_size))

    def scores(self, queries, passages, batch_size=None):
        """Return float32 `[N]`: how relevant each passage is to the query beside it.

        Args:
            queries, passages: N str each, as `text_list` takes them.
            batch_size: texts of a batch, see `TextModel.outputs_by_length`.

        Raises:
            UsageError: there are not as many of each, or the model takes no text.
        """
        raise NotImplementedError


class ScoresPairs(Ranks):
    """Mixin of cross-encoders: models that read a pair of texts and give it one number."""

    def scores(self, queries, passages, batch_size=None):
        """See `Ranks.scores`: the logit, on no particular scale."""
        columns = beside(queries, passages)
        found = np.zeros(len(columns[0]), np.float32)
        for rows, outputs in self.outputs_by_length(columns, batch_size):
            found[rows] = outputs[:, 0]
        return found


def beside(queries, passages):
    """Return two lists of as many str each, or raise UsageError."""
    queries, passages = text_list(queries, "queries"), text_list(passages, "passages")
    if len(queries) != len(passages):
        raise UsageError(explain(f"{len(queries)} queries and {len(passages)} passages",
                                 "as many of each"))
    return queries, passages


def rank_signature(objective, function=None, main=True):
    """Return the `Signature` `rank` of a served model that gives a query and a passage one number.

    Args:
        objective: the one that it answers for.
        function: see `Signature`; None for that of models that read both together.
        main: see `Signature`.
    """
    return Signature(function or _rank, texts("query", "passage"), objective,
                     {"score": result("relevance", value="score", of="passage")}, main=main)


def _rank(served, query, passage):
    """Return `score` float32 `[B]`: how relevant each passage is to the query beside it."""
    inputs, model = {"text_a": query, "text_b": passage}, served.model
    inputs = model.read(inputs) if model.preprocessor is not None else served.read(inputs)
    return {"score": model(inputs, training=False)[:, 0]}
