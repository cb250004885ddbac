"""Where the tokens of a batch stand: in one row, and in rectangles for attention.

Position-wise layers work on `[tokens, width]`, a 2-D matrix product each. Only attention needs the
sequences apart: it sees rectangles `[rows, heads, from, head_size]`. `Padded` counts every position
as a token, as the original code does, and all shapes stay static; `padding_free.PaddingFree` leaves
padding out.
"""

import functools

import tensorflow as tf

from bert_tf.errors import explain
from bert_tf.layers.masks import causal_adder, of_rows, padding_adder
from bert_tf.layers.rotary import rotation
from bert_tf.randomness import example_bits
from bert_tf.shapes import check_rank, sizes_of


class Padded:
    """Every position of `[batch, seq_length]` is a token; attention has one rectangle.

    It belongs to the graph that it is made in: what is made once stays with it.

    Args:
        adder: float `[batch, 1, from or 1, to]`.
        shape: `batch` and `seq_length`, integers where they are known, else scalar int32.
        causal: whether what follows a position is hidden besides; of some rows alone a float
            `[batch, 1, 1, 1]` of 0 and 1.
    """

    def __init__(self, adder, shape, causal=False):
        self.batch, self.seq_length = shape
        self.causal = causal
        # Adders of keys alone; None where it also matters who asks, such as in packed rows.
        self.paddings = [adder if adder is not None and adder.shape[2] == 1 else None]
        self._adder = adder
        self._rotations = {}

    @functools.cached_property
    def adders(self):
        """Of each rectangle, float `[rows, 1, from or 1, to]`."""
        return with_causal([self._adder], self.widths, self.causal)

    @classmethod
    def of_mask(cls, input_mask, dtype, causal=False):
        """The layout of a batch with `input_mask` int32 `[batch, seq_length]`."""
        shape = sizes_of(input_mask)
        return cls(padding_adder(input_mask, dtype), shape, causal)

    @property
    def widths(self):
        """Positions of each rectangle."""
        return [self.seq_length]

    @property
    def positions(self):
        """Int32 `[tokens]`, where each stands in its row."""
        return tf.tile(tf.range(self.seq_length), [self.batch])

    def rotation(self, base, factor, head_size):
        """The `rotary.rotation` of the tokens, made once for all layers with the same arguments."""
        options = base, factor, head_size
        if options not in self._rotations:
            self._rotations[options] = rotation(self.positions, *options)
        return self._rotations[options]

    def bits(self, key, first_example, width):
        """Random uint16 `[tokens, width]`; those of a row depend on its example alone."""
        bits = example_bits(key, first_example, [self.batch, self.seq_length, width], tf.uint16)
        return tf.reshape(bits, [-1, width])

    @property
    def sequence_ids(self):
        """Int32 `[tokens]`, 0 at padding, else the same throughout a sequence: see `Conv`.

        A sequence is what sees the same first position.
        """
        (adder,) = self.adders
        seen = tf.broadcast_to(adder[:, 0] >= 0, [self.batch, tf.shape(adder)[2], self.seq_length])
        first = tf.argmax(seen, -1, output_type=tf.int32)  # [B, from or 1]
        real = tf.linalg.diag_part(seen) if adder.shape[2] != 1 else seen[:, 0]
        row = tf.range(self.batch)[:, tf.newaxis] * self.seq_length
        return tf.reshape(tf.where(real, row + first + 1, 0), [-1])

    @property
    def of_first(self):
        """The layout of what `first` gives, for `Dropout`."""
        return FirstTokens(self.batch)

    def add_positions(self, tokens, table):
        """Add to `tokens [tokens, width]` the rows of `table [seq_length, width]`."""
        return self.tokens(self.restore(tokens) + table)

    def tokens(self, values):
        """`[batch, seq_length, …]` -> `[tokens, …]`."""
        return tf.reshape(values, [-1, *values.shape[2:]])

    def restore(self, tokens):
        """`[tokens, width]` -> `[batch, seq_length, width]`."""
        return tf.reshape(tokens, [self.batch, self.seq_length, tokens.shape[-1]])

    def first(self, tokens):
        """`[tokens, width]` -> the first token of every row, `[batch, width]`."""
        return self.restore(tokens)[:, 0]

    def in_order(self, rows):
        """`[batch, width]` as `first` gives it, in the order of the batch."""
        return rows

    def heads(self, projected, num_heads):
        """`[tokens, heads × head_size]` -> a list of `[rows, heads, positions, head_size]`."""
        split = tf.reshape(projected, [self.batch, self.seq_length, num_heads,
                                       projected.shape[-1] // num_heads])
        return [tf.transpose(split, [0, 2, 1, 3])]

    def first_heads(self, projected, num_heads):
        """The same of what `first` gave: a list of `[rows, heads, 1, head_size]`."""
        return [one_position(projected, num_heads)]

    def with_past(self, key, value):
        """Keys and values to attend to, of what `heads` gave; see `cache.NextTokens`."""
        return key, value

    def merge(self, contexts):
        """The inverse of `heads`."""
        (context,) = contexts
        merged = tf.transpose(context, [0, 2, 1, 3])
        return tf.reshape(merged, [-1, context.shape[1] * context.shape[3]])

    def merge_first(self, contexts):
        """The inverse of `first_heads`."""
        return tf.concat([tf.reshape(context, [-1, context.shape[1] * context.shape[3]])
                          for context in contexts], 0)


def as_tokens(hidden, adder=None, layout=None):
    """`([tokens, width], layout)` of what a layer is called with.

    Args:
        hidden: `[tokens, width]` with a `layout`, or `[batch, seq_length, width]` with an `adder`
            float `[batch, 1, seq_length or 1, seq_length]`; without one, nothing is hidden.
        adder, layout: the other is None.

    Raises:
        ValueError: other ranks, or an adder of another type, such as a mask of 0 and 1.
    """
    if layout is not None:
        return check_rank("hidden", hidden, 2), layout
    batch, seq_length, _ = sizes_of(check_rank("hidden", hidden, 3))
    if adder is None:
        adder = tf.zeros([batch, 1, 1, seq_length], hidden.dtype)
    if not tf.as_dtype(adder.dtype).is_floating:
        raise ValueError(explain(f"adder has type {tf.as_dtype(adder.dtype).name}",
                                 "a float one, 0 where a position is seen and -10000 elsewhere",
                                 "layers.masks.padding_adder(input_mask)"))
    layout = Padded(check_rank("adder", adder, 4), (batch, seq_length))
    return layout.tokens(hidden), layout


def as_called(outputs, probs, own, layout, first_only):
    """`outputs` and `probs` in the form that a layer was called in, `own` being of `as_tokens`."""
    if layout is not None:
        return outputs, probs
    return (outputs if first_only else own.restore(outputs)), probs[0]


def with_causal(adders, widths, causal):
    """`adders` of rectangles of these widths, each with what follows a position hidden besides if
    `causal`, see `Padded`."""
    if causal is False:
        return adders
    return [adder + of_rows(causal, causal_adder(width, adder.dtype))
            for adder, width in zip(adders, widths, strict=True)]


class FirstTokens:
    """A token of each row, the rows in some order (int32 `[batch]`; None: that of the batch)."""

    def __init__(self, batch, order=None):
        self.batch, self.order = batch, order

    def bits(self, key, first_example, width):
        """Random uint16 `[batch, width]`; those of a row depend on its example alone."""
        bits = example_bits(key, first_example, [self.batch, width], tf.uint16)
        return bits if self.order is None else tf.gather(bits, self.order)


def one_position(projected, num_heads):
    """`[rows, heads × head_size]` -> `[rows, heads, 1, head_size]`."""
    return tf.reshape(projected, [-1, num_heads, 1, projected.shape[-1] // num_heads])
