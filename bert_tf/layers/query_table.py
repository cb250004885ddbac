"""A weight for each token of the vocabulary, for queries that no encoder reads."""

import keras
import tensorflow as tf

from bert_tf.layers.layer import Layer


@keras.saving.register_keras_serializable("bert_tf")
class QueryTable(Layer):
    """Weights of a query's tokens by a table, so that a search takes no encoder.

    Of all ones it is the query side of SPLADE-doc (Formal et al. 2021); Geng et al. 2024, "Towards
    Competitive Search Relevance For Inference-Free Learned Sparse Retrievers", begin with IDF.

    Call: int `input_word_ids`, `input_mask` `[b, seq_length]` -> float32 `[b, vocab_size]`, the
    weight of each token that is in the text, however often; 0 of the others.

    The variable is `term_weights` `[vocab_size]`, ones at first.

    Args:
        vocab_size: number of ids.
        special_ids: ids that do not count: `[CLS]` and `[SEP]`.
    """

    def __init__(self, vocab_size, special_ids, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.special_ids = tuple(map(int, special_ids))

    def build(self, ids_shape=None, mask_shape=None):
        """Create the variable."""
        self.term_weights = self.add_weight(shape=(self.vocab_size,), initializer="ones",
                                            name="term_weights", dtype="float32", autocast=False)

    def call(self, input_word_ids, input_mask):
        """Weights float32 `[b, vocab_size]`."""
        ids = tf.cast(input_word_ids, tf.int32)
        special = tf.reduce_any(ids[..., tf.newaxis] == tf.constant(self.special_ids, tf.int32), -1)
        counts = tf.cast((input_mask > 0) & ~special, tf.float32)
        count = tf.shape(ids)[0]
        rows = tf.range(count)[:, tf.newaxis] + tf.zeros_like(ids)
        present = tf.tensor_scatter_nd_max(tf.zeros([count, self.vocab_size]),
                                           tf.stack([rows, ids], -1), counts)
        return present * tf.convert_to_tensor(self.term_weights)
