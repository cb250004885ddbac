"""Documents that no examples are made of: copies of earlier ones, texts a model is measured on.

One pass over the text, in any number of processes, before examples are made. In memory is a hash of
each document, with `near` also one of each band of its signature: 35 bytes a document at the peak,
with `near` 150, whatever the length of the documents. What comes first in the text is kept.
"""

import numpy as np
from tqdm import tqdm

from bert_tf.data import text_copies
from bert_tf.data.documents import read_documents, split_sentences
from bert_tf.data.processes import in_order
from bert_tf.data.table_form import is_table
from bert_tf.data.tables import BadRow, read_rows, read_text_lines
from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files

_BATCH_CHARACTERS = 1_000_000  # that are given to a process at a time
_BATCH_TEXTS = 10_000


def excluded_file(text):
    """Return `(path, column)` of what `--exclude` names: `FILE` or `FILE:COLUMN`.

    Returns: the column None where each line of the file is a text.

    Raises:
        UsageError: there is no such file, or it is a table and no column is named.
    """
    path, column = text, None
    if not files.is_file(text):
        path, _, column = text.rpartition(":")
        if not (path and column and files.is_file(path)):
            raise UsageError(explain(f"--exclude {text}: no such file",
                                     "a file of a text a line, or TABLE:COLUMN"))
    if column is None and is_table(path):
        if files.suffix(path) != ".jsonl":
            raise UsageError(explain(f"--exclude {path} is a table", "its column as well",
                                     f"--exclude {path}:COLUMN"))
        column = "text"
    return path, column


def skipped_documents(paths, split, dedupe, exclude, num_processes=1, progress=False):
    """Find the documents to skip.

    Args:
        paths: files of text.
        split: how they are split into documents, see `documents.read_documents`.
        dedupe: `exact`: copies of a document that comes before; `near`: also what is nearly the
            same as a document before, or as an excluded text; None: neither.
        exclude: `(path, column)` pairs, see `excluded_file`: documents that are the same as one of
            their texts.
        num_processes: processes; the result does not depend on it.
        progress: show a bar.

    Returns:
        `(skipped, counts)`: a tuple of `(path, bits)` with one bit a document, as `np.packbits`
        makes them, for `read_kept`; and a dict of `documents`, `exact_duplicates`,
        `near_duplicates` and `excluded`, a list of `file`, `texts` and `documents`. What is the
        same as an excluded text counts there only; what is nearly so is a near duplicate.

    Raises:
        UsageError: a table has no such column, or no text is to be excluded.
        BertTfError: a file cannot be read; a process died.
    """
    near = dedupe == "near"
    lists = [_measured(enumerate(_texts(*each, split)), near, 1) for each in exclude]
    ends = []
    with tqdm(desc="looking for copies", total=sum(map(files.size, paths)), unit="B",
              unit_scale=True, disable=not progress) as bar:
        hashes, bands = _measured(_pieces(paths, split, ends, bar), near, num_processes)
    excluded = np.zeros(len(hashes), bool)
    counts = {"documents": len(hashes), "exact_duplicates": 0, "near_duplicates": 0,
              "excluded": []}
    for (path, _), (its_hashes, _) in zip(exclude, lists, strict=True):
        found = np.isin(hashes, its_hashes)
        counts["excluded"].append({"file": files.base_name(path), "texts": len(its_hashes),
                                   "documents": int(found.sum())})
        excluded |= found
    skipped = excluded.copy()
    if dedupe:
        skipped |= _come_again(hashes)
        counts["exact_duplicates"] = int((skipped & ~excluded).sum())
    if near:
        exact = skipped.copy()
        before = [part for _, its_bands in lists for part in its_bands]
        for column in range(text_copies.BANDS):
            values = np.concatenate([part[:, column] for part in before + bands])
            again = _come_again(values) & (values != 0)
            skipped |= again[len(values) - len(skipped):]
        counts["near_duplicates"] = int((skipped & ~exact).sum())
    starts = [0, *ends[:-1]]
    return tuple((path, np.packbits(skipped[start:end]).tobytes())
                 for path, start, end in zip(paths, starts, ends, strict=True)), counts


def read_kept(paths, split, skipped):
    """Yield the documents of files as `documents.read_documents` does, but those to skip.

    Args:
        paths, split: as of `read_documents`; numbers of documents are the same.
        skipped: dict of the bits of each path.
    """
    first = 0
    for path in paths:
        bits = np.frombuffer(skipped[path], np.uint8)
        for piece in read_documents([path], split):
            byte, bit = divmod(piece.document, 8)
            if not bits[byte] >> (7 - bit) & 1:
                yield piece._replace(document=first + piece.document)
        first += piece.document + 1  # a file without any is an error


