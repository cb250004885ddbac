"""Queries with their candidates as what a `Ranker` learns from, and what it predicts."""

import numpy as np

from bert_tf.data.task_input import Features, Ragged
from bert_tf.tasks.base.text_features import read_texts, truncated_rows
from bert_tf.tokenization.morphemes import pretokenize


def list_features(lists, preprocessor, examples=None):
    """Tokenize queries with their candidates; a pair that is in several lists is kept once.

    Args:
        lists: list of `(query, candidates)`, the first candidate being the positive.
        preprocessor: a `TextPreprocessor`.
        examples: int `[n]`, the example that each list is of; None for one each.

    Returns:
        `Features`, a row a list, with int32 `label_ids [n, size]`: 1, 0, and -1 where a list
        has fewer candidates than another.
    """
    rows, place, truncated = _pairs([(query, text) for query, texts in lists for text in texts],
                                    preprocessor)
    sizes = np.array([len(texts) for _, texts in lists])
    present = np.arange(sizes.max()) < sizes[:, np.newaxis]
    members = np.full(present.shape, -1, np.int64)
    members[present] = place
    labels = np.where(present, 0, -1).astype(np.int32)
    labels[:, 0] = 1
    rows["label_ids"] = labels
    example = np.arange(len(lists)) if examples is None else np.asarray(examples)
    longer = np.any(present & truncated[members], axis=1)
    return Features(rows, example, lists=members, truncated=len(np.unique(example[longer])))


def pair_features(lists, preprocessor):
    """Tokenize the same to be predicted.

    Returns: `Features`, a row a pair, `example` being the number of its list; pairs come in the
        order of the lists.
    """
    sizes = [len(texts) for _, texts in lists]
    rows, place, truncated = _pairs([(query, text) for query, texts in lists for text in texts],
                                    preprocessor)
    example = np.repeat(np.arange(len(lists)), sizes)
    rows = {name: Ragged.of_rows([ragged[row] for row in place]) for name, ragged in rows.items()}
    return Features(rows, example, truncated=len(set(example[truncated[place]].tolist())))


def _pairs(pairs, preprocessor):
    """Return `(rows, place, truncated)`: Ragged rows of the different pairs, int64 `[len(pairs)]`
    which row each is, bool `[rows]`."""
    different = {}
    place = np.array([different.setdefault(pair, len(different)) for pair in pairs])
    texts = list(dict.fromkeys(text for pair in different for text in pair))
    read = dict(zip(texts, pretokenize(preprocessor.tokenizer, texts, progress=True), strict=True))
    columns = {"text_a": [read[query] for query, _ in different],
               "text_b": [read[text] for _, text in different]}
    rows = read_texts(columns, preprocessor)
    truncated = np.zeros(len(different), bool)
    truncated[truncated_rows(rows, columns, preprocessor)] = True
    return rows, place, truncated
