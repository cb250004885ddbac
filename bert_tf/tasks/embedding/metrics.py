"""Metrics of how well similarity separates similar pairs from others, by scikit-learn."""

from bert_tf.errors import BertTfError, explain
from bert_tf.tasks.base.checks import check_pairs


def similarity_metrics(similar, scores):
    """Return metrics that need no threshold.

    Args:
        similar: `[n]` bools, which pairs are similar.
        scores: `[n]` floats, such as cosines.

    Returns:
        `{"auc", "average_precision"}`, floats: how often a similar pair has a higher score than one
        that is not (0.5 by chance), and the precision, averaged over the recall.

    Raises:
        BertTfError: nothing to evaluate, numbers differ, or all pairs are of one sort.
    """
    from sklearn import metrics

    check_pairs(similar, scores)
    if len(set(similar)) < 2:
        raise BertTfError(explain("pairs of one sort",
                                  "some that are similar, some that are not"))
    return {"auc": float(metrics.roc_auc_score(similar, scores)),
            "average_precision": float(metrics.average_precision_score(similar, scores))}
