"""Batches that this process computes side by side on a CPU, and TensorFlow's threads for them."""

import os

_BATCHES = 8  # that are computed side by side at most: each takes memory of its own
_at_once, _threads = 1, None  # batches, and threads of TensorFlow as they were set for them


def set_threads(count, most=_BATCHES):
    """Set TensorFlow's threads to batches side by side, each on a core; return how many batches.

    That is quicker than all cores at one batch, whose parts have to be handed over and waited for.
    Further cores than `most` take parts of them all: their threads, which TensorFlow has once in a
    process, are those that are set here.

    To be called before TensorFlow computes anything. Where it is at work already, where the program
    has set its threads, or there is a GPU, all stays as it is, and the answer is 1.

    Args:
        count: cores that there are for it, no more of which are used than the variable
            TF_NUM_INTRAOP_THREADS says.
        most: batches that are computed at once.
    """
    import tensorflow as tf

    global _at_once, _threads
    asked = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if asked.isdecimal() and int(asked):
        count = min(count, int(asked))
    if tf.config.list_physical_devices("GPU"):  # does not start the runtime
        return 1
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    if threads and threads != _threads:
        return 1
    batches = min(count, most)
    # One thread computes in the one that asks, so that more than these need two.
    wanted = 1 if count == batches else max(2, count - batches)
    try:
        tf.config.threading.set_intra_op_parallelism_threads(wanted)
    except RuntimeError:  # it is at work
        return 1
    _at_once, _threads = batches, wanted
    return batches


def at_once():
    """Return how many batches this process computes side by side: what `set_threads` gave."""
    return _at_once
