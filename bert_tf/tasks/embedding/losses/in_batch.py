"""A query is to find its positive among all texts of the batch."""

import tensorflow as tf

from bert_tf.tasks.embedding.losses.vector_batch import positives_first

_SCALES = {"cosine": 20.0, "dot": 1.0}


def in_batch(batch, options):
    """Cross-entropy of each query's positive among all positives and hard negatives of the batch.

    Henderson et al. 2017, "Efficient Natural Language Response Suggestion for Smart Reply", section
    4.4 (multiple negatives ranking; with cosines and a scale it is InfoNCE, van den Oord et al.
    2018). `two_sided` averages it with that of each positive's query among all queries (Radford et
    al. 2021, "CLIP", figure 3). A text alone is its own positive under another dropout: SimCSE,
    unsupervised (Gao, Yao and Chen 2021, section 3).

    A query's own positives and its own text, wherever they stand in the batch, are none of its
    negatives.
    """
    similarity = options.similarity or "cosine"
    scale = options.scale or _SCALES[similarity]
    size = tf.shape(batch.queries)[0]
    logits = scale * batch.all_similarities(similarity)
    present = positives_first(batch.present)
    own = tf.one_hot(tf.range(size), tf.shape(logits)[1], on_value=True, off_value=False)
    also_positive = _are_among(positives_first(batch.text_ids), batch.positive_ids)
    competes = own | present[tf.newaxis] & ~also_positive
    loss = _cross_entropy(logits, competes, own)
    if options.two_sided:
        back = own[:, :size] | (batch.weights > 0)[:, tf.newaxis] & ~also_positive[:, :size]
        loss = (loss + _cross_entropy(*map(tf.transpose, (
            logits[:, :size], back, own[:, :size])))) / 2
    return batch.mean(loss)


def _are_among(ids, lists):
    """Return bool `[b, m]`: which of `ids [m]` are in each of `lists [b, k]`, which ascend.

    They are looked up: comparing all would take `b m k` numbers, and a query may have thousands.
    """
    ids = tf.tile(ids[tf.newaxis], [tf.shape(lists)[0], 1])
    places = tf.minimum(tf.searchsorted(lists, ids), tf.shape(lists)[1] - 1)
    return tf.gather(lists, places, batch_dims=1) == ids


def _cross_entropy(logits, competes, own):
    """Of each row of `logits [n, m]`, among those that compete, one of which is its own."""
    own_logits = tf.reduce_sum(tf.where(own, logits, 0.0), -1)
    return tf.reduce_logsumexp(tf.where(competes, logits, logits.dtype.min), -1) - own_logits
