"""Rows of all replicas in each of them, with gradients, so that a loss sees the whole batch."""

import tensorflow as tf


def gather_batch(values):
    """Return the rows of all replicas, `[replicas * b, …]`, in their order, of one's `[b, …]`.

    Several workers are replicas, too. Outside of a strategy these are the rows themselves.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    # A sum of what is 0 elsewhere: every strategy has one, in the same order always.
    own = tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync,
                     dtype=values.dtype)
    shape = [-1] + [1] * len(values.shape)
    spread = tf.reshape(own, shape) * values[tf.newaxis]
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, spread)
    rows = tf.reshape(total, tf.concat([[-1], tf.shape(values)[1:]], 0))
    return tf.ensure_shape(rows, [None, *values.shape[1:]])


def scatter_gradient(values):
    """Return `gather_batch(values)`, whose gradient is that of this replica's own rows.

    Every replica computes the same loss of the same rows. Its share of it is one part in the
    number of replicas, but for its rows it knows the whole gradient: so nothing need be sent back.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    replicas = context.num_replicas_in_sync

    @tf.custom_gradient
    def gather(values):
        def gradient(upstream):
            parts = tf.reshape(upstream, tf.concat([[replicas], tf.shape(values)], 0))
            return replicas * tf.gather(parts, context.replica_id_in_sync_group)

        return gather_batch(values), gradient

    return gather(values)
