"""Tokens of a batch without its padding, for attention in a few rectangles of rows of like length.

It takes the place of `layout.Padded`: the same methods, other shapes.
"""

import functools
import itertools
import math
from typing import NamedTuple

import tensorflow as tf

from bert_tf.layers.gather import gather_rows
from bert_tf.layers.inference import own_gradient
from bert_tf.layers.layout import FirstTokens, Padded, one_position, with_causal
from bert_tf.layers.masks import MASKED
from bert_tf.randomness import example_bits
from bert_tf.shapes import sizes_of

_GRAIN = 16  # into how many parts of as many rows a batch may be cut


class PaddingFree:
    """Only real tokens, sequences of like length together; attention has a few rectangles.

    A row's first position is always among the tokens, masked if it is padding, so that there is
    something to pool. What the mask leaves out in the middle of a sequence is left out here too,
    or with `keep_gaps` masked, so that places in a rectangle are positions in the sequence.

    oneDNN makes and keeps kernels for the shapes that it meets, about a megabyte for each number of
    tokens. So that there are few shapes, a few tokens that nobody reads follow the real ones (6 %
    at most, about 2 % on average from 32 tokens on), and rectangles are some positions wider.

    Args:
        input_mask: int32 `[batch, seq_length]`, 1 for real tokens.
        dtype: float type of the adders.
        causal: whether a position sees none after it.
        rectangles: into how many the rows are divided, at most, so that attention has the least to
            do; the longest row of a rectangle sets its width.
        keep_gaps: whether all up to a row's last token is taken.
        asking: int32 `[batch, seq_length]`, 1 also where a position is computed that none sees; or
            None.
    """

    def __init__(self, input_mask, dtype, causal=False, rectangles=4, keep_gaps=False,
                 asking=None):
        self.batch, self.seq_length = sizes_of(input_mask)
        self.causal = causal
        real = input_mask > 0
        taken = real if asking is None else real | (asking > 0)
        if keep_gaps:
            taken = tf.cumsum(tf.cast(taken, tf.int32), axis=1, reverse=True) > 0
        taken = tf.concat([tf.ones_like(real[:, :1]), taken[:, 1:]], axis=1)
        counts = tf.reduce_sum(tf.cast(taken, tf.int32), axis=1)
        self._order = tf.argsort(counts, direction="DESCENDING", stable=True)
        counts = tf.gather(counts, self._order)
        places = tf.cast(tf.where(tf.gather(taken, self._order)), tf.int32)  # [K, 2]
        row, position = places[:, 0], places[:, 1]
        self._count = tf.size(row)
        self._starts = tf.cumsum(counts, exclusive=True)  # of the rows
        number = tf.range(self._count) - tf.gather(self._starts, row)  # in its row
        self._spare = spare = _rounded(self._count) - self._count
        self._real_places = tf.gather(self._order, row) * self.seq_length + position
        self._places, self._position, self._row, self.positions = (
            tf.pad(each, [[0, spare]]) for each in (self._real_places, position, row, number))
        if isinstance(self.batch, int):
            rectangles = max(1, min(rectangles, self.batch))
        bounds = _bounds(counts, rectangles)
        self._sizes = bounds[1:] - bounds[:-1]  # rows of each
        # The first row of a rectangle is its longest; of one without rows, any width will do.
        longest = tf.gather(tf.pad(counts, [[0, 1]]), bounds[:-1])
        self.widths = tf.unstack(_rounded(tf.maximum(longest, 1)), rectangles)
        self._seen = tf.gather(tf.reshape(real, [-1]), self._places)
        adder = tf.where(self._seen, 0.0, MASKED)
        self._parts, self.paddings, self._known_moves, self._rotations = [], [], {}, {}
        for width, starts, lengths in zip(
                self.widths, *(self._split(each) for each in (self._starts, counts)), strict=True):
            place = tf.range(width)
            inside = place < lengths[:, tf.newaxis]
            # After a row's end stands what is masked: any token of these rows will do.
            token = starts[:, tf.newaxis] + tf.where(inside, place, 0)  # [b, s]
            padding = tf.where(inside, tf.gather(adder, token), 2 * MASKED)
            self.paddings.append(tf.cast(padding, dtype)[:, tf.newaxis, tf.newaxis])
            self._parts.append(_Part(token, tf.cast(tf.where(inside), tf.int32), inside))

    def _split(self, rows):
        """`[batch, …]`, longest rows first, as a list of those of each rectangle."""
        return tf.split(rows, self._sizes, num=len(self.widths))

    @functools.cached_property
    def adders(self):
        """Of each rectangle, float `[rows, 1, from or 1, to]`."""
        return with_causal(self.paddings, self.widths, self.causal)

    @property
    def sequence_ids(self):
        """Int32 `[tokens]`, the same along tokens that stand side by side in the batch, 0 of those
        that none sees."""
        ids = self._row * (self.seq_length + 1) + self._position - self.positions + 1
        return tf.where(self._seen & (tf.range(tf.size(ids)) < self._count), ids, 0)

    def tokens(self, values):
        """`[batch, seq_length, …]` -> `[tokens, …]`."""
        # Of this size, or it fails: places of another batch would be other tokens.
        flat = tf.reshape(values, [self.batch * self.seq_length, *values.shape[2:]])
        return tf.gather(flat, self._places)

    def restore(self, tokens):
        """`[tokens, width]` -> `[batch, seq_length, width]`, 0 at padding."""
        width = tokens.shape[-1]
        flat = tf.scatter_nd(self._real_places[:, tf.newaxis], tokens[:self._count],
                             [self.batch * self.seq_length, width])
        return tf.reshape(flat, [self.batch, self.seq_length, width])

    def first(self, tokens):
        """`[tokens, width]` -> the first token of every row, longest rows first."""
        return tf.gather(tokens, self._starts)

    def in_order(self, rows):
        """`[batch, width]` as `first` gives it, in the order of the batch."""
        return tf.gather(rows, tf.math.invert_permutation(self._order))

    def heads(self, projected, num_heads):
        """`[tokens, heads × head_size]` -> a list of `[rows, heads, positions, head_size]`."""
        size = projected.shape[-1] // num_heads
        into, back, _ = self._moves(num_heads)

        @own_gradient
        def call(projected):
            def gradient(*upstream):
                real = tf.concat([tf.gather(tf.reshape(part, [-1, size]), each)
                                  for part, each in zip(upstream, back, strict=True)], 0)
                return tf.pad(tf.reshape(real, [-1, num_heads * size]),
                              [[0, self._spare], [0, 0]])

            rows = tf.reshape(projected, [-1, size])
            return [tf.gather(rows, each) for each in into], gradient

        return call(projected)

    def first_heads(self, projected, num_heads):
        """The same of what `first` gave: a list of `[rows, heads, 1, head_size]`."""
        return [one_position(part, num_heads) for part in self._split(projected)]

    def merge(self, contexts):
        """The inverse of `heads`, with anything for the spare tokens."""
        num_heads, size = contexts[0].shape[1], contexts[0].shape[3]
        into, _, back = self._moves(num_heads)

        @own_gradient
        def call(*contexts):
            def gradient(upstream):
                rows = tf.reshape(upstream, [-1, size])
                return [tf.where(part.inside[:, tf.newaxis, :, tf.newaxis],
                                 tf.gather(rows, each), tf.zeros([], rows.dtype))
                        for part, each in zip(self._parts, into, strict=True)]

            tokens = tf.concat([tf.gather(tf.reshape(context, [-1, size]), each)
                                for context, each in zip(contexts, back, strict=True)], 0)
            return tf.reshape(tokens, [-1, num_heads * size]), gradient

        return call(*contexts)

    def _moves(self, num_heads):
        """Of each rectangle: which tokens it takes, where they are in it, and the same with
        something for the spare ones after the last."""
        if num_heads not in self._known_moves:
            into, back = zip(*(part.moves(num_heads) for part in self._parts), strict=True)
            spared = [*back[:-1], tf.pad(back[-1], [[0, self._spare], [0, 0]])]
            self._known_moves[num_heads] = into, back, spared
        return self._known_moves[num_heads]

    merge_first, with_past, rotation = Padded.merge_first, Padded.with_past, Padded.rotation

    @property
    def of_first(self):
        """The layout of what `first` gives, for `Dropout`."""
        return FirstTokens(self.batch, self._order)

    def bits(self, key, first_example, width):
        """Random uint16 `[tokens, width]`; they depend on what the replica's batch holds."""
        first = tf.cast(first_example, tf.int64) * tf.cast(self.seq_length, tf.int64)
        return example_bits(key, first, [tf.size(self._places), width], tf.uint16)

    def add_positions(self, tokens, table):
        """Add to `tokens [tokens, width]` the rows of `table [seq_length, width]`."""
        return tokens + gather_rows(table, self._position)


