"""Metrics of predicted labels, one or several an example, by scikit-learn."""

import numpy as np

from bert_tf.tasks.base.checks import check_labels, check_pairs


def classification_metrics(gold, predicted, labels, counts=None):
    """Compute the metrics of one label an example.

    Args:
        gold: the labels, list of str.
        predicted: as many labels, list of str.
        labels: all labels of the model, list of str. Of two the last is the positive one.
        counts: how many examples there are of each pair of `gold` and `predicted`, list of int;
            None where it is one.

    Returns:
        `{"accuracy", "mcc", "f1", "macro_f1"}`, floats. `mcc` is Matthews' correlation (Matthews
        1975, for more labels Gorodkin 2004), 0 where the labels or the predictions are all the
        same. `macro_f1` is the mean F1 of the labels that occur in `gold` or `predicted`, `f1` that
        of the positive label or, of more than two labels, `macro_f1`. A label that was never right
        has F1 0.

    Raises:
        BertTfError: nothing to evaluate, numbers differ, a label that is not in `labels`.
    """
    from sklearn import metrics

    check_pairs(gold, predicted)
    check_labels([*gold, *predicted], labels)
    macro = metrics.f1_score(gold, predicted, average="macro", zero_division=0,
                             sample_weight=counts)
    f1 = macro if len(labels) != 2 else metrics.f1_score(
        gold, predicted, labels=labels[-1:], average="macro", zero_division=0,
        sample_weight=counts)
    varied = len(set(gold)) > 1 and len(set(predicted)) > 1
    mcc = metrics.matthews_corrcoef(gold, predicted, sample_weight=counts) if varied else 0
    return {"accuracy": float(metrics.accuracy_score(gold, predicted, sample_weight=counts)),
            "mcc": float(mcc),
            "f1": float(f1), "macro_f1": float(macro)}


def multi_label_metrics(gold, predicted, labels, counts=None):
    """Compute the metrics of any number of labels an example.

    Args:
        gold: the labels of each example, list of tuples of str; may be empty tuples.
        predicted: as many tuples.
        labels: all labels of the model, list of str.
        counts: as of `classification_metrics`.

    Returns:
        `{"accuracy", "f1", "macro_f1", "precision", "recall"}`, floats: `accuracy` is the fraction
        of examples with exactly the right labels, `f1`, `precision` and `recall` count all
        decisions together (micro), `macro_f1` is the mean F1 of the labels that occur; 0 where
        nothing was to be found and nothing was.

    Raises:
        BertTfError: as `classification_metrics`.
    """
    from sklearn import metrics

    right, predictions = indicators(gold, predicted, labels)
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        right.ravel(), predictions.ravel(), average="binary", zero_division=0,
        sample_weight=None if counts is None else np.repeat(counts, len(labels)))
    f1_of = [metrics.f1_score(*column, zero_division=0, sample_weight=counts)
             for column in zip(right.T, predictions.T, strict=True) if np.any(column)]
    exact = (right == predictions).all(axis=1)
    return {"accuracy": float(np.average(exact, weights=counts)), "f1": float(f1),
            "macro_f1": float(np.mean(f1_of or 0)),
            "precision": float(precision), "recall": float(recall)}


def indicators(gold, predicted, labels):
    """Return whether each example has each label, two int arrays `[examples, labels]` of 0 and
    1."""
    from sklearn.preprocessing import MultiLabelBinarizer

    check_pairs(gold, predicted)
    check_labels([name for names in (*gold, *predicted) for name in names], labels)
    encode = MultiLabelBinarizer(classes=list(labels)).fit_transform
    return encode(gold), encode(predicted)


def label_report(gold, predicted, labels):
    """Return precision, recall, F1 and number of examples of every label.

    Args:
        gold, predicted, labels: as of `classification_metrics`, or of `multi_label_metrics`.

    Returns:
        `{label: {"precision", "recall", "f1", "examples"}}` in the order of `labels`; a fraction
        whose denominator is 0 is 0.
    """
    from sklearn.metrics import precision_recall_fscore_support

    if gold and isinstance(gold[0], tuple):
        right, predictions = indicators(gold, predicted, labels)
        columns = np.hstack([precision_recall_fscore_support(*column, labels=[1], zero_division=0)
                             for column in zip(right.T, predictions.T, strict=True)])
    else:
        check_pairs(gold, predicted)
        check_labels([*gold, *predicted], labels)
        columns = precision_recall_fscore_support(gold, predicted, labels=list(labels),
                                                  zero_division=0)
    return {label: {"precision": float(precision), "recall": float(recall), "f1": float(f1),
                    "examples": int(count)}
            for label, precision, recall, f1, count in zip(labels, *columns, strict=True)}
