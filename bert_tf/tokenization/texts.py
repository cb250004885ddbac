"""Texts as a list, whatever held them: what every way into a model begins with."""

import itertools
import re

from bert_tf.errors import UsageError, explain

_SHOWN = 40  # characters of a value in an error
_AT_ONCE, _CHARACTERS = 1024, 1 << 22  # texts that are held at a time, and their characters
# What ends a sentence without a blank after it.
_IDEOGRAPHIC_END = re.compile(r"""[。！？]["'”’」』）]*\s*\Z""")


def text_list(texts, name="texts"):
    """The texts in any container.

    Args:
        texts: iterable of str or bytes: list, tuple, NumPy array, string tensor, pandas Series,
            column of a `datasets.Dataset`, generator. Bytes are UTF-8.
        name: what an error calls it.

    Returns: list of str; `texts` itself where it is one.

    Raises:
        UsageError: a single string, a table or no container at all, or something in it is no text
            or has half a surrogate pair.
    """
    if isinstance(texts, str | bytes):
        raise UsageError(explain(f"{name}: the string {texts[:_SHOWN]!r}", "a list of strings",
                                 "[text]"))
    if hasattr(texts, "column_names") or hasattr(texts, "columns"):
        raise UsageError(explain(f"{name}: a table", "a column of it", 'table["text"]'))
    if hasattr(texts, "numpy"):
        texts = texts.numpy()
    if hasattr(texts, "reshape") and len(getattr(texts, "shape", ())) == 2 and (
            texts.shape[1] == 1):
        texts = texts.reshape(-1)  # Keras makes columns of vectors
    try:
        listed = texts if isinstance(texts, list) else list(texts)
    except TypeError:
        raise UsageError(explain(f"{name}: {_shown(texts)}", "a list of strings")) from None
    for place, value in enumerate(listed):
        if not isinstance(value, str | bytes):
            raise UsageError(explain(f"{name}[{place}] is {_shown(value)}", "a string",
                                     "leaving it out, or ''"))
        try:
            if isinstance(value, str):
                value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(explain(f"{name}[{place}]: half a surrogate pair at character "
                                     f"{error.start}", "whole characters")) from None
    if any(isinstance(value, bytes) for value in listed):
        return [value.decode(errors="replace") if isinstance(value, bytes) else value
                for value in listed]
    return listed


def in_batches(texts):
    """Yield lists of the texts of an iterable, each as many as memory has space for.

    That is some number of them, or fewer where they are long, as documents of `.jsonl` may be. What
    is no text is left for whoever reads them to refuse.
    """
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text) if isinstance(text, (str, bytes)) else 0
        if len(batch) == _AT_ONCE or size >= _CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def after_blanks(lines):
    """Return lines, list of str, as running text has them: with the blank before them that the line
    end stands for.

    None comes before the first line, after a blank line, which ends a document, or after an
    ideographic mark such as `。`.
    """
    return [f" {line}" if line[:1].strip() and before.strip()
            and not _IDEOGRAPHIC_END.search(before) else line
            for before, line in itertools.pairwise(["", *lines])]


def check_batch_size(batch_size):
    """Return the number of texts that are read together, or raise UsageError if it is below 1."""
    if batch_size < 1:
        raise UsageError(explain(f"batch_size={batch_size}", "at least 1"))
    return batch_size


def _shown(value):
    text = repr(value)
    kind = "" if value is None else f" of type {type(value).__name__}"
    return (text if len(text) <= _SHOWN else text[:_SHOWN] + "…") + kind
