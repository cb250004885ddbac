"""Tokens of a batch without its padding, for attention in a few rectangles of rows of like length.

It takes the place of `layout.Padded`: the same methods, other shapes.
"""

import functools
import math

import tensorflow as tf

from bert_tf.layers.gather import gather_rows
from bert_tf.layers.layout import FirstTokens, Padded, one_position, with_causal
from bert_tf.layers.masks import MASKED
from bert_tf.randomness import example_bits
from bert_tf.shapes import sizes_of


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
        rectangles: into how many the rows are divided, at most; the longest row of a rectangle
            sets its width.
        keep_gaps: whether all up to a row's last real token is taken.
    """

    def __init__(self, input_mask, dtype, causal=False, rectangles=4, keep_gaps=False):
        self.batch, self.seq_length = sizes_of(input_mask)
        self.causal = causal
        real = input_mask > 0
        taken = real
        if keep_gaps:
            taken = tf.cumsum(tf.cast(real, tf.int32), axis=1, reverse=True) > 0
        taken = tf.concat([tf.ones_like(real[:, :1]), taken[:, 1:]], axis=1)
        counts = tf.reduce_sum(tf.cast(taken, tf.int32), axis=1)
        self._order = tf.argsort(counts, direction="DESCENDING", stable=True)
        counts = tf.gather(counts, self._order)
        places = tf.cast(tf.where(tf.gather(taken, self._order)), tf.int32)  # [K, 2]
        row, position = places[:, 0], places[:, 1]
        self._count = tf.size(row)
        self._starts = tf.cumsum(counts, exclusive=True)  # of the rows
        number = tf.range(self._count) - tf.gather(self._starts, row)  # in its row
        spare = _rounded(self._count) - self._count
        self._places, self._position, self._row, self._number = (
            tf.pad(each, [[0, spare]]) for each in (
                tf.gather(self._order, row) * self.seq_length + position, position, row, number))
        if isinstance(self.batch, int):
            rectangles = max(1, min(rectangles, self.batch))
        real = tf.gather(tf.reshape(real, [-1]), self._places)
        self._parts, self.paddings, self.widths = [], [], []
        for part in range(rectangles):
            first = self.batch * part // rectangles
            after = self.batch * (part + 1) // rectangles
            self._add(first, after, counts[first:after], real, dtype,
                      spare if part + 1 == rectangles else 0)

    def _add(self, first, after, counts, real, dtype, spare):
        """The rectangle of the rows from `first` up to `after`, and `spare` tokens after it."""
        width = _rounded(tf.reduce_max(tf.concat([counts, [1]], 0)))
        begin = tf.reduce_sum(self._starts[first:first + 1])
        starts = self._starts[first:after, tf.newaxis]
        inside = tf.sequence_mask(counts, width)
        # After a row's end stands what is masked: any token of these rows will do.
        token = starts + tf.where(inside, tf.range(width), 0)  # [b, s]
        adder = tf.where(inside, tf.where(tf.gather(real, token), 0.0, MASKED), 2 * MASKED)
        self.paddings.append(tf.cast(adder, dtype)[:, tf.newaxis, tf.newaxis])
        self.widths.append(width)
        slot = tf.cast(tf.where(inside), tf.int32)  # [k, 2], of the tokens of these rows
        self._parts.append(_Part(first, after, begin, token, slot, inside, spare))

    @functools.cached_property
    def adders(self):
        """Of each rectangle, float `[rows, 1, from or 1, to]`."""
        return with_causal(self.paddings, self.widths, self.causal)

    @property
    def sequence_ids(self):
        """Int32 `[tokens]`, the same along tokens that stand side by side in the batch."""
        ids = self._row * (self.seq_length + 1) + self._position - self._number + 1
        return tf.where(tf.range(tf.size(ids)) < self._count, ids, 0)

    def tokens(self, values):
        """`[batch, seq_length, …]` -> `[tokens, …]`."""
        return tf.gather(tf.reshape(values, [-1, *values.shape[2:]]), self._places)

    def restore(self, tokens):
        """`[tokens, width]` -> `[batch, seq_length, width]`, 0 at padding."""
        width = tokens.shape[-1]
        flat = tf.scatter_nd(self._places[:self._count, tf.newaxis], tokens[:self._count],
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
        return [part.heads(projected, num_heads) for part in self._parts]

    def first_heads(self, projected, num_heads):
        """The same of what `first` gave: a list of `[rows, heads, 1, head_size]`."""
        return [one_position(projected[part.first:part.after], num_heads)
                for part in self._parts]

    def merge(self, contexts):
        """The inverse of `heads`."""
        merged = [part.merge(context) for part, context in zip(self._parts, contexts,
                                                               strict=True)]
        return merged[0] if len(merged) == 1 else tf.concat(merged, 0)

    merge_first, with_past = Padded.merge_first, Padded.with_past

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


def _rounded(count):
    """The int32 scalar, at least 1, rounded up to one of 16 numbers from 32 to 64, of as many from
    64 to 128, and so on."""
    power = tf.cast(tf.math.log(tf.cast(count, tf.float32)) / math.log(2), tf.int32)
    step = tf.bitwise.left_shift(1, tf.maximum(power - 4, 0))
    return -(-count // step) * step


class _Part:
    """The rows of one rectangle; tokens move by one gather, heads being apart at once."""

    def __init__(self, first, after, begin, token, slot, inside, spare):
        self.first, self.after = first, after
        self._token = token  # int32 [b, s], which token stands where
        self._slot = slot  # int32 [k, 2], where the tokens from `begin` on stand
        self._begin = begin
        self._inside = inside  # bool [b, s]
        self._spare = spare  # tokens that nobody reads, after those of the last rectangle
        self._indices = {}

    def _places(self, num_heads):
        """Indices into rows of one head's width: for `heads` `[b, N, s]`, for its gradient
        `[k, N]`, for `merge` `[k + spare, N]`."""
        if num_heads not in self._indices:
            head = tf.range(num_heads)
            width = tf.shape(self._token)[1]
            into = self._token[:, tf.newaxis] * num_heads + head[:, tf.newaxis]
            row, position = self._slot[:, :1], self._slot[:, 1:]
            back = (row * num_heads + head) * width + position
            self._indices[num_heads] = into, back, tf.pad(back, [[0, self._spare], [0, 0]])
        return self._indices[num_heads]

    def heads(self, projected, num_heads):
        """`[all tokens, heads × head_size]` -> `[b, heads, s, head_size]`."""
        size = projected.shape[-1] // num_heads
        into, back, _ = self._places(num_heads)
        count = tf.shape(projected)[0]

        @tf.custom_gradient
        def call(projected):
            def gradient(upstream):
                own = tf.reshape(tf.gather(tf.reshape(upstream, [-1, size]), back),
                                 [-1, num_heads * size])
                after = count - self._begin - tf.shape(own)[0]
                return tf.pad(own, [[self._begin, after], [0, 0]])

            return tf.gather(tf.reshape(projected, [-1, size]), into), gradient

        return call(projected)

    def merge(self, context):
        """`[b, heads, s, head_size]` -> `[k, heads × head_size]`, this rectangle's tokens, after
        the last one's the spare ones."""
        num_heads, size = context.shape[1], context.shape[3]
        into, _, back = self._places(num_heads)

        @tf.custom_gradient
        def call(context):
            def gradient(upstream):
                tokens = tf.reshape(upstream, [-1, size])
                spread = tf.gather(tokens, into - self._begin * num_heads)
                return tf.where(self._inside[:, tf.newaxis, :, tf.newaxis], spread,
                                tf.zeros([], spread.dtype))

            merged = tf.gather(tf.reshape(context, [-1, size]), back)
            return tf.reshape(merged, [-1, num_heads * size]), gradient

        return call(context)
