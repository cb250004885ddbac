"""Content and position apart in the scores (He et al. 2021, "DeBERTa", section 3.1)."""

import math

import keras
import numpy as np
import tensorflow as tf

from bert_tf.layers.gather import gather_rows
from bert_tf.layers.initializers import truncated_normal
from bert_tf.layers.layer import Layer
from bert_tf.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable("bert_tf")
class RelativeEmbeddings(Layer):
    """Embeddings of distances, for what content says of positions and positions of content.

    With `d = from - to`, `E[d]` the normalized embedding of its bucket, and a layer's query and key
    projections (shared with the content, as in DeBERTa version 3; paper, appendix A.1),

        scores += query · key(E[d]) + key · query(E[d])

    of which the paper's equation 4 divides all three terms by `√(3 head_size)`. Where nothing is
    shared, as in version 1, `E[d]` is the row of the distance itself, those beyond the table having
    its last one, and the projections are `position_key` and `position_query` of the attention.

    Call: `of_layout(layout)` -> a function of `(attention, query, key)` that gives what is added to
    the scores of each rectangle: a list of `[rows, heads, from, to]` in the compute type.

    Args:
        hidden_size: width of the embeddings.
        position_buckets: buckets on either side of distance 0.
        max_relative_position: distance whose bucket is the last one, where `shared`.
        terms: "c2p" for the first product, "p2c" for the second, or both.
        shared: whether projections are shared with the content.
        layer_norm_eps: added to the variance.
        initializer_range, seed: see `Dense`.
    """

    def __init__(self, hidden_size, position_buckets=256, max_relative_position=512,
                 layer_norm_eps=1e-7, initializer_range=0.02, seed=None, terms=("c2p", "p2c"),
                 shared=True, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.position_buckets = position_buckets
        self.max_relative_position = max_relative_position
        self.initializer_range = initializer_range
        self.seed = seed
        self.terms, self.shared, self.layer_norm = terms, shared, None
        if shared:
            self.layer_norm = LayerNorm(layer_norm_eps, name="LayerNorm", dtype=self.dtype_policy)

    def build(self, input_shape=None):
        """Create `embeddings [2 buckets, hidden]`, the row of distance 0 in the middle."""
        self.embeddings = self.add_weight(
            name="embeddings", shape=(2 * self.position_buckets, self.hidden_size),
            initializer=truncated_normal(self.initializer_range, self.seed,
                                         f"{self.path}/embeddings"),
            autocast=False, dtype="float32")
        if self.shared:
            self.layer_norm.build((None, self.hidden_size))

    def of_layout(self, layout):
        """What the layers share of a batch: the embeddings of distances that there are."""
        buckets, widths = self.position_buckets, layout.widths
        widest = widths[0] if len(widths) == 1 else tf.reduce_max(widths)
        smaller = min if isinstance(widest, int) else tf.minimum
        # Where the logarithm grows slowly, a bucket is no farther from the middle than the
        # distance from 0.
        slow = not self.shared or self.max_relative_position >= 2 * buckets
        reach = smaller(buckets, widest - 1) if slow else buckets
        table = tf.convert_to_tensor(self.embeddings)[buckets - reach:buckets + reach + 1]
        table = tf.cast(self.layer_norm(table) if self.shared else table, self.compute_dtype)
        # A rectangle's distances, from that of its last position to its first one down.
        rows = [tf.clip_by_value(reach + self._bucket(tf.range(width - 1, -width, -1)), 0,
                                 buckets + reach - 1) for width in widths]

        def scores(attention, query, key):
            found = []
            if "c2p" in self.terms:
                dense = attention.key if self.shared else attention.position_key
                found.append(map(_content_to_position, query,
                                 _projected(dense(table), rows, query)))
            if "p2c" in self.terms:
                dense = attention.query if self.shared else attention.position_query
                found.append(map(_position_to_content, key,
                                 _projected(attention.scaled(dense(table)), rows, query)))
            return [sum(each[1:], each[0]) for each in zip(*found, strict=True)]

        return scores

    def _bucket(self, distance):
        return log_bucket(distance, self.position_buckets,
                          self.max_relative_position) if self.shared else distance


def log_bucket(distance, buckets, max_distance):
    """The bucket, from `-buckets` to `buckets`, of int32 distances: one each up to half of the
    buckets, wider ones up to `max_distance`."""
    exact = buckets // 2
    size = tf.maximum(tf.abs(distance), 1)
    share = (tf.math.log(tf.cast(size, tf.float32) / exact)
             / np.float32(math.log((max_distance - 1) / exact)))
    share = tf.where(size == max_distance - 1, 1.0, share)  # without rounding
    wide = tf.cast(tf.math.ceil(share * (exact - 1)), tf.int32) + exact
    return tf.where(size <= exact, distance, tf.sign(distance) * wide)


def _projected(table, rows, like):
    """For each rectangle `[heads, distances, head_size]` of `table [distances, hidden]`."""
    return [tf.transpose(tf.reshape(gather_rows(table, each),
                                    [-1, heads.shape[1], heads.shape[3]]), [1, 0, 2])
            for each, heads in zip(rows, like, strict=True)]


def _content_to_position(query, position_key):
    """`[b, N, S, H]`, `[N, 2 S - 1, H]` -> `[b, N, F, T]`."""
    # Query f is at distance f - t of key t, which stands in column t - f + S - 1.
    return _shifted(_products(query, position_key))


def _position_to_content(key, position_query):
    """The same of keys and the queries of distances."""
    # To key t query f is in column f - t + S - 1 of the same order turned round.
    return tf.linalg.matrix_transpose(_shifted(_products(key, position_query[:, ::-1])))


def _products(heads, positions):
    """`[b, N, S, H]` and `[N, distances, H]` -> `[b, N, S, distances]`."""
    if heads.shape[1] == 1:
        # oneDNN, in TensorFlow 2.20, crashes where one head stands for many rows.
        return tf.matmul(heads[:, 0], positions, transpose_b=True)[:, tf.newaxis]
    return tf.matmul(heads, positions, transpose_b=True)


def _shifted(scores):
    """`[b, N, S, 2 S - 1]` -> `[b, N, S, S]`: of row i the columns from `S - 1 - i` on."""
    batch, heads, length, width = tf.unstack(tf.shape(scores))
    flat = tf.reshape(tf.pad(scores, [[0, 0], [0, 0], [0, 0], [0, 1]]), [batch, heads, -1])
    rows = tf.reshape(flat[:, :, :length * width], [batch, heads, length, width])
    shifted = rows[..., length - 1:]
    shifted.set_shape([*scores.shape[:3], scores.shape[2]])
    return shifted
