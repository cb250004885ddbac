"""From what a signature answers to plain results: rows, without padding, and per task."""

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.tokenization import morphemes

# count: what has so many elements in a row, and padding after them
_COUNTED = {
    "num_tokens": ("tokens", "sequence_output", "probability", "output_word_ids"),
    "num_masks": ("tokens", "scores", "positions"),
    "num_entities": ("entities", "labels", "starts", "ends", "scores"),
}
# Outputs that are cut from a text, which is an input of that name.
_CUT = {"answers": "context", "entities": "text"}


def rows_of(outputs):
    """Split the outputs of a batch into rows.

    Args:
        outputs: dict of arrays `[B, …]`, strings as bytes.

    Returns: list of dicts: numbers as Python's, text as str (bytes, if the output's name ends in
        `_bytes`), what has more axes as arrays, of text as lists; what `num_tokens`, `num_masks` or
        `num_entities` counts without padding.

    Raises:
        BertTfError: outputs differ in the number of rows.
    """
    sizes = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise BertTfError(explain(f"outputs with {sizes} rows", "as many in each"))
    counted = {name: count for count, names in _COUNTED.items() if count in outputs
               for name in names if name in outputs}
    rows = []
    for index in range(next(iter(sizes.values()))):
        row = {name: array[index] for name, array in outputs.items()}
        for name, count in counted.items():
            row[name] = row[name][:row[count]]
        rows.append({name: _plain(value, name.endswith("_bytes")) for name, value in row.items()})
    return rows


def _plain(value, binary):
    if isinstance(value, bytes):
        return value if binary else value.decode(errors="replace")
    if isinstance(value, np.ndarray):
        return [_plain(each, binary) for each in value] if value.dtype == object else value
    return value.item()


def in_original(row, texts, analysed):
    """A row with `starts` and `ends` in the original text, and what stands there cut from it.

    Args:
        row: of `rows_of`.
        texts, analysed: dicts of the row's texts, as they are and as the model was given them.
    """
    for name, source in _CUT.items():
        if name in row and source in texts:
            starts, ends, cut = morphemes.in_original(texts[source], analysed[source],
                                                      row["starts"], row["ends"])
            row = {**row, "starts": starts, "ends": ends, name: cut}
    return row


def vectors(rows):
    """`embedding` of all rows: float32 `[N, W]`.

    Of an export that does not pool a list of `[S, W]`: zero vectors after a row's end are padding.
    """
    found = [row["embedding"] for row in rows]
    if found and found[0].ndim == 2:
        return [vectors[:np.max(np.flatnonzero(vectors.any(axis=1)), initial=-1) + 1]
                for vectors in found]
    return np.stack(found) if found else np.zeros([0, 0], np.float32)


def classification(row):
    """Of a classifier's row: dict of `label`, its `score`, and `probabilities` by label.

    Where a text may have several labels also `chosen`, a list of those that it has.
    """
    result = {"label": row["label"], "score": row["score"],
              "probabilities": dict(zip(row["labels"], row["probabilities"].tolist(),
                                        strict=True))}
    if "chosen" in row:
        result["chosen"] = [label for label, chosen in zip(row["labels"], row["chosen"],
                                                           strict=True) if chosen]
    return result


def answers(row):
    """Of a span model's row: dict of `answer`, `score`, `start` and `end` of the best answer.

    All None where the model takes the question for not answered in the context; `answers` lists all
    that were found, best first, in such dicts, and `no_answer_score` says how much "no answer" is
    preferred to the best.
    """
    found = _zip(row, answer="answers", score="scores", start="starts", end="ends")
    found = [each for each in found if each["answer"]]
    best = found[0] if row["has_answer"] and found else dict.fromkeys(
        ("answer", "score", "start", "end"))
    return {**best, "no_answer_score": row["no_answer_score"], "answers": found}


def entities(row):
    """Of a tagger's row: list of dicts of `text`, `label`, `start`, `end` and `score`."""
    return _zip(row, text="entities", label="labels", start="starts", end="ends", score="scores")


def candidates(row):
    """Of a row of `fill_mask`: for each mask a list of dicts of `token` and `score`, best first."""
    return [[{"token": token, "score": score}
             for token, score in zip(tokens, scores.tolist(), strict=True)]
            for tokens, scores in zip(row["tokens"], row["scores"], strict=True)]


def ranking(query, embedded, sentences):
    """Sentences by the cosine of their vectors to the query's.

    Args:
        query: float32 `[W]`.
        embedded: float32 `[N, W]`.
        sentences: list of N str.

    Returns: list of dicts of `sentence`, `index` in `sentences`, `score`, highest first; of equal
        scores the earlier first.
    """
    lengths = np.linalg.norm(embedded, axis=1) * np.linalg.norm(query)
    # The cosine to a vector of zeros is 0.
    scores = embedded @ query / np.where(lengths, lengths, 1)
    return [{"sentence": sentences[index], "index": int(index), "score": float(scores[index])}
            for index in np.argsort(-scores, kind="stable")]


def _zip(row, **names):
    """Dicts of what stands side by side in the lists of a row, `names` being new name: output."""
    columns = [value.tolist() if isinstance(value, np.ndarray) else value
               for value in (row[output] for output in names.values())]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
