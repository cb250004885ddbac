"""How much each token says, from how rare it is in a corpus: IDF and BM25."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.layers.layer import Layer

WEIGHTINGS = ("idf", "bm25")


@keras.saving.register_keras_serializable("bert_tf")
class TermWeighting(Layer):
    """A weight for every token of a text, for a weighted mean of the tokens' vectors.

    Call: `input_word_ids`, `input_mask` int `[b, seq_length]` -> float32 `[b, seq_length]`, 0 at
    padding. Of a token t that `n_t` of a corpus' `N` texts hold, and that this text of `l` tokens
    holds `f_t` times, each time:

        idf:   idf_t = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
        bm25:  idf_t / (f_t + k1 ((1 - b) + b l / average length))

    Times `f_t` these are the weights of a term: TF-IDF, and the BM25 of Robertson and Zaragoza
    2009, "The Probabilistic Relevance Framework: BM25 and Beyond", section 3.4. The 1 inside the
    logarithm, as in Lucene's `BM25Similarity`, keeps tokens of more than half of the texts from
    being counted negatively. Lengths and counts take special tokens in; `[CLS]` and `[SEP]`, in
    every text, weigh next to nothing.

    The variables, not trained: `inverse_document_frequency` `[vocab_size]` and `average_length`,
    a scalar; `assign` sets them, before which the layer cannot be called.

    Args:
        vocab_size: number of ids.
        weighting: one of `WEIGHTINGS`.
        k1: how late a token's repetition stops to count.
        b: how far a text's length matters, 0 to 1.
    """

    def __init__(self, vocab_size, weighting, k1=1.2, b=0.75, **kwargs):
        super().__init__(**{"trainable": False, **kwargs})
        self.vocab_size = vocab_size
        self.weighting = check_choice("weighting", weighting, WEIGHTINGS)
        self.k1 = k1
        self.b = b
        self.supports_jit = False  # counts of unknown number

    def build(self, ids_shape=None, mask_shape=None):
        """Create the variables."""
        # In float32 whatever the compute type: an id's weight is looked up, not computed with.
        self.inverse_document_frequency = self.add_weight(
            shape=(self.vocab_size,), initializer="zeros", name="inverse_document_frequency",
            dtype="float32", trainable=False, autocast=False)
        self.average_length = self.add_weight(shape=(), initializer="zeros", name="average_length",
                                              dtype="float32", trainable=False, autocast=False)

    def assign(self, idf, average_length):
        """Set what `data.term_weights` learned: `idf` float `[vocab_size]` and a number above 0.

        Raises:
            UsageError: not as many tokens as the vocabulary has, or not such numbers.
        """
        idf = np.asarray(idf, "float32")
        if idf.shape != (self.vocab_size,):
            raise UsageError(explain(f"term weights of shape {idf.shape}",
                                     f"({self.vocab_size},), one for every token"))
        if not (np.isfinite(idf).all() and idf.min() >= 0 and 0 < average_length < np.inf):
            raise UsageError(explain("term weights below 0, not finite, or of texts without a "
                                     "token", "those that learn_term_weights gives"))
        self.inverse_document_frequency.assign(idf)
        self.average_length.assign(average_length)

    @property
    def is_learned(self):
        """Whether the variables hold the statistics of a corpus."""
        with tf.init_scope():
            return bool(self.average_length.numpy() > 0)

    def call(self, input_word_ids, input_mask):
        """Weights float32 `[b, seq_length]`."""
        if not self.is_learned:
            raise UsageError(explain(
                f"weighting={self.weighting!r} without the statistics of a corpus",
                attempt="set_term_weights(bert_tf.learn_term_weights(texts, tokenizer)), or "
                        "--corpus at export"))
        real = tf.cast(input_mask > 0, tf.float32)
        weights = tf.gather(self.inverse_document_frequency, input_word_ids) * real
        if self.weighting == "idf":
            return weights
        length = tf.reduce_sum(real, axis=1, keepdims=True)
        norm = self.k1 * ((1 - self.b) + self.b * length / self.average_length)
        return weights / (_occurrences(input_word_ids, input_mask, self.vocab_size) + norm)


def _occurrences(ids, mask, vocab_size):
    """How often each token is in its row, float32 of the shape of `ids`."""
    rows = tf.range(tf.shape(ids, tf.int64)[0])[:, tf.newaxis]
    keys = tf.where(mask > 0, rows * vocab_size + tf.cast(ids, tf.int64), -1)
    _, index, counts = tf.unique_with_counts(tf.reshape(keys, [-1]))
    return tf.cast(tf.reshape(tf.gather(counts, index), tf.shape(ids)), tf.float32)
