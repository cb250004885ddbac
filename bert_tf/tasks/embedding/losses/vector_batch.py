"""The vectors of a batch of queries, as losses take them."""

import dataclasses

import tensorflow as tf

from bert_tf.tasks.embedding.gather import gather_batch, scatter_gradient
from bert_tf.tasks.embedding.losses.similarity import all_similarities, pair_similarities


@dataclasses.dataclass(frozen=True)
class VectorBatch:
    """A batch of `b` queries, each with a positive and up to n hard negatives.

    Attributes:
        vectors: float32 `[b, 2 + n, width]`: of query, positive, negatives.
        text_ids: int32 `[b, 2 + n]`; equal texts have equal ids, 0 where there is no text.
        positive_ids: int32 `[b, m]`, ascending ids of all positives of the query, and of its own
            text; the greatest int32 is none.
        weights: float32 `[b]`, 0 of rows that only fill the batch.
        scores: float32 `[b, 1 + n]` of positive and negatives, or None.
        teacher: float32 `[b, 2 + n, teacher's width]`, or None.
    """

    vectors: tf.Tensor
    text_ids: tf.Tensor
    positive_ids: tf.Tensor
    weights: tf.Tensor
    scores: tf.Tensor | None = None
    teacher: tf.Tensor | None = None

    @classmethod
    def gathered(cls, vectors, batch):
        """Build that of all replicas from one replica's `vectors` and its batch of features.

        In each replica it is the same, and so is a loss made of it; see `gather_batch`.
        """
        weights = batch.get("example_weights")
        if weights is None:
            weights = tf.ones(tf.shape(vectors)[:1])
        return cls(scatter_gradient(vectors), *(
            None if part is None else gather_batch(part)
            for part in (batch["text_ids"], batch["positive_ids"], weights, batch.get("scores"),
                         batch.get("teacher"))))

    def all_similarities(self, similarity):
        """Return `[b, b + b n]`: of each query and all positives, then all negatives."""
        return all_similarities(self.queries, positives_first(self.vectors), similarity)

    def own_similarities(self, similarity):
        """Return `[b, 1 + n]`: of each query and its positive and negatives."""
        return pair_similarities(self.vectors[:, :1], self.vectors[:, 1:], similarity)

    @property
    def queries(self):
        """Vectors of the queries, `[b, width]`."""
        return self.vectors[:, 0]

    @property
    def positives(self):
        """Vectors of the positives, `[b, width]`."""
        return self.vectors[:, 1]

    @property
    def negatives(self):
        """Vectors of the hard negatives, `[b, n, width]`."""
        return self.vectors[:, 2:]

    @property
    def is_labelled(self):
        """Whether each row is a labelled pair: two texts and a number."""
        return self.scores is not None and self.scores.shape[1] == 1

    @property
    def present(self):
        """Which texts there are, bool `[b, 2 + n]`."""
        return (self.text_ids > 0) & (self.weights > 0)[:, tf.newaxis]

    def mean(self, values):
        """The mean of `values [b]`, by the weights of the queries."""
        return weighted_mean(values, self.weights)


def positives_first(values):
    """Return `[b + b n, …]` of `values [b, 2 + n, …]`: those of all positives, then of all
    negatives."""
    negatives = tf.reshape(values[:, 2:], tf.concat([[-1], tf.shape(values)[2:]], 0))
    return tf.concat([values[:, 1], tf.ensure_shape(negatives, [None, *values.shape[2:]])], 0)


def weighted_mean(values, weights):
    """The mean of `values` by `weights` of the same shape; 0 where all weigh nothing."""
    # What a row that weighs nothing has may be infinite: it must not reach the sum.
    values = tf.where(weights > 0, values, tf.zeros_like(values))
    return tf.math.divide_no_nan(tf.reduce_sum(weights * values), tf.reduce_sum(weights))
