"""The vectors of the tokens of a batch of queries, as losses take them."""

import dataclasses

import tensorflow as tf

from bert_tf.layers.max_sim import max_sim, pair_max_sim
from bert_tf.tasks.embedding.gather import gather_batch
from bert_tf.tasks.embedding.losses.vector_batch import VectorBatch, positives_first


@dataclasses.dataclass(frozen=True)
class MultiVectorBatch(VectorBatch):
    """A batch of `b` queries, each with a positive and up to n hard negatives.

    Attributes:
        vectors: float32 `[b, 2 + n, seq_length, dim]`.
        vector_mask: int32 `[b, 2 + n, seq_length]`, 1 where a token has a vector.
        further ones: see `VectorBatch`.
    """

    vector_mask: tf.Tensor | None = None

    @classmethod
    def gathered(cls, vectors, batch):
        """See `VectorBatch.gathered`; all replicas have one `seq_length`."""
        return dataclasses.replace(super().gathered(vectors, batch),
                                   vector_mask=gather_batch(batch["vector_mask"]))

    def all_similarities(self, similarity):
        """See `VectorBatch.all_similarities`; MaxSim."""
        passages, mask = (positives_first(values) for values in (self.vectors, self.vector_mask))
        return max_sim(*self._query_vectors(), passages, mask)

    def own_similarities(self, similarity):
        """See `VectorBatch.own_similarities`; MaxSim."""
        queries, mask = self._query_vectors()
        return tf.stack([pair_max_sim(queries, mask, self.vectors[:, at], self.vector_mask[:, at])
                         for at in range(1, self.vectors.shape[1])], 1)

    def _query_vectors(self):
        """Return vectors and mask of the queries, as long as the longest of them."""
        mask = self.vector_mask[:, 0]
        length = tf.reduce_max(tf.reduce_sum(
            tf.cast(tf.cumsum(mask, 1, reverse=True) > 0, tf.int32), 1))
        return self.queries[:, :length], mask[:, :length]
