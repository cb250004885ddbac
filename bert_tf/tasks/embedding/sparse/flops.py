"""The FLOPS regularizer: how many products a search by weights of tokens takes."""

import tensorflow as tf

_RISE = 1 / 3  # of the training
_USUAL = 5e-5, 3e-5  # weights for queries and for passages


def flops(weights, present):
    """Compute the sum over all tokens of the square of a token's mean weight, float32 scalar.

    Paria et al. 2020, "Minimizing FLOPs to Learn Efficient Sparse Representations", equation 4.

    Args:
        weights: float32 `[n, vocab]`, 0 or above.
        present: float32 `[n]`, 0 of rows that do not count.
    """
    mean = tf.math.divide_no_nan(tf.linalg.matvec(weights, present, transpose_a=True),
                                 tf.reduce_sum(present))
    return tf.reduce_sum(tf.square(mean))


def regularizer(batch, options, progress=None):
    """Compute what the loss of a `VectorBatch` is to grow by, float32 scalar.

    Its weights rise quadratically in the first third of a training (Formal et al. 2021, "SPLADE
    v2", section 3.2).

    Args:
        batch: `VectorBatch` of weights.
        options: a `SparseLoss`.
        progress: float32 scalar, the fraction of the training that is done; None for all.
    """
    present = tf.cast(batch.present, tf.float32)
    passages = tf.reshape(batch.vectors[:, 1:], [-1, batch.vectors.shape[-1]])
    query_weight, passage_weight = (
        usual if given is None else given for given, usual in zip(
            (options.query_flops, options.passage_flops), _USUAL, strict=True))
    total = (query_weight * flops(batch.queries, present[:, 0])
             + passage_weight * flops(passages, tf.reshape(present[:, 1:], [-1])))
    return total if progress is None else total * tf.square(tf.minimum(progress / _RISE, 1))