def _bounds(counts, rectangles):
    """Where the rows of `counts [batch]` tokens, longest first, are cut: int32 `[rectangles + 1]`.

    All ways to cut at sixteenths of the batch are compared by the scores that they have. Those of
    a rectangle are in memory at once, so that they count for more where it has more of the rows.
    """
    ways = [(0, *cuts, _GRAIN)
            for cuts in itertools.combinations(range(1, _GRAIN), rectangles - 1)]
    bounds = tf.size(counts) * tf.constant(ways) // _GRAIN  # [ways, rectangles + 1]
    width = tf.cast(tf.gather(tf.pad(counts, [[0, 1]]), bounds[:, :-1]), tf.float32)
    share = tf.constant([[(end - start) / _GRAIN for start, end in itertools.pairwise(way)]
                         for way in ways])
    scores = tf.cast(bounds[:, 1:] - bounds[:, :-1], tf.float32) * tf.square(width)
    return bounds[tf.argmin(tf.reduce_sum(scores * (1 + share), 1))]


def _rounded(count):
    """Int32, at least 1, rounded up to one of 16 numbers from 32 to 64, of as many from 64 to 128,
    and so on."""
    power = tf.cast(tf.math.log(tf.cast(count, tf.float32)) / math.log(2), tf.int32)
    step = tf.bitwise.left_shift(tf.ones_like(power), tf.maximum(power - 4, 0))
    return -(-count // step) * step


class _Part(NamedTuple):
    """The rows of one rectangle."""

    token: tf.Tensor  # int32 [b, s], which token stands where
    slot: tf.Tensor  # int32 [k, 2], where its tokens stand
    inside: tf.Tensor  # bool [b, s]

    def moves(self, num_heads):
        """Indices of rows of one head's width: of the tokens for the rectangle
        `[b, num_heads, s]`, of the rectangle for its tokens `[k, num_heads]`."""
        head = tf.range(num_heads)
        row, position = self.slot[:, :1], self.slot[:, 1:]
        return (self.token[:, tf.newaxis] * num_heads + head[:, tf.newaxis],
                (row * num_heads + head) * tf.shape(self.token)[1] + position)
