"""What a student learns of a teacher: losses summed over texts or tokens, each by its paper."""

import math

import tensorflow as tf

_TEMPERATURE = 0.05  # of cosines, as where vectors are trained


def vectors(taught, learned):
    """Squared distances of vectors (Reimers and Gurevych 2020, "Making Monolingual Sentence
    Embeddings Multilingual using Knowledge Distillation", equation 1).

    Args:
        taught, learned: float32 `[b, width]`.

    Returns: float32 `[b]`.
    """
    return tf.reduce_sum(tf.math.squared_difference(taught, learned), -1)


def directions(taught, learned):
    """One less the cosine of vectors: where their length says nothing, as in a search.

    Args:
        taught, learned: float32 `[b, width]`.

    Returns: float32 `[b]`, 0 to 2.
    """
    return 1.0 - tf.reduce_sum(tf.math.l2_normalize(taught, -1)
                               * tf.math.l2_normalize(learned, -1), -1)


def similarities(taught, learned, others, weights):
    """Divergence of how similar a text is to others, as the teacher and as the student sees it
    (Fang et al. 2021, "SEED", section 3.2): softmax of its cosines with the teacher's vectors of
    all texts of a batch, less the teacher's own entropy.

    Args:
        taught, learned: float32 `[b, width]`.
        others: the teacher's vectors of the whole batch, float32 `[B, width]`.
        weights: float32 `[B]`, 0 where a row is none.

    Returns: float32 `[b]`, in nats.
    """
    taught, learned, others = (tf.math.l2_normalize(each, -1)
                               for each in (taught, learned, others))
    absent = tf.where(weights > 0, 0.0, -1e4)
    return _divergence(*(tf.matmul(each, others, transpose_b=True) / _TEMPERATURE + absent
                         for each in (taught, learned)))


def probabilities(taught, learned, temperature):
    """Cross-entropy of softened probabilities (Hinton et al. 2015, "Distilling the Knowledge in a
    Neural Network", section 2), less the teacher's own entropy, so that 0 is the best; times the
    temperature's square.

    Args:
        taught, learned: logits, float32 `[b, labels]`.
        temperature: float by which both are divided.

    Returns: float32 `[b]`, in nats.
    """
    return temperature**2 * _divergence(taught / temperature, learned / temperature)


def independent_probabilities(taught, learned, temperature):
    """The same for labels of which each is a yes or no, summed over them; see `probabilities`."""
    taught, learned = (tf.stack([logits, tf.zeros_like(logits)], -1)
                       for logits in (taught, learned))
    return tf.reduce_sum(probabilities(taught, learned, temperature), -1)


def states(taught, learned, mask):
    """Mean squared differences of one layer's states (Jiao et al. 2020, "TinyBERT", equation 8).

    Args:
        taught, learned: float32 `[b, seq_length, hidden]`.
        mask: bool `[b, seq_length]`, whether a token is real.

    Returns: float32 `[b, seq_length]`, 0 at padding.
    """
    difference = tf.reduce_mean(tf.math.squared_difference(taught, learned), -1)
    return tf.where(mask, difference, 0.0)


def relations(taught, learned, mask, heads):
    """Divergence of the relations between a layer's queries, keys or values (Wang et al. 2021,
    "MiniLMv2", section 3.1): softmax of their scaled products within each of `heads`.

    Args:
        taught, learned: float32 `[b, seq_length, width]`, of either width.
        mask: bool `[b, seq_length]`.
        heads: divides both widths.

    Returns: float32 `[b, seq_length]`, the mean over heads, 0 at padding.
    """
    taught, learned = (_relation_scores(values, mask, heads) for values in (taught, learned))
    return tf.where(mask, tf.reduce_mean(_divergence(taught, learned), 1), 0.0)


def _relation_scores(values, mask, heads):
    """Scores `[b, heads, seq_length, seq_length]` of `values [b, seq_length, width]`."""
    size = values.shape[-1] // heads
    shape = tf.shape(values)
    parts = tf.transpose(tf.reshape(values, [shape[0], shape[1], heads, size]), [0, 2, 1, 3])
    scores = tf.matmul(parts, parts, transpose_b=True) / math.sqrt(size)
    return scores + tf.where(mask, 0.0, -1e4)[:, tf.newaxis, tf.newaxis]


def _divergence(taught, learned):
    """Kullback-Leibler divergence of the distributions in the last axis of logits."""
    taught, learned = tf.nn.log_softmax(taught), tf.nn.log_softmax(learned)
    return tf.reduce_sum(tf.exp(taught) * (taught - learned), -1)
