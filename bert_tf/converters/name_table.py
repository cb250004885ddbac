"""Two-column tables of tensor names, ours and theirs, applied in either direction.

    ROWS = (Row("bert/encoder/layer_{i}/output/dense/kernel",
                "bert.encoder.layer.{i}.output.dense.weight", TRANSPOSED), …)

A lower-case field such as `{i}` stands for a number, an upper-case one such as `{F}` for a word
(letters, digits, `_`); the other column uses the same fields. A row that packs several of our
tensors into one of theirs has a tuple on our side, one that splits ours a tuple on theirs. The
first row that matches is taken.
"""

import fnmatch
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_tf.converters.checkpoint import Tensors, check_shapes
from bert_tf.errors import UsageError


class Layout(NamedTuple):
    """A pair of inverse array functions, and what they do to shapes."""

    shapes: Callable  # list of our shapes -> list of theirs
    to_theirs: Callable  # list of our arrays -> list of theirs
    to_ours: Callable  # list of their arrays, list of our shapes -> list of our arrays


def _reshaped(shape):
    """One tensor of another shape, elements in the same order."""
    return Layout(lambda shapes: [shape(shapes[0])],
                  lambda arrays: [arrays[0].reshape(shape(arrays[0].shape))],
                  lambda arrays, shapes: [arrays[0].reshape(shapes[0])])


