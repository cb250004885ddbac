"""The confusion matrix: a picture and the same numbers as JSON."""

import os

import numpy as np

from bert_tf.storage import files
from bert_tf.tasks.base.pictures import name_ticks, new_figure, write_figure
from bert_tf.tasks.classification.metrics import indicators, label_report

_MOST_NUMBERED = 25  # labels; of more the cells are too small for numbers
_LONGEST = 24  # characters of a label in the picture


def write_confusion(folder, gold, predicted, labels):
    """Write `confusion.png` and `confusion.json` into a folder.

    Of one label an example, cell (i, j) counts the examples of label i that were predicted as label
    j. Of several, each label has a row of how often it was `found`, `missed`, `wrongly predicted`
    and `rightly not predicted`. The colour is the cell's fraction of its row.

    Args:
        folder: made where absent.
        gold, predicted, labels: as of `classification_metrics`, or of `multi_label_metrics`.

    Returns: what `write_figure` returns of the picture.

    Raises:
        BertTfError: as those.
    """
    report = label_report(gold, predicted, labels)
    if isinstance(gold[0], tuple):
        right, predictions = (values.astype(bool) for values in indicators(gold, predicted, labels))
        columns = ["found", "missed", "wrongly predicted", "rightly not predicted"]
        counts = np.stack([right & predictions, right & ~predictions, ~right & predictions,
                           ~right & ~predictions])
        counts = counts.sum(axis=1).T
    else:
        from sklearn import metrics

        columns = list(labels)
        counts = metrics.confusion_matrix(gold, predicted, labels=columns)
    files.make_folder(folder)
    files.write_json(os.path.join(folder, "confusion.json"), {
        "rows": list(labels), "columns": columns, "counts": counts.tolist(), "labels": report})
    return write_figure(os.path.join(folder, "confusion.png"),
                        _picture(counts, list(labels), columns))


def _picture(counts, rows, columns):
    """Draw a matrix of counts as a figure, rows from the top."""
    size = min(2.5 + 0.45 * max(counts.shape), 16)
    figure = new_figure(size + 1.5, size)
    axes = figure.subplots()
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    figure.colorbar(image, label="fraction of the row")
    name_ticks(axes.xaxis, [_shortened(name) for name in columns], rotation=45, ha="right",
               rotation_mode="anchor")
    name_ticks(axes.yaxis, [_shortened(name) for name in rows])
    axes.set_xlabel("predicted")
    axes.set_ylabel("label")
    if max(counts.shape) <= _MOST_NUMBERED:
        for (row, column), count in np.ndenumerate(counts):
            axes.text(column, row, str(count), ha="center", va="center",
                      color="white" if fractions[row, column] > 0.5 else "black")
    return figure


def _shortened(name):
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST - 1]}…"
