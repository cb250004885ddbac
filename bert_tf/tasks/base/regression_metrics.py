"""Metrics of predicted numbers, for example the similarity of two sentences, by SciPy."""

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.tasks.base.checks import check_pairs


def regression_metrics(gold, predicted):
    """Compute the metrics of one number an example.

    Args:
        gold: the labels, `[n]` floats.
        predicted: `[n]` floats.

    Returns:
        `{"pearson", "spearman", "mse", "mae"}`, floats. A correlation is 0 where it is not defined:
        of one example, or where all of `gold` or of `predicted` is the same.

    Raises:
        BertTfError: nothing to evaluate, numbers of examples differ, a value is not finite.
    """
    from scipy import stats

    check_pairs(gold, predicted)
    gold, predicted = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    for name, values in (("gold", gold), ("predicted", predicted)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise BertTfError(explain(f"{name} value {values[bad[0]]} of example {bad[0]}",
                                      "a finite number"))
    varied = np.ptp(gold) > 0 and np.ptp(predicted) > 0
    return {"pearson": float(stats.pearsonr(gold, predicted).statistic) if varied else 0.0,
            "spearman": float(stats.spearmanr(gold, predicted).statistic) if varied else 0.0,
            "mse": float(np.mean((gold - predicted) ** 2)),
            "mae": float(np.mean(np.abs(gold - predicted)))}
