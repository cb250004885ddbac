"""The devices that train together, and the part of a batch that each process reads."""

import contextlib
import glob
import os

import tensorflow as tf

from bert_tf import cores, side_by_side
from bert_tf.errors import (
    BertTfError,
    LostWorkerError,
    UsageError,
    check_choice,
    explain,
    print_note,
)
from bert_tf.training.cluster import find_cluster
from bert_tf.training.config import STRATEGIES

_NVIDIA = "/dev/nvidia[0-9]*"  # GPUs of that maker, where its driver is loaded
HALVES = 2  # of a batch, which one replica on a processor computes side by side
_peers = None  # of the cluster that this process joined; TensorFlow joins one at most


def _devices():
    """Return all GPUs, else all logical CPU devices."""
    return [device.name for device in tf.config.list_logical_devices("GPU")
            or tf.config.list_logical_devices("CPU")]


def _multi_worker():
    global _peers
    from bert_tf.training.peers import Peers

    cluster = find_cluster()
    Peers.prepare()
    gpus = len(tf.config.get_visible_devices("GPU"))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": cluster.workers}), task_type="worker",
        task_id=cluster.index, rpc_layer="grpc", num_accelerators={"GPU": gpus})
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except RuntimeError as error:
        raise UsageError("strategy=multi_worker must be made before any other TensorFlow work: "
                         f"{error}") from error
    except tf.errors.OpError as error:
        raise BertTfError(explain(
            f"{cluster.name(cluster.index)} cannot listen at its address: {error.message}",
            attempt="a port that is free on this machine")) from error
    peers = Peers(cluster)
    peers.meet(gpus)
    _peers = peers
    return strategy


def _make_cpu_devices(count):
    """Divide the processor into logical devices."""
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:  # TensorFlow is at work
        found = len(tf.config.list_logical_devices("CPU"))
        if found != count:
            raise UsageError(explain(
                f"num_devices={count} after TensorFlow started with {found}",
                attempt="it first in a new process")) from error


def make_strategy(name="mirrored", num_devices=1):
    """Make the `tf.distribute.Strategy` called `name`.

    Args:
        name: `mirrored`, one replica on each GPU, or on each logical CPU device where there is
            no GPU; `one_device`, the first of these; `multi_worker`, several processes, named by
            TF_CONFIG or by SLURM (see `find_cluster`), and to be made before other TensorFlow
            work; waits for all of them.
        num_devices: logical CPU devices to make first, where there is no GPU; 1 makes none, as
            `multi_worker` needs.

    Raises:
        UsageError: the name is unknown, the environment names no cluster, or `num_devices` comes
            too late or with `multi_worker`.
        BertTfError: a worker did not come, or this one's port is taken.
    """
    check_choice("strategy", name, STRATEGIES)
    if num_devices > 1 and name == "multi_worker":
        raise UsageError(explain(
            f"num_devices={num_devices} with strategy=multi_worker, in which a worker has a "
            "replica on each GPU or, without any, one", attempt="more workers"))
    if num_devices > 1:
        _make_cpu_devices(num_devices)
    if name == "multi_worker":
        return _multi_worker()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(_devices()[0])
    # On CPU devices, sums in a fixed order on the first one. Collectives, the default, number
    # themselves from the same start in every strategy of a process, and then meet each other.
    on_cpu = not tf.config.list_logical_devices("GPU")
    return tf.distribute.MirroredStrategy(
        _devices(), tf.distribute.ReductionToOneDevice() if on_cpu else None)


def command_strategy(options):
    """Make the strategy of a command that trains; the chief prints what trains.

    One replica on a processor computes the halves of a batch side by side, unless memory is to be
    saved: TensorFlow's threads are set for it, see `set_threads`.

    Args:
        options: have `strategy` and `num_devices`, for `make_strategy`; may have
            `accumulate_steps` and `gradient_checkpointing`.

    Raises: as `make_strategy` does.
    """
    for_memory = ((getattr(options, "accumulate_steps", None) or 1) > 1
                  or getattr(options, "gradient_checkpointing", False))
    if options.strategy != "multi_worker" and options.num_devices == 1 and not for_memory:
        side_by_side.set_threads(cores.usable(), HALVES)
    strategy = make_strategy(options.strategy, options.num_devices)
    if is_chief(strategy):
        print(f"devices: {devices(strategy)}")
        if _misses_gpus():
            print_note(explain(
                "this machine has an NVIDIA GPU, but TensorFlow finds none and takes the CPU",
                attempt="pip install 'tensorflow[and-cuda]>=2.20,<2.21', and nvidia-smi, which "
                        "tells whether the driver works; TF_CPP_MIN_LOG_LEVEL=0 shows what "
                        "TensorFlow says"))
    return strategy


