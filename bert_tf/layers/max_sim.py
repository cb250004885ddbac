"""MaxSim: how well the vectors of a query's tokens are found among those of passages' tokens."""

import tensorflow as tf

from bert_tf.layers.inference import own_gradient

_PRODUCTS_AT_ONCE = 1 << 24  # 64 MB of float32


def pair_max_sim(queries, query_mask, passages, passage_mask):
    """Return float32 `[b]`: MaxSim of each query and the passage beside it; see `max_sim`.

    Args:
        queries: float32 `[b, q, dim]`.
        query_mask: `[b, q]`, 0 of vectors that do not count.
        passages: float32 `[b, p, dim]`.
        passage_mask: `[b, p]`.
    """
    products = _hidden(tf.matmul(queries, passages, transpose_b=True),
                       passage_mask[:, tf.newaxis] > 0)
    return tf.reduce_sum(_counted(tf.reduce_max(products, -1), query_mask,
                                  tf.reduce_any(passage_mask > 0, -1)[:, tf.newaxis]), -1)


def max_sim(queries, query_mask, passages, passage_mask):
    """Return float32 `[n, m]`: for each query and passage the sum over the query's vectors of the
    largest scalar product with one of the passage's.

    Khattab and Zaharia 2020, "ColBERT", section 3.3, equation 3. A passage without vectors has 0.
    Products of some queries are held at a time, in training as well: of those before, which vector
    of a passage was nearest is all that the gradient needs.

    Args:
        queries: float32 `[n, q, dim]`.
        query_mask: `[n, q]`, 0 of vectors that do not count.
        passages: float32 `[m, p, dim]`.
        passage_mask: `[m, p]`.
    """
    queries, query_mask, passages, passage_mask = map(tf.convert_to_tensor, (
        queries, query_mask, passages, passage_mask))
    dim, (m, p) = passages.shape[-1], tf.unstack(tf.shape(passages)[:2])
    q, any_vector = tf.shape(queries)[1], tf.reduce_any(passage_mask > 0, -1)
    products_of_one = tf.cast(q, tf.int64) * tf.cast(m, tf.int64) * tf.cast(p, tf.int64)
    at_once = tf.cast(tf.maximum(_PRODUCTS_AT_ONCE // tf.maximum(products_of_one, 1), 1), tf.int32)

    def in_parts(step, *values):
        """Call `step(slice, *values)` for some queries after the others; return the last values."""
        _, *values = tf.while_loop(
            lambda start, *_: start < tf.shape(queries)[0],
            lambda start, *values: (start + at_once, *step(slice(start, start + at_once), *values)),
            (0, *values), parallel_iterations=1,
            shape_invariants=(tf.TensorShape([]), *(tf.TensorShape([None] * value.shape.rank)
                                                    for value in values)))
        return values

    @own_gradient
    def compute(queries, passages):
        flat = tf.reshape(passages, [-1, dim])

        def largest(part, scores, nearest):
            products = tf.matmul(tf.reshape(queries[part], [-1, dim]), flat, transpose_b=True)
            products = _hidden(tf.reshape(products, [-1, q, m, p]), passage_mask > 0)
            found = _counted(tf.reduce_max(products, -1), query_mask[part][..., tf.newaxis],
                             any_vector)
            return (tf.concat([scores, tf.reduce_sum(found, 1)], 0),
                    tf.concat([nearest, tf.argmax(products, -1, output_type=tf.int32)], 0))

        scores, nearest = in_parts(largest, tf.zeros([0, m]), tf.zeros([0, q, m], tf.int32))

        def gradient(upstream):
            def add(part, of_queries, of_passages):
                # Of each vector of a query, what it weighs at the vector it was nearest to.
                weights = _counted(upstream[part][:, tf.newaxis],
                                   query_mask[part][..., tf.newaxis], any_vector)
                weights = tf.reshape(weights[..., tf.newaxis] * tf.one_hot(nearest[part], p),
                                     [-1, m * p])
                own = tf.reshape(tf.matmul(weights, flat), [-1, q, dim])
                return (tf.concat([of_queries, own], 0), of_passages + tf.matmul(
                    weights, tf.reshape(queries[part], [-1, dim]), transpose_a=True))

            of_queries, of_passages = in_parts(add, tf.zeros([0, q, dim]), tf.zeros_like(flat))
            return (tf.ensure_shape(of_queries, queries.shape),
                    tf.ensure_shape(tf.reshape(of_passages, tf.shape(passages)), passages.shape))

        return scores, gradient

    return compute(queries, passages)


def _hidden(products, real):
    """Products where no vector of a passage is below any that there may be."""
    return tf.where(real, products, products.dtype.min)


def _counted(largest, query_mask, any_vector):
    """The largest products, 0 where there is no vector of the query or none of the passage."""
    return tf.where((query_mask > 0) & any_vector, largest, 0.0)
