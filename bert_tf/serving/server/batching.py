"""How requests of several clients are merged: the server's `BatchingParameters`."""

import dataclasses
import os

from bert_tf import cores
from bert_tf.errors import UsageError, explain
from bert_tf.serving.server import text_protos
from bert_tf.storage import files

CPUS = cores.usable()


@dataclasses.dataclass(frozen=True)
class Batching:
    """How requests are merged: `BatchingParameters` with TensorFlow Serving's defaults.

    Attributes:
        max_batch_size: rows of a batch.
        timeout: seconds that the first request of a batch waits for others while the server is
            busy.
        max_enqueued_batches: batches that may wait for a thread, of one signature.
        threads: that run batches, of all models.
        thread_pool: its name, in metrics.
        allowed_sizes: to which of these rows a batch is filled up; () for no filling.
        pad: whether inputs whose lengths differ are padded to merge them.
        split: whether a request larger than `execution_size` runs in parts.
        execution_size: rows of a part.
    """

    max_batch_size: int = 1000
    timeout: float = 0.0
    max_enqueued_batches: int = 10
    threads: int = CPUS
    thread_pool: str = "model_server_batch_threads"
    allowed_sizes: tuple[int, ...] = ()
    pad: bool = False
    split: bool = False
    execution_size: int = 1000


def batching_of(flags):
    """Return the server's `Batching` by its flags; None where requests are not merged.

    Raises:
        UsageError: parameters without batching, or as of `read_batching`.
    """
    if not flags.enable_batching:
        if flags.batching_parameters_file:
            raise UsageError(explain("--batching_parameters_file without --enable_batching",
                                     attempt="--enable_batching=true"))
        return None
    path = flags.batching_parameters_file
    return read_batching(path) if path else Batching()


def read_batching(path, shared=None):
    """Return the `Batching` that a file of `BatchingParameters` says.

    Args:
        path: of the file.
        shared: the server's `Batching`, whose threads a model has with all others.

    Raises:
        UsageError: its values do not fit each other (`CreateBatchingSession` in
            `batching/batching_session.cc`).
    """
    proto = text_protos.read(path, "BatchingParameters")

    def value(name, default):
        return getattr(proto, name).value if proto.HasField(name) else default

    size = value("max_batch_size", Batching.max_batch_size)
    split = value("enable_large_batch_splitting", False)
    execution_size = value("max_execution_batch_size", size) if split else size
    batching = Batching(
        size, value("batch_timeout_micros", 0) / 1e6,
        value("max_enqueued_batches", Batching.max_enqueued_batches),
        shared.threads if shared else value("num_batch_threads", Batching.threads),
        shared.thread_pool if shared else value("thread_pool_name", Batching.thread_pool),
        tuple(proto.allowed_batch_sizes), proto.pad_variable_length_inputs, split, execution_size)
    for name, least in (("max_batch_size", 1), ("max_enqueued_batches", 1),
                        ("batch_timeout_micros", 0), ("num_batch_threads", 1),
                        ("max_execution_batch_size", 1)):
        if value(name, least) < least:
            raise UsageError(explain(f"{path}: {name} {value(name, least)}", f"at least {least}"))
    if execution_size > size:
        raise UsageError(explain(f"{path}: max_execution_batch_size {execution_size}",
                                 f"at most max_batch_size, {size}"))
    sizes = batching.allowed_sizes
    if sizes and (list(sizes) != sorted(set(sizes)) or sizes[-1] != execution_size):
        raise UsageError(explain(
            f"{path}: allowed_batch_sizes {' '.join(map(str, sizes))}", "increasing numbers, the "
            f"last of them max{'_execution' if split else ''}_batch_size, {execution_size}"))
    return batching


def model_batching(version, shared):
    """Return the `Batching` of a version's own `batching_params.pbtxt`; without that file None.

    For `--enable_per_model_batching_parameters` (`servables/tensorflow/
    saved_model_bundle_factory.cc`): threads and their name are those of the `shared` one.
    """
    path = os.path.join(version, "batching_params.pbtxt")
    return read_batching(path, shared) if files.exists(path) else None
