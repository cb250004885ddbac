"""Batches of labelled examples by length, a pure function of the seed and the step.

Rows of one length go together, so that hardly anything is padding: an epoch's permutation is split
into chunks of many batches, each chunk is sorted by length and split into batches, and the batches
are shuffled; what does not fill a batch comes last. A batch is put together inside the graph from
flat arrays.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.data.made_ahead import made_ahead
from bert_tf.errors import BertTfError, UsageError, explain

_CHUNK = 64  # batches that are sorted together
# Beside the ids' padding; of ragged labels it is "ignored".
_FILLS = {"input_type_ids": 0, "input_mask": 0, "vector_mask": 0}
_IGNORED = -1


class Ragged:
    """Rows of different lengths: flat `values` and int64 `splits [n + 1]` where each begins."""

    def __init__(self, values, splits):
        self.values = np.asarray(values)
        self.splits = np.asarray(splits, np.int64)

    @classmethod
    def of_rows(cls, rows, dtype=np.int32):
        """Build one from a list of lists."""
        splits = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
        values = np.concatenate([np.asarray(row, dtype) for row in rows] or [np.zeros(0, dtype)])
        return cls(values, splits)

    def __len__(self):
        return len(self.splits) - 1

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return self.values[self.splits[index]:self.splits[index + 1]]

    @property
    def lengths(self):
        """The lengths, int64 `[n]`."""
        return np.diff(self.splits)

    def tensor(self):
        """Return the rows as a `tf.RaggedTensor`."""
        return tf.RaggedTensor.from_row_splits(self.values, self.splits, validate=False)


class Shared:
    """Rows that are lists of numbers, one list for many rows: Ragged `lists`, and int64 `[n]` which
    of them each row has. In a batch they are as long as the longest of all, with the greatest int32
    after the end: ascending lists stay so.
    """

    def __init__(self, lists, which):
        self.lists = lists
        self.which = np.asarray(which, np.int64)

    def __len__(self):
        return len(self.which)

    def __getitem__(self, index):
        return self.lists[self.which[index]]


@dataclasses.dataclass(frozen=True)
class Features:
    """The rows that a model is trained on or predicts.

    Attributes:
        rows: `input_word_ids` and `input_type_ids`, Ragged int32 without padding; labels, arrays
            `[n, …]`, Shared or, one a token, Ragged; optional `example_weights` float32 `[n]`, and
            Ragged `input_mask` where not all of a row is real.
        example: int64 `[n]`, index of the example that each row is of.
        window: None, or the length of the windows that a row is split into: its ids are those of
            all its windows one after the other, all but the last one full.
        truncated: how many examples were longer than what is read of them.
        lists: None, or int64 `[n, size]`: which of `rows` an example is a list of, -1 for none; one
            may be in several. Labels and weights are those of the lists.
        of_rows: with `lists`, further arrays, with a row for each of the rows that lists are of.
    """

    rows: dict
    example: np.ndarray
    window: int | None = None
    truncated: int = 0
    lists: np.ndarray | None = None
    of_rows: dict = dataclasses.field(default_factory=dict)

    def __len__(self):
        return len(self.example)

    @property
    def lengths(self):
        """The tokens of each row, of a list those of its longest, int64 `[n]`."""
        lengths = self.rows["input_word_ids"].lengths
        if self.lists is None:
            return lengths
        return np.where(self.lists < 0, 0, lengths[self.lists]).max(axis=1)

    def widths(self, longest):
        """Return the length to which rows are padded of which the longest has so many tokens."""
        if self.window is None:
            return longest
        return np.where(longest <= self.window, longest,
                        -(-longest // self.window) * self.window)


class TaskInput:
    """Batches of `Features` for `training.loop.train`.

    Args:
        features: at least one row.
        batch_size: rows of a step, over all replicas.
        seed: of the order.
        bucket: put rows of like length together.
        pad_id: id of the padding token.
        shuffle: another order every epoch; else the rows stay in their order.
        epochs: passes over the rows; None is without end.

    Raises:
        BertTfError: there are no rows.
    """

    def __init__(self, features, batch_size, seed, bucket=True, pad_id=0, shuffle=True,
                 epochs=None):
        if not len(features):
            raise BertTfError("there are no examples; expected at least one")
        self.features = features
        self.batch_size = batch_size
        self.seed = seed
        self.bucket = bucket
        self.shuffle = shuffle
        self.epochs = epochs
        self._pad_id = pad_id
        self._make_batch = _BatchMaker(features, pad_id)

    def token_ids(self):
        """Return the ids that occur in the batches, each once, int `[k]`."""
        return np.union1d(self.features.rows["input_word_ids"].values, self._pad_id)

    @property
    def steps_per_epoch(self):
        """Batches of an epoch; the last one may be padded with rows of weight 0."""
        return -(-len(self.features) // self.batch_size)

    def dataset(self, start_step=0, num_replicas=1, replicas=(0,)):
        """Return the batches, step by step and, within a step, replica by replica.

        Args:
            start_step: first step; the batches are those that an uninterrupted run has there.
            num_replicas: replicas that share a batch; each has a contiguous part of it.
            replicas: those whose batches are requested, in order.

        Returns:
            A tf.data.Dataset of dicts, with b = batch_size / num_replicas: int32
            `input_word_ids input_mask input_type_ids` `[b, seq_length]`, of rows in windows
            `[b, windows, seq_length]`, of lists `[b, size, seq_length]`, padded to the longest row
            of the step, on whatever replica; the labels; float32 `example_weights [b]`; of rows in
            windows int64 `first_window [b]`, the first window of each among those of the step;
            int64 scalar `first_example`, the position in the stream.

        Raises:
            UsageError: the batch does not divide among the replicas.
        """
        if self.batch_size % num_replicas:
            near = -(-self.batch_size // num_replicas) * num_replicas
            raise UsageError(explain(f"batch_size={self.batch_size} on {num_replicas} replicas",
                                     "a multiple", f"batch_size={near}"))
        size = self.batch_size // num_replicas
        replicas = np.asarray(list(replicas), np.int64)
        epoch, skipped = divmod(start_step, self.steps_per_epoch)

        def plan(epoch):
            *parts, widths = self._plan(int(epoch))
            rows = parts[0]
            parts = [part.reshape(-1, num_replicas, size)[:, replicas].reshape(-1, size)
                     for part in parts]
            first = (epoch * len(rows) + np.arange(len(rows)))[:, None] * self.batch_size
            return (*parts, widths.repeat(len(replicas)), (first + replicas * size).reshape(-1))

        def batches_of(epoch):
            parts = tf.numpy_function(plan, [epoch], [tf.int64, tf.float32, *[tf.int64] * 3])
            for part, shape in zip(parts, [[None, size]] * 3 + [[None]] * 2, strict=True):
                part.set_shape(shape)
            return tf.data.Dataset.from_tensor_slices(tuple(parts))

        numbers = (tf.data.Dataset.counter(epoch) if self.epochs is None
                   else tf.data.Dataset.range(epoch, self.epochs))
        plans = numbers.flat_map(tf.autograph.experimental.do_not_convert(batches_of))
        return made_ahead(plans.skip(skipped * len(replicas)), self._batch, 4 * len(replicas))

    def _plan(self, epoch):
        """Return rows int64, weights float32 and first windows int64 `[steps, batch_size]`, the
        latter of no meaning without windows, and widths int64 `[steps]`."""
        rows = batch_rows(self.features.lengths, self.batch_size,
                          [self.seed, epoch] if self.shuffle else None, self.bucket)
        weights = (rows >= 0).astype(np.float32)
        rows = np.where(rows >= 0, rows, rows[:, :1])
        lengths = self.features.lengths[rows]
        windows = -(-lengths // (self.features.window or 1))
        return (rows, weights, windows.cumsum(axis=1) - windows,
                self.features.widths(lengths.max(axis=1)))

    def _batch(self, rows, weights, first_window, width, first_example):
        batch = self._make_batch(rows, width)
        if self.features.window is not None:
            batch["first_window"] = first_window
        batch["example_weights"] = weights * batch.get("example_weights", 1.0)
        batch["first_example"] = first_example
        return batch


class _BatchMaker:
    """Puts batches together, eagerly or in a graph."""

    def __init__(self, features, pad_id):
        self.window = features.window
        self.lists = None if features.lists is None else tf.constant(features.lists)
        self.fills = {"input_word_ids": pad_id, **_FILLS}
        self.shared, self.rows = {}, {}
        for name, values in features.rows.items():
            if isinstance(values, Shared):
                self.shared[name] = (values.lists.tensor(), tf.constant(values.which),
                                     int(values.lists.lengths.max()))
            else:
                self.rows[name] = (values.tensor() if isinstance(values, Ragged)
                                   else tf.constant(values))
        self.of_rows = {name: tf.constant(values) for name, values in features.of_rows.items()}

    def __call__(self, rows, width):
        """Return the batch of `rows`, int64 `[b]`, padded to `width`, a scalar."""
        row_lengths = self.rows["input_word_ids"].row_lengths()
        if self.lists is None:
            members, lengths = rows, tf.gather(row_lengths, rows)
        else:
            members = tf.reshape(tf.gather(self.lists, rows), [-1])
            present, members = tf.cast(members >= 0, tf.int64), tf.maximum(members, 0)
            lengths = tf.gather(row_lengths, members) * present
        batch = {"input_mask": self._fold(tf.sequence_mask(lengths, width, tf.int32), width)}
        for name, values in self.rows.items():
            if isinstance(values, tf.RaggedTensor):
                part = tf.gather(values, members).to_tensor(
                    self.fills.get(name, _IGNORED),
                    shape=tf.stack([tf.size(members, tf.int64), width]))
                if self.lists is not None and name.endswith("mask"):
                    part *= tf.cast(present, part.dtype)[:, tf.newaxis]  # none of no text
                batch[name] = self._fold(tf.ensure_shape(part, [members.shape[0], None]), width)
            else:
                batch[name] = tf.gather(values, rows)
        for name, (values, which, longest) in self.shared.items():
            batch[name] = tf.gather(values, tf.gather(which, rows)).to_tensor(
                values.dtype.max, shape=[rows.shape[0], longest])
        if self.of_rows:
            lists = tf.maximum(tf.gather(self.lists, rows), 0)
            batch |= {name: tf.gather(values, lists) for name, values in self.of_rows.items()}
        return batch

    def _fold(self, values, width):
        """Return `[b, width]` as the model takes it: `[b, windows, seq_length]` where there are
        any, of lists `[b, size, seq_length]`."""
        if self.lists is not None:
            size = self.lists.shape[1]
            return tf.reshape(values, [(values.shape[0] or -size) // size, size, width])
        if self.window is None:
            return values
        return tf.reshape(values, [values.shape[0] or -1,
                                   (width + self.window - 1) // self.window,
                                   tf.minimum(width, self.window)])


def without_position(dataset):
    """Return a dataset of batches without the scalar `first_example`, which no `fit` takes."""
    return dataset.map(tf.autograph.experimental.do_not_convert(
        lambda batch: {name: value for name, value in batch.items() if name != "first_example"}))


def batch_rows(lengths, batch_size, seed, bucket=True):
    """Return which rows each batch of an epoch holds.

    Args:
        lengths: int `[n]`.
        batch_size: rows of a batch.
        seed: integer or list of integers; None leaves the rows in their order.
        bucket: put rows of like length together.

    Returns:
        int64 `[steps, batch_size]`; each row once, -1 after the last of a batch that is not full:
        the last one, of rows of any length, as each of its rows counts for more than others.
    """
    count = len(lengths)
    steps, full = -(-count // batch_size), count // batch_size
    rows = np.full((steps, batch_size), -1, np.int64)
    order = rows.reshape(-1)[:count]
    order[:] = np.arange(count)
    if seed is not None:
        random = np.random.default_rng(seed)
        random.shuffle(order)
        if bucket and full:
            # Chunks of about the same number of whole batches.
            chunk = np.arange(full).repeat(batch_size) * max(1, round(full / _CHUNK)) // full
            order[:len(chunk)] = order[np.lexsort((lengths[order[:len(chunk)]], chunk))]
        random.shuffle(rows[:full])
    return rows


def by_length(lengths, budget):
    """Split `arange(len(lengths))`, sorted by length, into groups of at most `budget` positions.

    Args:
        lengths: int `[n]`.
        budget: maximum of rows of a group times the longest of them; a longer row is alone.

    Returns: list of int64 arrays.
    """
    order = np.argsort(lengths, kind="stable")
    groups, end = [], len(order)
    while end:
        size = max(1, min(end, budget // max(1, int(lengths[order[end - 1]]))))
        groups.append(order[end - size:end])
        end -= size
    return groups[::-1]


def in_order(features, batch_tokens, pad_id=0):
    """Yield every row once, by length, for prediction.

    Args:
        features: `Features`.
        batch_tokens: maximum of positions of a batch, padding counted.
        pad_id: id of the padding token.

    Returns:
        Iterator of `(rows, batch)`: int64 `[b]`, which rows of `features` they are, and a dict of
        tensors as of `TaskInput.dataset`, without `first_example`.
    """
    make_batch = _BatchMaker(features, pad_id)
    widths = features.widths(features.lengths)
    for rows in by_length(widths, batch_tokens):
        yield rows, make_batch(tf.constant(rows), tf.constant(widths[rows].max()))
