"""How well the likeness of two texts tells which pairs are alike, by scikit-learn."""

from bert_tf.errors import BertTfError, explain
from bert_tf.tasks.base.checks import check_pairs


def likeness_metrics(alike, likeness):
    """Metrics that need no threshold.

    Args:
        alike: `[n]` bools, which pairs are alike.
        likeness: `[n]` floats, such as cosines.

    Returns:
        `{"auc", "average_precision"}`, floats: how often a pair that is alike has more likeness
        than one that is not (0.5 by chance), and the precision, averaged over the recall.

    Raises:
        BertTfError: nothing to evaluate, numbers differ, or all pairs are of one sort.
    """
    from sklearn import metrics

    check_pairs(alike, likeness)
    if len(set(alike)) < 2:
        raise BertTfError(explain("pairs of one sort", "some that are alike, some that are not"))
    return {"auc": float(metrics.roc_auc_score(alike, likeness)),
            "average_precision": float(metrics.average_precision_score(alike, likeness))}
