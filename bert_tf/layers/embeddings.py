"""Token, segment and position embeddings (Devlin et al. 2019, section 3, figure 2)."""

import keras
import tensorflow as tf

from bert_tf.layers.dropout import Dropout
from bert_tf.layers.gather import gather_rows
from bert_tf.layers.inference import is_for_inference
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer
from bert_tf.layers.layout import Padded
from bert_tf.layers.norm import norm_layer
from bert_tf.layers.positions import positions_from_padding, sinusoidal_positions
from bert_tf.layers.substitutes import substitutes
from bert_tf.shapes import check_rank, sizes_of


@keras.saving.register_keras_serializable("bert_tf")
class Embeddings(Layer):
    """Sum of token, segment and position embeddings, LayerNorm, dropout.

    Call: `input_word_ids`, `input_type_ids` int32 `[batch, seq_length]` ->
    `[batch, seq_length, width]` in the compute type; with their `layout` the `[tokens, width]` of
    it.

    Args:
        vocab_size, width, max_position_embeddings, type_vocab_size: sizes of the tables. With one
            segment its row is added everywhere, with none there is no table.
        position_embedding: `learned`, `sinusoidal` (fixed, no table) or `none`.
        padding_id: id that positions are counted from, see `positions.positions_from_padding`;
            None counts all positions from 0.
        norm: kind of LayerNorm after the sum, see `norm_layer`; None for no such (as GPT).
        use_bias: whether LayerNorm has a `beta`.
        dropout: rate at the end.
        layer_norm_eps: added to the variance.
        initializer_range: standard deviation of the truncated normal.
        seed: seed of the initial tables, see `initializers.truncated_normal`.
        scale: whether word embeddings are multiplied by the square root of `width`, rounded to the
            compute type (Vaswani et al. 2017, section 3.4).
    """

    def __init__(self, vocab_size, width, max_position_embeddings=512, type_vocab_size=2,
                 position_embedding="learned", padding_id=None, norm="layer_norm",
                 use_bias=True, dropout=0.0, layer_norm_eps=1e-12, initializer_range=0.02,
                 seed=None, scale=False, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.width = self.word_size = width
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.position_embedding = position_embedding
        self.padding_id = padding_id
        self.layer_norm_eps = layer_norm_eps
        self.initializer_range = initializer_range
        self.seed = seed
        self.scale = scale
        self.layer_norm = None
        if norm is not None:
            self.layer_norm = norm_layer(norm, layer_norm_eps, use_bias, self.dtype_policy)
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)

    @property
    def longest(self):
        """Tokens of a sequence at most."""
        reserved = 0 if self.padding_id is None else self.padding_id + 1
        return self.max_position_embeddings - reserved

    def build(self, input_word_ids_shape, input_type_ids_shape=None):
        """Create the tables and LayerNorm."""
        self.word_embeddings = self._table("word_embeddings", self.vocab_size, self.word_size)
        if self.type_vocab_size:
            self.token_type_embeddings = self._table("token_type_embeddings",
                                                     self.type_vocab_size)
        if self.position_embedding == "learned":
            self.position_embeddings = self._table("position_embeddings",
                                                   self.max_position_embeddings)
        if self.layer_norm is not None:
            self.layer_norm.build((None, None, self.width))
        self.dropout.build((None, None, self.width))

    def _table(self, name, rows, width=None):
        # Rows are cast after they are looked up: less work than casting the table.
        initializer = truncated_normal(self.initializer_range, self.seed, f"{self.path}/{name}")
        return self.add_weight(name=name, shape=(rows, width or self.width),
                               initializer=initializer, autocast=False, dtype="float32")

    def call(self, input_word_ids, input_type_ids, training=False, layout=None):
        """Embed ids `[batch, seq_length]`."""
        check_rank("input_word_ids", input_word_ids, 2)
        length = input_word_ids.shape[1]
        most = (f"expected at most {self.longest}: max_position_embeddings="
                f"{self.max_position_embeddings}")
        if length is not None and length > self.longest:
            raise ValueError(f"input_word_ids has {length} positions; {most}")
        if length is None and not is_for_inference():
            fits = tf.debugging.assert_less_equal(
                tf.shape(input_word_ids)[1], self.longest,
                f"input_word_ids has too many positions; {most}")
            # Nothing is looked up before: its error would say less and might come first.
            with tf.control_dependencies([fits]):
                input_word_ids = tf.identity(input_word_ids)
        own = layout or Padded(None, sizes_of(input_word_ids))
        embeddings = self._words(input_word_ids, own)
        if self.scale:
            # As of the checkpoints that have it: in bfloat16 √768 is 27.75.
            embeddings *= tf.cast(tf.constant(self.width ** 0.5, self.compute_dtype),
                                  embeddings.dtype)
        if self.type_vocab_size:
            embeddings += self._types(own.tokens(input_type_ids))
        if self.position_embedding != "none":
            embeddings = self._add_positions(embeddings, input_word_ids, own)
        if self.layer_norm is None:
            embeddings = tf.cast(embeddings, self.compute_dtype)
        else:
            embeddings = self.layer_norm(embeddings)
        embeddings = self.dropout(embeddings, training=training, layout=own)
        return embeddings if layout else own.restore(embeddings)

    def table(self):
        """The word embeddings, float32 `[vocab_size, word_size]`."""
        table = substitutes().table(self)
        return tf.convert_to_tensor(self.word_embeddings) if table is None else table

    def _rows(self, ids):
        """Rows `ids` of `table`."""
        rows = substitutes().rows(self, ids)
        return (gather_rows(tf.convert_to_tensor(self.word_embeddings), ids) if rows is None
                else rows)

    def _words(self, input_word_ids, layout):
        return self._rows(layout.tokens(input_word_ids))

    def _types(self, input_type_ids):
        table = tf.convert_to_tensor(self.token_type_embeddings)
        if self.type_vocab_size == 1:
            return table[0]
        # A table of a few rows is quicker to multiply than to look up, in both directions; a
        # row that it does not have would be 0.
        if not is_for_inference():
            tf.debugging.Assert(
                tf.reduce_all((input_type_ids >= 0) & (input_type_ids < self.type_vocab_size)),
                [f"input_type_ids must be 0 to {self.type_vocab_size - 1}"])
        return tf.matmul(tf.one_hot(input_type_ids, self.type_vocab_size), table)

    def _add_positions(self, embeddings, input_word_ids, layout):
        learned = self.position_embedding == "learned"
        table = tf.convert_to_tensor(self.position_embeddings) if learned else None
        if self.padding_id is None:
            length = tf.shape(input_word_ids)[1]
            return layout.add_positions(embeddings, table[:length] if learned
                                        else sinusoidal_positions(length, self.width))
        if not learned:
            table = sinusoidal_positions(self.max_position_embeddings, self.width)
        if input_word_ids.shape[1] is None and not is_for_inference():
            # XLA drops the check of the length, and would look up the last row for all beyond.
            rows = tf.shape(input_word_ids)[1] + self.padding_id + 1
            table = tf.reshape(table[:rows], [rows, self.width])
        positions = positions_from_padding(input_word_ids, self.padding_id)
        return embeddings + gather_rows(table, layout.tokens(positions))
