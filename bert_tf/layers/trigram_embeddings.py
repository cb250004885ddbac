"""Embeddings of a token and of its neighbours (Sun et al. 2020, "MobileBERT", section 3.1)."""

import keras
import tensorflow as tf

from bert_tf.layers.dense import Dense
from bert_tf.layers.embeddings import Embeddings


@keras.saving.register_keras_serializable("bert_tf")
class TrigramEmbeddings(Embeddings):
    """`Embeddings` whose words are those of the token after, of itself and of the one before, side
    by side and mapped to `width` by a dense layer.

    As the original has it, padding is a neighbour like any token; beyond a row there are zeros.

    Args:
        vocab_size, width: of the tables; of words the width is another one.
        word_size: width of word embeddings.
        kwargs: see `Embeddings`.
    """

    def __init__(self, vocab_size, width, word_size, **kwargs):
        super().__init__(vocab_size, width, **kwargs)
        self.word_size = word_size
        self.embedding_projection = Dense(width, self.initializer_range, self.seed,
                                          name="embedding_projection", dtype=self.dtype_policy)

    def build(self, input_word_ids_shape, input_type_ids_shape=None):
        """Create the tables, LayerNorm and the dense layer."""
        super().build(input_word_ids_shape, input_type_ids_shape)
        self.embedding_projection.build((None, 3 * self.word_size))

    def _words(self, input_word_ids, layout):
        def trigrams(values, beyond):
            beside = tf.pad(values, [[0, 0], [1, 1]], beyond)
            return tf.reshape(layout.tokens(
                tf.stack([beside[:, 2:], values, beside[:, :-2]], -1)), [-1, 1])

        # Of the token itself where there is no other: rows that do not occur may not be at hand.
        rows = self._rows(trigrams(input_word_ids, "SYMMETRIC")[:, 0])
        rows *= tf.cast(trigrams(tf.ones_like(input_word_ids), "CONSTANT"), rows.dtype)
        projected = self.embedding_projection(tf.reshape(rows, [-1, 3 * self.word_size]))
        return tf.cast(projected, rows.dtype)
