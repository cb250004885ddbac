"""Which devices train together, and which part of a batch each process reads."""

import contextlib
import json
import os

import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError, check_choice, explain
from bert_tf.training.config import STRATEGIES

_EXAMPLE = ('TF_CONFIG=\'{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
            '"task": {"type": "worker", "index": 0}}\'')


def _devices():
    """All GPUs, else all logical CPU devices."""
    return [device.name for device in tf.config.list_logical_devices("GPU")
            or tf.config.list_logical_devices("CPU")]


def _multi_worker():
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "null"))
        workers = cluster["cluster"]["worker"]
        index = cluster["task"]["index"]
        right = len(workers) > int(index) >= 0
    except (ValueError, TypeError, KeyError):
        right = False
    if not right:
        raise UsageError(explain("strategy=multi_worker, but TF_CONFIG names no cluster and task",
                                 f"in the environment of every process: {_EXAMPLE}"))
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(explain(f"TF_CONFIG is wrong: {reason}", _EXAMPLE)) from error
    except RuntimeError as error:
        raise UsageError("strategy=multi_worker must be made before any other TensorFlow work: "
                         f"{error}") from error


def make_strategy(name="mirrored"):
    """The `tf.distribute.Strategy` called `name`.

    Args:
        name: `mirrored`, one replica on each GPU, or on each logical CPU device where there is
            no GPU; `one_device`, the first of these; `multi_worker`, one process a machine, each
            told by TF_CONFIG, and to be made before other TensorFlow work.

    Raises:
        UsageError: the name is unknown, or TF_CONFIG is missing or wrong.
    """
    check_choice("strategy", name, STRATEGIES)
    if name == "multi_worker":
        return _multi_worker()
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(_devices()[0])
    # On CPU devices, sums in a fixed order on the first one. Collectives, the default, number
    # themselves from the same start in every strategy of a process, and then meet each other.
    on_cpu = not tf.config.list_logical_devices("GPU")
    return tf.distribute.MirroredStrategy(
        _devices(), tf.distribute.ReductionToOneDevice() if on_cpu else None)


def is_chief(strategy):
    """Whether this process writes checkpoints and logs; one of all workers does."""
    return strategy.extended.should_checkpoint


def distribute(strategy, make_dataset):
    """Per-replica batches, in order, as a distributed dataset.

    Args:
        strategy: the strategy.
        make_dataset: called as `make_dataset(num_replicas, replicas)`; its dataset yields the
            batch of each of this process's `replicas` (a range), step after step.
    """
    def make(context):
        local = context.num_replicas_in_sync // context.num_input_pipelines
        first = context.input_pipeline_id * local
        return make_dataset(context.num_replicas_in_sync, range(first, first + local))

    return strategy.distribute_datasets_from_function(make)


@contextlib.contextmanager
def explained_loss_of_workers():
    """Turn what TensorFlow raises where another process of the strategy ended into a line."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        raise BertTfError(explain("another worker ended too early; its own output says why",
                                  attempt="starting every worker again with the same command; "
                                          "the run goes on from its last checkpoint")) from error


def barrier(strategy):
    """Wait until every process of `strategy` has come here; one process goes on at once.

    Raises:
        BertTfError: another process ended.
    """
    @tf.function
    def meet():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, tf.ones(())))

    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        with explained_loss_of_workers():
            meet()
