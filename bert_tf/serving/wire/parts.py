"""A large request part by part: a model is asked for one after the other."""

import itertools

_BYTES = 8 << 20  # of texts in a part; tokenizing takes many times as much memory


def cut(inputs, rows=None):
    """Cut inputs into parts of consecutive rows.

    Args:
        inputs: `{name: list of str, object array [B] of bytes, or array [B, …] of numbers}`.
        rows: of a part at most; None for any number.

    Returns: list of dicts like `inputs`, of which each has at most 8 MB of texts or a single row;
        without rows one part.
    """
    count = len(next(iter(inputs.values())))
    sizes = [0] * count
    for values in inputs.values():
        if type(values) is list or values.dtype == object:
            sizes = [size + _bytes(text) for size, text in zip(sizes, values, strict=True)]
    starts, held = [0], 0
    for place, size in enumerate(sizes):
        held += size
        if place > starts[-1] and (held > _BYTES or place - starts[-1] == rows):
            starts.append(place)
            held = size
    return [{name: values[start:end] for name, values in inputs.items()}
            for start, end in itertools.pairwise([*starts, count])]


def _bytes(text):
    return len(text if type(text) is bytes or text.isascii() else text.encode())
