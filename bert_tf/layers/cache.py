"""Layouts of left-to-right generation: what a token made of itself is kept for those after it.

The keys and values of a position depend on the positions up to it alone, so that a sequence that
grows needs them once. `Prompts` runs over the beginnings of all rows, `NextTokens` over one further
token a row.
"""

import tensorflow as tf

from bert_tf.layers.layout import Padded
from bert_tf.layers.masks import padding_adder
from bert_tf.layers.padding_free import PaddingFree


class Prompts(Padded):
    """Whole rows, padded on the right, whose keys and values are kept.

    Attributes:
        past: after a run, `(key, value)` of each layer, both `[batch, heads, seq_length,
            head_size]`.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.past = []

    def with_past(self, key, value):
        """Keep `key` and `value`."""
        self.past.append((*key, *value))
        return key, value

    def padded_past(self, width):
        """`past` with `width` positions, 0 after those that there are."""
        after = width - tf.shape(self.past[0][0])[2]
        return tf.nest.map_structure(
            lambda kept: tf.pad(kept, [[0, 0], [0, 0], [0, after], [0, 0]]), self.past)


class NextTokens(Padded):
    """One token of each row, which sees itself and what is kept of those before it.

    Args:
        past: `(key, value)` of each layer, `[batch, heads, width, head_size]`, from position 0 on.
        position: int32 `[batch]`, where in its row the token stands, below `width`.
        dtype: float type of the adder.

    Attributes:
        past: after a run, the same with the new tokens' keys and values.
    """

    def __init__(self, past, position, dtype):
        width = tf.shape(past[0][0])[2]
        seen = tf.sequence_mask(position + 1, width, tf.int32)
        super().__init__(padding_adder(seen, dtype), (tf.size(position), 1))
        self.past = []
        self._before = list(past)
        self._position = position

    def tokens(self, values):
        """`[batch, width, …]` -> the new tokens' `[batch, …]`."""
        return tf.gather(values, self._position, batch_dims=1)

    @property
    def positions(self):
        """Int32 `[tokens]`, as of `Padded`."""
        return self._position

    add_positions = PaddingFree.add_positions

    def with_past(self, key, value):
        """All keys and values of the layer whose turn it is."""
        before = self._before[len(self.past)]
        self.past.append(tuple(self._put(*parts) for parts in zip(before, key + value,
                                                                  strict=True)))
        key, value = self.past[-1]
        return [key], [value]

    def _put(self, kept, new):
        """`kept [B, N, T, H]` with `new [B, N, 1, H]` at the rows' positions."""
        batch, heads = tf.shape(kept)[0], kept.shape[1]
        row, head, position = tf.meshgrid(tf.range(batch), tf.range(heads), 0, indexing="ij")
        position += self._position[:, tf.newaxis, tf.newaxis]
        return tf.tensor_scatter_nd_update(kept, tf.stack([row, head, position], -1), new)
