"""A teacher's scores or vectors are to be reproduced."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.similarity import pair_similarities
from bert_tf.tasks.embedding.losses.vector_batch import weighted_mean


def margin_mse(batch, options):
    """The squared difference of s(q, p) - s(q, n) and the teacher's margin, over all negatives.

    Hofstätter et al. 2020, "Improving Efficient Neural Ranking Models with Cross-Architecture
    Knowledge Distillation", section 3; s is the dot product, unless options say cosine. Without
    scores in the file the teacher's are similarities of its vectors.
    """
    similarity = options.similarity or "dot"
    margins, scores = _margins(batch.own_similarities(similarity)), batch.scores
    if batch.teacher is not None:
        scores = pair_similarities(batch.teacher[:, :1], batch.teacher[:, 1:], similarity)
    weights = tf.where(batch.present[:, 2:], batch.weights[:, tf.newaxis], 0.0)
    return weighted_mean(tf.square(margins - _margins(scores)), weights)


def vectors(batch, _):
    """The mean squared difference of each text's vector and its teacher's.

    Reimers and Gurevych 2020, "Making Monolingual Sentence Embeddings Multilingual using Knowledge
    Distillation", section 2. The query's hard negatives count as well.
    """
    width = batch.vectors.shape[-1]
    errors = tf.reduce_mean(tf.square(batch.vectors - batch.teacher[..., :width]), -1)
    weights = tf.where(batch.present, batch.weights[:, tf.newaxis], 0.0)
    return weighted_mean(errors, weights)


def _margins(scores):
    return scores[:, :1] - scores[:, 1:]