def told(counts, split):
    """Return a line for each kind of documents that `skipped_documents` counted under `split`."""
    lines = []
    if counts["exact_duplicates"] or counts["near_duplicates"]:
        lines.append(f"duplicates: {counts['exact_duplicates']:,} copies and "
                     f"{counts['near_duplicates']:,} near copies of {counts['documents']:,} "
                     "documents are skipped"
                     + (", near copies of excluded texts among them" if counts["excluded"]
                        and counts["near_duplicates"] else ""))
    for each in counts["excluded"]:
        hint = "" if each["documents"] or split == "none" else (
            " (a text is compared with whole documents; with --split none every line is one)")
        lines.append(f"excluded: {each['documents']:,} documents are among the {each['texts']:,} "
                     f"texts of {each['file']}{hint}")
    return lines


def _texts(path, column, split):
    """Yield the texts of a file to exclude, with the blanks that `_pieces` gives documents."""
    rows = read_text_lines(path) if column is None else read_rows(path, [column])
    holds_text = False
    for where, row in rows:
        if isinstance(row, BadRow):
            raise row
        text = row[column or "text"]
        if isinstance(text, bytes):  # of a Parquet column without a type of text
            try:
                text = text.decode()
            except UnicodeDecodeError as error:
                raise BertTfError(explain(f"{where}: bytes that are not UTF-8 in the column "
                                          f"{column!r}", "text")) from error
        if isinstance(text, str) and text.strip():
            holds_text = True
            yield " ".join(split_sentences(text)) if split == "sentences" else text
    if not holds_text:
        raise UsageError(explain(f"--exclude {path}{column and f':{column}' or ''} holds no text",
                                 "the texts that a model will be measured on"))


def _pieces(paths, split, ends, bar):
    """Yield `(number of its document, text)` of all pieces; append the number after each file's
    last document to `ends`."""
    first = 0
    for path in paths:
        for piece in read_documents([path], split):
            yield first + piece.document, " ".join(piece.sentences)
        first += piece.document + 1  # a file without any is an error
        ends.append(first)
        bar.update(files.size(path))


def _measured(numbered, near, num_processes):
    """Return hashes uint64 `[n]` of texts and, with `near`, those of their bands, a list of uint64
    `[part of n, BANDS]`.

    Args:
        numbered: iterable of `(number, text)`; following texts of one number are parts of one.
        near: whether bands are requested.
        num_processes: processes.
    """
    all_hashes, all_bands = [], []
    waiting = None  # the last text, which may go on
    tasks = ((*batch, near) for batch in _batches(numbered))
    for (numbers, *_), (hashes, signatures) in in_order(tasks, _measure, tuple, (), num_processes,
                                                        "looked for copies"):
        numbers = np.array(numbers)
        if waiting is not None:
            numbers, hashes, signatures = (np.concatenate(pair) for pair in zip(
                waiting, (numbers, hashes, signatures), strict=True))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
            for part in range(start + 1, end):  # seldom any
                hashes[start] = text_copies.joined_hash(hashes[start], hashes[part])
        numbers, hashes = numbers[starts], hashes[starts]
        signatures = np.minimum.reduceat(signatures, starts) if near else signatures[starts]
        waiting = numbers[-1:], hashes[-1:], signatures[-1:]
        all_hashes.append(hashes[:-1])
        all_bands.append(_bands(signatures[:-1], near))
    if waiting is not None:
        all_hashes.append(waiting[1])
        all_bands.append(_bands(waiting[2], near))
    return np.concatenate([np.zeros(0, np.uint64), *all_hashes]), all_bands


def _batches(numbered):
    numbers, texts, size = [], [], 0
    for number, text in numbered:
        numbers.append(number)
        texts.append(text)
        size += len(text)
        if size >= _BATCH_CHARACTERS or len(texts) >= _BATCH_TEXTS:
            yield numbers, texts
            numbers, texts, size = [], [], 0
    if texts:
        yield numbers, texts


def _measure(_, texts, near):
    empty = np.zeros([len(texts), 0], np.uint32)
    return text_copies.text_hashes(texts), text_copies.signatures(texts) if near else empty


def _bands(signatures, near):
    """Return the hashes of bands, 0 of a text without letters and digits, which is like no
    other."""
    if not near:
        return np.zeros([0, text_copies.BANDS], np.uint64)
    nothing = (signatures == text_copies.NOTHING).all(axis=1)
    return np.where(nothing[:, None], np.uint64(0), text_copies.band_hashes(signatures))


def _come_again(values):
    """Return which of `values [n]` stand earlier in it, too: bool `[n]`."""
    again = np.ones(len(values), bool)
    again[np.unique(values, return_index=True)[1]] = False
    return again
