"""Token, segment and position embeddings (Devlin et al. 2019, section 3, figure 2)."""

import keras
import tensorflow as tf

from bert_tf.layers.dropout import Dropout
from bert_tf.layers.gather import gather_rows
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer_norm import LayerNorm
from bert_tf.shapes import check_rank


@keras.saving.register_keras_serializable("bert_tf")
class Embeddings(keras.Layer):
    """Sum of token, segment and learned position embeddings, LayerNorm, dropout.

    Call: `input_word_ids`, `input_type_ids` int32 `[batch, seq_length]` ->
    `[batch, seq_length, hidden]` in the compute type.

    Args:
        vocab_size, hidden_size, max_position_embeddings, type_vocab_size: sizes of the tables.
        dropout: rate after LayerNorm.
        layer_norm_eps: added to the variance.
        initializer_range: standard deviation of the truncated normal.
        seed: seed of the initial tables, see `initializers.truncated_normal`.
    """

    def __init__(self, vocab_size, hidden_size, max_position_embeddings=512, type_vocab_size=2,
                 dropout=0.0, layer_norm_eps=1e-12, initializer_range=0.02, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.initializer_range = initializer_range
        self.seed = seed
        self.layer_norm = LayerNorm(layer_norm_eps, name="LayerNorm", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, seed, name="dropout", dtype=self.dtype_policy)

    def build(self, input_word_ids_shape, input_type_ids_shape=None):
        """Create the three tables and LayerNorm."""
        self.word_embeddings = self._table("word_embeddings", self.vocab_size)
        self.token_type_embeddings = self._table("token_type_embeddings", self.type_vocab_size)
        self.position_embeddings = self._table("position_embeddings",
                                               self.max_position_embeddings)
        self.layer_norm.build((None, None, self.hidden_size))
        self.dropout.build((None, None, self.hidden_size))

    def _table(self, name, rows):
        # Rows are cast after they are looked up: less work than casting the table.
        initializer = truncated_normal(self.initializer_range, self.seed, f"{self.path}/{name}")
        return self.add_weight(name=name, shape=(rows, self.hidden_size),
                               initializer=initializer, autocast=False)

    def call(self, input_word_ids, input_type_ids, training=False):
        """Embed ids `[batch, seq_length]` as `[batch, seq_length, hidden]`."""
        check_rank("input_word_ids", input_word_ids, 2)
        length = input_word_ids.shape[1]
        if length is not None and length > self.max_position_embeddings:
            raise ValueError(f"input_word_ids has {length} positions; expected at most "
                             f"max_position_embeddings={self.max_position_embeddings}")
        words = gather_rows(tf.convert_to_tensor(self.word_embeddings), input_word_ids)
        # A table of a few rows is quicker to multiply than to look up, in both directions.
        types = tf.one_hot(tf.reshape(input_type_ids, [-1]), self.type_vocab_size)
        types = tf.reshape(tf.matmul(types, tf.convert_to_tensor(self.token_type_embeddings)),
                           tf.shape(words))
        positions = tf.convert_to_tensor(self.position_embeddings)[:tf.shape(input_word_ids)[1]]
        return self.dropout(self.layer_norm(words + types + positions), training=training)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "vocab_size": self.vocab_size,
                "hidden_size": self.hidden_size,
                "max_position_embeddings": self.max_position_embeddings,
                "type_vocab_size": self.type_vocab_size, "dropout": self.dropout.rate,
                "layer_norm_eps": self.layer_norm.epsilon,
                "initializer_range": self.initializer_range, "seed": self.seed}
