"""How many cores this process may use, and for what."""

import math
import os

_LIMIT = "/sys/fs/cgroup/cpu.max"  # of cgroup v2, as a container sees it: "max 100000"
_QUOTA, _PERIOD = ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us",  # of v1: "-1" and "100000"
                   "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
_BATCHES = 8  # that are computed side by side at most: each takes memory of its own
_at_once, _threads = 1, None  # batches, and threads of TensorFlow as they were set for them


def usable():
    """Return the number of cores of this process: those it may run on (`taskset`, `numactl`), but
    no more than a container's limit, `docker run --cpus` or `resources.limits.cpu`, rounded up."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        count = os.cpu_count() or 1
    for paths in ([_LIMIT], [_QUOTA, _PERIOD]):
        try:
            quota, period = " ".join(_first_line(path) for path in paths).split()
            if quota not in ("max", "-1"):
                count = min(count, max(math.ceil(int(quota) / int(period)), 1))
        except (OSError, ValueError, ZeroDivisionError):
            continue  # no such file: no such limit
    return count


def batches_at_once(count, most=_BATCHES):
    """Have TensorFlow compute batches side by side, each on a core, and return how many.

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
    global _at_once, _threads
    import tensorflow as tf

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
    """Return how many batches this process computes side by side: what `batches_at_once` gave."""
    return _at_once


def _first_line(path):
    with open(path, encoding="ascii") as stream:
        return stream.readline()