def _misses_gpus():
    """Return whether there are GPUs that nobody hid and TensorFlow does not find."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return bool(glob.glob(_NVIDIA)) and not hidden and not tf.config.list_physical_devices("GPU")


def devices(strategy):
    """Return what trains in all processes together, such as `8 x GPU`."""
    kind = tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type
    return f"{strategy.num_replicas_in_sync} x {kind}"


def has_workers(strategy):
    """Return whether a strategy has several workers."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy):
    """Return whether this process writes checkpoints and logs; one of all workers does."""
    return strategy.extended.should_checkpoint


def make_batches(strategy, make_dataset):
    """Return the batches of this process's replicas, in order, for `next_batches`.

    They are no distributed dataset of TensorFlow's: that adds one a device, which is tuned (see
    `made_ahead`).

    Args:
        strategy: the strategy.
        make_dataset: called as `make_dataset(num_replicas, replicas)`; its dataset yields the
            batch of each of this process's `replicas` (a range), step after step.
    """
    count, workers, index = strategy.num_replicas_in_sync, 1, 0
    if has_workers(strategy):
        resolver = strategy.cluster_resolver
        workers, index = resolver.cluster_spec().num_tasks("worker"), resolver.task_id
    local = count // workers
    return make_dataset(count, range(index * local, (index + 1) * local))


def next_batches(strategy, iterator):
    """Take the next batch of each of this process's replicas, for `strategy.run`.

    Args:
        strategy: the strategy.
        iterator: over what `make_batches` gave for it.
    """
    return strategy.experimental_distribute_values_from_function(lambda _: next(iterator))


@contextlib.contextmanager
def explained_loss_of_workers():
    """Turn what TensorFlow raises where another process is lost into a line that names it."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError,
            tf.errors.DeadlineExceededError, tf.errors.FailedPreconditionError) as error:
        lost = _peers.lost() if _peers else []
        if not lost:
            raise
        raise LostWorkerError(explain(
            f"lost {', '.join(lost)}: ended, hanging or unreachable; its own output may show why",
            attempt="starting every worker again with the same command, also with another number "
                    "of them; the run resumes from its last checkpoint")) from error


def sum_over_workers(strategy, values):
    """Sum numbers over all replicas; what each process gives counts once for each of its own.

    Args:
        strategy: the strategy.
        values: float64 `[n]`.

    Returns: float64 `[n]`, the same in every process.

    Raises:
        LostWorkerError: another process is lost; it is named.
    """
    @tf.function(autograph=False)
    def total(values):
        return strategy.run(lambda own: tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, tf.identity(own)), args=(values,))

    with explained_loss_of_workers():
        found = strategy.experimental_local_results(total(tf.constant(values, tf.float64)))
        return found[0].numpy()


def barrier(strategy):
    """Wait until every process of `strategy` has come here; one process continues at once.

    Raises:
        LostWorkerError: another process is lost; it is named.
    """
    if has_workers(strategy):
        sum_over_workers(strategy, [1])


def any_worker(strategy, value):
    """Return whether a bool is true in any process of `strategy`, which waits for all of them.

    Raises:
        LostWorkerError: another process is lost; it is named.
    """
    return bool(sum_over_workers(strategy, [value])[0]) if has_workers(strategy) else value


def check_agreement(strategy, value, what, expected, error=BertTfError):
    """Raise `error` unless an int is the same in every process; `what` names it, `expected` says
    how it would be."""
    if not has_workers(strategy):
        return
    parts = [value >> 20, value % 2**20]  # whose squares are exact as float64
    total = sum_over_workers(strategy, [*parts, *(part * part for part in parts)])
    if any(strategy.num_replicas_in_sync * squares != each * each
           for each, squares in zip(total[:2], total[2:], strict=True)):
        raise error(explain(f"{what} is {value} here but differs in other workers", expected))
