"""Parts of a replica's batch that a processor computes side by side, each operation on a core.

See `bert_tf.side_by_side` for when.
"""

import tensorflow as tf

from bert_tf import side_by_side
from bert_tf.training.strategy import HALVES

# Tokens from which on a half is computed in parts of at least half as many: operations of so many
# are as quick, and twice as much would be kept for the backward pass.
_MANY_TOKENS = 2048


def halves_of_step(strategy, config):
    """Return into how many parts, computed side by side, a step divides a replica's batch: see
    `halves_of`; 1 beside micro-batches or recomputed activations, which are for less memory."""
    if config.accumulate_steps > 1 or config.gradient_checkpointing:
        return 1
    return halves_of(strategy, config.batch_size // strategy.num_replicas_in_sync)


def halves_of(strategy, rows):
    """Return into how many parts, computed side by side, a replica's batch of so many rows is
    divided: `HALVES` where `set_threads` has set this process to it, else 1."""
    divides = side_by_side.at_once() > 1 and strategy.num_replicas_in_sync == 1
    return HALVES if divides and (rows or 0) >= HALVES else 1


def part_of(batch, index, size):
    """Return the `index`-th part of `size` examples of a replica's batch, at its own draw
    position."""
    part = {name: value[index * size:(index + 1) * size] if value.shape.rank else value
            for name, value in batch.items()}
    part["first_example"] += tf.cast(index * size, part["first_example"].dtype)
    return part


def of_each_part(batch, parts, compute, *arguments):
    """Return the list of `compute(part, *arguments)` over parts of a replica's batch."""
    if parts == 1:
        return [compute(batch, *arguments)]
    size = -(-batch["input_mask"].shape[0] // parts)
    compute = tf.function(compute, autograph=False)  # of which parts of one size share a trace
    return [compute(part_of(batch, index, size), *arguments) for index in range(parts)]


def sum_of_parts(batch, halves, compute, *arguments):
    """Return the sum of `compute(part, *arguments)` over parts of a replica's batch.

    As many as there are `halves` are computed at once. Of many tokens these are halved once more,
    and what comes second waits for the first: so no more than half of the activations are kept.

    Args:
        batch: dict of tensors; of a length that is not static there are the halves alone.
        halves: as of `halves_of`.
        compute: gives a structure of tensors, all of which add up.
    """
    rows, length = batch["input_mask"].shape
    if halves == 1 or not length or -(-rows // halves) * length < _MANY_TOKENS or rows < 2 * halves:
        return added(of_each_part(batch, halves, compute, *arguments))

    @tf.function(autograph=False)
    def compute_then(part, *arguments):
        # All of it waits, also what no input decides, such as the weights in another type.
        with tf.control_dependencies([part["input_mask"]]):
            return compute(part, *arguments)

    size, total = -(-rows // (2 * halves)), []
    for first in range(0, -(-rows // size), halves):
        with tf.control_dependencies(tf.nest.flatten(total)):
            parts = [tf.nest.map_structure(tf.identity, part_of(batch, index, size))
                     for index in range(first, min(first + halves, -(-rows // size)))]
        total = [added([*total, *(compute_then(part, *arguments) for part in parts)])]
    return total[0]


def added(found):
    """Return the sum of structures of tensors."""
    return tf.nest.map_structure(lambda *values: tf.add_n(values), *found)


def joined(found):
    """Return structures of tensors, one after the other along the first axis."""
    return tf.nest.map_structure(lambda *values: tf.concat(values, 0), *found)
