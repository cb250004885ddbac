"""Requests that are run on a version before it takes traffic.

They are read from `assets.extra/tf_serving_warmup_requests`, a TFRecord file of serialized
`PredictionLog` (`servables/tensorflow/saved_model_warmup_util.cc`).
"""

import concurrent.futures
import os
import sys

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf import cores
from bert_tf.serving.server import inference, priority
from bert_tf.serving.server.signature import DEFAULT_SIGNATURE
from bert_tf.serving.wire import protocol, tensor_proto
from bert_tf.serving.wire.grpc_messages import examples_of
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import Limits
from bert_tf.storage import files

MAX_RECORDS = 1000
_ANY = Limits(sys.maxsize, sys.maxsize, sys.maxsize)  # the file is the operator's
FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")


def warm_up(version, iterations=1):
    """Run a version's requests, side by side; without the file nothing.

    Args:
        version: `LoadedVersion`.
        iterations: how often each is run.

    Returns: how many were run.

    Raises:
        ServingError: a request fails, there are more than `MAX_RECORDS`, or the file is damaged.
    """
    path = os.path.join(version.path, FILE)
    if not files.exists(path):
        return 0
    logs = _read(path)
    # A signature is compiled at its first request, by the thread that asks: as many at a time as
    # there are cores; in bfloat16 one after the other, see `constant_kernels`.
    with concurrent.futures.ThreadPoolExecutor(cores.usable(),
                                               initializer=priority.lower_priority) as pool:
        for _ in range(iterations):
            list(pool.map(lambda log: _run(version, log), logs))
    return len(logs)


def _read(path):
    logs = []
    try:
        for record in tf.data.TFRecordDataset(path, buffer_size=1 << 20).as_numpy_iterator():
            if len(logs) == MAX_RECORDS:
                raise error("warmup_records", limit=MAX_RECORDS)
            logs.append(prediction_log_pb2.PredictionLog.FromString(record))
    except DecodeError as problem:
        raise error("warmup_record", number=len(logs) + 1) from problem
    except tf.errors.DataLossError as problem:
        raise error("warmup_file") from problem
    return logs


def _run(version, log):
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        signature = version.signature(request.model_spec.signature_name or DEFAULT_SIGNATURE)
        inputs = signature.checked(tensor_proto.read_all(request.inputs), request.output_filter)
        signature.run(inputs, request.output_filter)
    elif kind in ("classify_log", "regress_log"):
        request = getattr(log, kind).request
        method = inference.METHODS[kind.removesuffix("_log")]
        _infer(version, method, request.model_spec, request.input)
    elif kind == "multi_inference_log":
        request = log.multi_inference_log.request
        for task in request.tasks:
            _infer(version, inference.method(task.method_name), task.model_spec, request.input)
    else:
        raise error("warmup_kind", kind=kind)


def _infer(version, method, model_spec, given):
    signature = method.signature(version, model_spec.signature_name)
    examples = examples_of(protocol.Input.FromString(given.SerializeToString()), _ANY)
    method.answer(signature, len(examples), signature.run(method.inputs(signature, examples)))
