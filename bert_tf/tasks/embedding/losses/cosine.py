"""The cosine of a pair is to be its score."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.similarity import pair_similarities


def cosine(batch, _):
    """The squared difference of a pair's cosine and its score (Sentence-BERT, section 3)."""
    cosines = pair_similarities(batch.queries, batch.positives)
    return batch.mean(tf.square(cosines - batch.scores[:, 0]))
