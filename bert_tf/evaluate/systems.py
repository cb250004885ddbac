"""Systems that rank passages: vectors, or weights or vectors of tokens of a model, a reranker."""

import numpy as np

from bert_tf.embedder import TermWeigher, TokenEmbedder, loaded, parts
from bert_tf.errors import UsageError, explain
from bert_tf.models.find import SERVED, find_model
from bert_tf.predictor import Predictor
from bert_tf.retrieval.search import search
from bert_tf.retrieval.term_index import TermIndex
from bert_tf.retrieval.token_vectors import search_tokens
from bert_tf.shapes import check_finite
from bert_tf.text_signatures import NoSignature


def find(embedder, queries, passages, depth):
    """Return `(scores, rows)` of the nearest passages, see `search`, `TermIndex` and
    `search_tokens`.

    Args:
        embedder: an `Embedder`, a `TermWeigher` or a `TokenEmbedder`.
        queries, passages: lists of str.
        depth: passages of a query.
    """
    if isinstance(embedder, TermWeigher):
        index = TermIndex()
        for part in embedder.weights(passages):
            index.add(part)
        weights = [each for part in embedder.weights(queries, "query") for each in part]
        return index.search(weights, depth)
    if isinstance(embedder, TokenEmbedder):
        return search_tokens(list(embedder.vectors(queries, "query")), embedder.vectors(passages),
                             depth)
    return search(embedder.vectors(queries, "query"), embedder.vectors(passages), depth)


def without(found, left_out, depth):
    """Return `(scores, rows)` of the best passages found, but for some that do not count.

    Args:
        found: `(scores, rows)`, float32 and int64 `[queries, n]`, best first; -1 is no row.
        left_out: `{query: rows}` of what does not count for a query.
        depth: passages of a query, at most n.

    Returns: float32 and int64 `[queries, depth]`; 0 and -1 where there are fewer.
    """
    scores, rows = map(np.array, found)
    for query, others in left_out.items():
        counts = ~np.isin(rows[query], others)
        order = np.argsort(~counts, kind="stable")
        scores[query] = np.where(counts, scores[query], 0)[order]
        rows[query] = np.where(counts, rows[query], -1)[order]
    return scores[:, :depth], rows[:, :depth]


class Reranker:
    """Scores of pairs by a model folder, a checkpoint of others or a SavedModel.

    Args:
        path: its place.

    Raises:
        UsageError: it gives no number for a pair of texts.
    """

    def __init__(self, path):
        if find_model(path).kind in SERVED:
            try:
                model = Predictor(path, "rank")
            except NoSignature as error:
                raise UsageError(explain(
                    f"--reranker {path}, a SavedModel that gives no number for a pair of texts",
                    "that of a cross-encoder, or the model folder of an embedder",
                    "bert_tf.finetune --task rank first")) from error
            self._scores = lambda queries, passages: np.array(
                model({"query": queries, "passage": passages})["score"])
            return
        model = loaded(path)
        if not hasattr(model, "scores") or getattr(model, "problem", "regression") != "regression":
            raise UsageError(explain(f"--reranker {path}, which gives no number to rank by",
                                     "a cross-encoder", "bert_tf.finetune --task rank first"))
        self._scores = model.scores

    def rerank(self, queries, passages, rows, depth):
        """Return `(scores, rows)` of the first `depth` of `rows`, ranked anew.

        Args:
            queries, passages: lists of str.
            rows: int64 `[queries, n]`, what another system found, best first; -1 for none.
            depth: passages of a query that are read.

        Returns: float32 and int64 `[queries, n]`, highest first; of equal scores the order is
            kept. Passages after the first `depth` follow in their order, with scores below those.
        """
        scores = np.full(rows.shape, -np.inf, np.float32)
        pairs = np.argwhere(rows[:, :depth] >= 0)
        for part in parts(pairs, "reranking"):
            scores[tuple(part.T)] = self._scores(
                [queries[query] for query, _ in part],
                [passages[rows[query, rank]] for query, rank in part])
        check_finite(scores[tuple(pairs.T)], "the reranker gives scores")
        order = np.argsort(-scores, axis=1, kind="stable")
        scores, rows = (np.take_along_axis(values, order, 1) for values in (scores, rows))
        # Those that were not read come after, one by one.
        lowest = np.min(scores, axis=1, where=np.isfinite(scores), initial=0, keepdims=True)
        after = np.cumsum(~np.isfinite(scores), axis=1)
        return np.where(np.isfinite(scores), scores, lowest - after).astype(np.float32), rows