def split_last(parts):
    """Ours `[…, N * H]` is theirs `[…, N, H]` with N = `parts` (heads)."""
    return _reshaped(lambda shape: (*shape[:-1], parts, shape[-1] // parts))


def split_first(parts):
    """Ours `[N * H, …]` is theirs `[N, H, …]` with N = `parts` (heads)."""
    return _reshaped(lambda shape: (parts, shape[0] // parts, *shape[1:]))


SAME = _reshaped(lambda shape: shape)
# Kernels: ours `[in, out]`, PyTorch's Linear `[out, in]`.
TRANSPOSED = Layout(lambda shapes: [shapes[0][::-1]],
                    lambda arrays: [arrays[0].T],
                    lambda arrays, shapes: [arrays[0].T])
# Several of ours side by side along the last axis (query, key and value of GPT's c_attn).
SIDE_BY_SIDE = Layout(
    lambda shapes: [(*shapes[0][:-1], sum(shape[-1] for shape in shapes))],
    lambda arrays: [np.concatenate(arrays, axis=-1)],
    lambda arrays, shapes: np.split(arrays[0], np.cumsum([s[-1] for s in shapes])[:-1], axis=-1))
# Several of PyTorch's Linears one on top of the other (query, key and value of ModernBERT's Wqkv).
STACKED = Layout(
    lambda shapes: [(sum(shape[1] for shape in shapes), shapes[0][0])],
    lambda arrays: [np.concatenate([array.T for array in arrays])],
    lambda arrays, shapes: [part.T for part in
                            np.split(arrays[0], np.cumsum([s[1] for s in shapes])[:-1])])


def by_head(parts):
    """Several of PyTorch's Linears, of each of N = `parts` heads those of one after the other
    (query, key and value of DeBERTa's in_proj)."""
    return Layout(
        STACKED.shapes,
        lambda arrays: [np.stack([array.T.reshape(parts, -1, len(array)) for array in arrays], 1)
                        .reshape(-1, len(arrays[0]))],
        lambda arrays, shapes: [part.reshape(-1, arrays[0].shape[1]).T for part in np.moveaxis(
            arrays[0].reshape(parts, len(shapes), -1, arrays[0].shape[1]), 1, 0)])


def by_pairs(parts):
    """One of PyTorch's Linears, or its bias, whose N = `parts` heads have in neighbouring columns
    what rotary positions turn together, ours in two halves."""
    return Layout(
        lambda shapes: [shapes[0][::-1]],
        lambda arrays: [np.moveaxis(arrays[0].T.reshape(parts, 2, -1, *arrays[0].shape[:-1]), 1, 2)
                        .reshape(arrays[0].shape[::-1])],
        lambda arrays, shapes: [np.moveaxis(arrays[0].reshape(
            parts, -1, 2, *arrays[0].shape[1:]), 2, 1).reshape(arrays[0].shape).T])


# One of ours whose halves, side by side, are two of PyTorch's Linears (gated feed-forward).
HALVES = Layout(
    lambda shapes: [(shapes[0][1] // 2, shapes[0][0])] * 2,
    lambda arrays: [half.T for half in np.split(arrays[0], 2, axis=1)],
    lambda arrays, shapes: [np.concatenate([array.T for array in arrays], axis=1)])
# One of ours whose halves are one of PyTorch's Linears in the other order.
EXCHANGED = Layout(
    lambda shapes: [shapes[0][::-1]],
    lambda arrays: [np.roll(arrays[0], arrays[0].shape[1] // 2, axis=1).T],
    lambda arrays, shapes: [np.roll(arrays[0].T, arrays[0].shape[0] // 2, axis=1)])


def with_first_row(rows):
    """Ours `[N, H]`, read only, is one of theirs and row 0 of another `[rows, H]`, added to all."""
    return Layout(lambda shapes: [shapes[0], (rows, shapes[0][1])], None,
                  lambda arrays, shapes: [arrays[0] + arrays[1][0]])


class Row(NamedTuple):
    """Our name or names for what theirs, one or several, hold, and how the arrays differ."""

    ours: str | tuple[str, ...]
    theirs: str | tuple[str, ...]
    layout: Layout = SAME


def matches(name, patterns):
    """Whether `name` fits one of the shell `patterns` (`*` stands for anything)."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def to_ours(rows, theirs, expected, source, ignored=()):
    """Read: the tensors of a file under our names.

    Args:
        rows: the format's table.
        theirs: `Tensors` of the file.
        expected: `parameter_shapes` of the model in the file.
        source: the file's name, for messages.
        ignored: shell patterns of their names that no model needs; they are left behind.

    Returns: `Tensors` with exactly the names `expected`, and the tuple of their names that were
        left behind.

    Raises:
        UsageError: a tensor is missing, has no place, or has a wrong shape; all are listed.
    """
    groups = _groups(rows, expected, source)
    wanted = {name: shape for names, others, layout in groups for name, shape in zip(
        others, layout.shapes([expected[ours] for ours in names]), strict=True)}
    dropped = tuple(name for name in theirs
                    if name not in wanted and matches(name, ignored))
    check_shapes(wanted, {name: shape for name, shape in theirs.shapes.items()
                          if name not in dropped}, source)
    place = {ours: (index, *group) for group in groups for index, ours in enumerate(group[0])}

    def load(ours):
        index, names, others, layout = place[ours]
        return layout.to_ours([theirs[name] for name in others],
                              [expected[name] for name in names])[index]

    return Tensors(expected, load), dropped


def to_theirs(rows, ours, target, not_held=()):
    """Write: our tensors under the names of a format.

    Args:
        rows: the format's table.
        ours: `Tensors` of a checkpoint.
        target: the format's name, for messages.
        not_held: shell patterns of our names for which the format has no place.

    Returns: `Tensors` under their names, and the list of our names that the format cannot hold.

    Raises:
        UsageError: a tensor has no row and is not among `not_held`.
    """
    dropped = [name for name in ours if matches(name, not_held)]
    held = {name: shape for name, shape in ours.shapes.items() if name not in dropped}
    groups = _groups(rows, held, target)
    shapes = {name: shape for names, others, layout in groups for name, shape in zip(
        others, layout.shapes([held[each] for each in names]), strict=True)}
    place = {name: (index, names, layout) for names, others, layout in groups
             for index, name in enumerate(others)}

    def load(name):
        index, names, layout = place[name]
        return layout.to_theirs([ours[each] for each in names])[index]

    return Tensors(shapes, load), dropped


def _groups(rows, names, where):
    """`(our names, their names, layout)` of what belongs together, in the order of `names`."""
    compiled = [(_regular_expression(_listed(ours)[0]), _listed(ours), _listed(theirs), layout)
                for ours, theirs, layout in rows]
    groups, placed = [], set()
    for name in names:
        if name in placed:
            continue
        for expression, our_columns, their_columns, layout in compiled:
            if match := expression.fullmatch(name):
                fields = match.groupdict()
                ours, others = ([column.format(**fields) for column in columns]
                                for columns in (our_columns, their_columns))
                groups.append((ours, others, layout))
                placed.update(ours)
                break
    homeless = [name for name in names if name not in placed]
    if homeless:
        raise UsageError(f"{where} has no place for {', '.join(homeless[:8])}")
    return groups


def _listed(names):
    return (names,) if isinstance(names, str) else names


def _regular_expression(pattern):
    parts = re.split(r"\{(\w+)\}", pattern)
    fields = [f"(?P<{name}>{r'[0-9]+' if name.islower() else r'[A-Za-z0-9_]+'})"
              for name in parts[1::2]]
    return re.compile("".join(re.escape(text) + (fields[i] if i < len(fields) else "")
                              for i, text in enumerate(parts[::2])))
