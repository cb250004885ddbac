"""Batches of texts of like length, as many together as their characters say."""

import sys

import numpy as np
import tqdm

from bert_tf.data.task_input import by_length
from bert_tf.tokenization.texts import check_batch_size

# Of the texts of a batch, padding counted: some 4,096 tokens of English, which keep the cores busy.
BATCH_CHARACTERS = 1 << 14
_OF_A_TOKEN, _AT_MOST = 4, 8  # characters of a token, of most languages fewer


def sizes_of(columns, window=None, added=0, least=0):
    """Return how much there is to compute of each row: int64 `[n]`, characters of its texts.

    Args:
        columns: one or two sequences of n texts each.
        window: tokens to which texts are truncated: of longer ones a part alone counts; None where
            all of them are read.
        added: tokens that come to every row: special ones, those of a template.
        least: tokens that a row counts for at least.
    """
    most = np.iinfo(np.int64).max if window is None else window * _AT_MOST
    sizes = sum(np.minimum(np.array([len(text) for text in column], np.int64), most)
                for column in columns)
    return np.maximum(sizes + _OF_A_TOKEN * added, _OF_A_TOKEN * least)


def batches_by_length(sizes, batch_size=None, progress=False):
    """Yield int64 arrays: the rows of each batch, of like length.

    Args:
        sizes: of `sizes_of`.
        batch_size: texts of a batch; None: of texts of `BATCH_CHARACTERS` together.
        progress: show a bar where it takes long.

    Raises:
        UsageError: `batch_size` is below 1.
    """
    if batch_size is None:
        batches = by_length(sizes, BATCH_CHARACTERS)
    else:
        check_batch_size(batch_size)
        order = np.argsort(sizes, kind="stable")
        batches = [order[start:start + batch_size] for start in range(0, len(order), batch_size)]
    with progress_bar(len(sizes), progress) as bar:
        for rows in batches:
            yield rows
            bar.update(len(rows))


def progress_bar(total, shown=True):
    """Return the bar of a prediction of so many rows, which shows where it takes long."""
    return tqdm.tqdm(desc="predicting", total=total, delay=2, leave=False, disable=not shown,
                     mininterval=0.2 if sys.stderr.isatty() else 10.0)
