"""From what a signature answers to rows, without padding, with offsets into the text as given."""

import numpy as np

from bert_tf.errors import BertTfError, explain
from bert_tf.serving.wire import results as wire_results
from bert_tf.tokenization import morphemes


def rows_of(outputs, results):
    """Split the outputs of a batch into rows.

    Args:
        outputs: dict of arrays `[B, …]`, strings as bytes.
        results: `{name: result}`, see `wire.results`.

    Returns: list of dicts: numbers as Python's, text as str (bytes, if the output's name ends in
        `_bytes`), what has more axes as arrays, of text as lists; what a result counts without
        padding.

    Raises:
        BertTfError: outputs differ in the number of rows.
    """
    sizes = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise BertTfError(explain(f"outputs with {sizes} rows", "as many in each"))
    rows = []
    for index in range(next(iter(sizes.values()))):
        row = {name: array[index] for name, array in outputs.items()}
        rows.append({name: _plain(value, name.endswith("_bytes"))
                     for name, value in wire_results.cut_padding(row, results).items()})
    return rows


def _plain(value, binary):
    if isinstance(value, bytes):
        return value if binary else value.decode(errors="replace")
    if isinstance(value, np.ndarray):
        return [_plain(each, binary) for each in value] if value.dtype == object else value
    return value.item()


def in_original(row, results, texts, analysed):
    """Return a row with offsets into the original text, and what stands there cut from it.

    Args:
        row: of `rows_of`.
        results: `{name: result}`.
        texts, analysed: dicts of the row's texts, as they are and as the model was given them.
    """
    for result in results.values():
        if result["kind"] in ("span", "spans") and result["of"] in texts:
            row = {**row, **_cut_anew(row, result, texts[result["of"]], analysed[result["of"]])}
    return row


def _cut_anew(row, result, text, analysed):
    """The outputs of a span or of spans in the original text."""
    parts = [result[part] for part in ("start", "end", "text")]
    starts, ends = (row[name] if result["kind"] == "spans" else [row[name]] for name in parts[:2])
    found = morphemes.in_original(text, analysed, starts, ends)
    if result["kind"] == "span":
        found = [values[0] for values in found]
    return dict(zip(parts, found, strict=True))


def vectors(rows):
    """Return `embedding` of all rows: float32 `[N, W]`.

    Of an export that does not pool a list of `[S, W]`: zero vectors after a row's end are padding.
    """
    found = [row["embedding"] for row in rows]
    if found and found[0].ndim == 2:
        return [vectors[:np.max(np.flatnonzero(vectors.any(axis=1)), initial=-1) + 1]
                for vectors in found]
    return np.stack(found) if found else np.zeros([0, 0], np.float32)
