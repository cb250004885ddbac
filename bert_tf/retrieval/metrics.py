"""Metrics of rankings, by their formulas in NumPy.

`@k` counts the first k ranks. Definitions and their conventions are those of trec_eval, which BEIR
uses too (Thakur et al. 2021): gains of NDCG are the relevances themselves, a query without a
relevant document in its ranking counts 0.
"""

import functools
import math

import numpy as np

from bert_tf.errors import BertTfError, explain

DEPTH = 10  # of MRR and NDCG


def reciprocal_rank(relevances):
    """Return 1 / the rank of the first relevant document of a ranking, 0 where none is in time.

    Args:
        relevances: `[n]` numbers, of the ranked documents from the first rank on; above 0 is
            relevant.
    """
    found = np.flatnonzero(np.asarray(relevances[:DEPTH]) > 0)
    return 1 / (1 + int(found[0])) if found.size else 0.0


def recall(relevances, relevant, k):
    """Return the fraction of the relevant documents that are in the first k ranks.

    Args:
        relevances: as of `reciprocal_rank`.
        relevant: `[m]` relevances above 0 of all relevant documents, ranked or not.
        k: ranks that count.
    """
    return np.count_nonzero(np.asarray(relevances[:k]) > 0) / len(relevant)


def ndcg(relevances, relevant, k=DEPTH):
    """Return the normalized discounted cumulative gain (Järvelin and Kekäläinen 2002).

    Args:
        relevances, relevant, k: as of `recall`.
    """
    return _dcg(relevances[:k]) / _dcg(sorted(relevant, reverse=True)[:k])


def average_precision(relevances, relevant):
    """Return the mean precision at the ranks of the relevant documents, 0 for one not ranked.

    Args:
        relevances, relevant: as of `recall`.
    """
    hits = np.asarray(relevances) > 0
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precisions[hits].sum()) / len(relevant)


def ranking_metrics(relevances, relevant, cutoffs=(1, 5, 10, 100)):
    """Compute the metrics of rankings, each the mean over the queries.

    Args:
        relevances: for each query `[n]` numbers, see `reciprocal_rank`.
        relevant: for each query `[m]` numbers above 0, see `recall`; at least one.
        cutoffs: the ranks of the recalls.

    Returns: `{"mrr@10", "ndcg@10", "map", "recall@<cutoff>" …}`, floats.

    Raises:
        BertTfError: there are no queries.
    """
    if not len(relevant):
        raise BertTfError(explain("no query to evaluate on", "at least one"))
    both = list(zip(relevances, relevant, strict=True))
    columns = {
        f"mrr@{DEPTH}": [reciprocal_rank(ranked) for ranked, _ in both],
        f"ndcg@{DEPTH}": [ndcg(*each) for each in both],
        "map": [average_precision(*each) for each in both],
        **{f"recall@{k}": [recall(*each, k) for each in both] for k in cutoffs}}
    return {name: float(np.mean(values)) for name, values in columns.items()}


def _dcg(gains):
    gains = np.asarray(gains, np.float64)
    return float(np.sum(gains / np.log2(np.arange(2, len(gains) + 2))))


def metrics_of_ranks(ranks, cutoffs=(1, 5, 10, 100)):
    """Compute the same of the ranks of each query's relevant documents.

    Args:
        ranks: a list for each query, of all its relevant documents' ranks from 1.
        cutoffs: see `ranking_metrics`.
    """
    relevances = []
    for own in ranks:
        relevances.append(np.zeros(max(own), int))
        relevances[-1][np.array(own) - 1] = 1
    return ranking_metrics(relevances, [np.ones(len(own)) for own in ranks], cutoffs)


def chance_notes(metrics, sizes):
    """Return a line, in a list, where an MRR is no better than that of an order by chance.

    Args:
        metrics: of `metrics_of_ranks`.
        sizes: `(candidates, relevant)` of each query.
    """
    chance = float(np.mean([_by_chance(*size) for size in sizes]))
    name = f"mrr@{DEPTH}"
    return [] if metrics[name] > chance else [
        f"{name} {metrics[name]:.4f} is no better than {chance:.4f}, as of an order by chance"]


@functools.lru_cache
def _by_chance(candidates, relevant):
    """Return the mean reciprocal rank at `DEPTH` over all orders of candidates."""
    orders = math.comb(candidates, relevant)
    return sum(math.comb(candidates - rank, relevant - 1) / orders / rank
               for rank in range(1, min(DEPTH, candidates) + 1))
