"""The text files that `tensorflow_model_server` reads, parsed with its message definitions.

`ModelServerConfig` comes from `tensorflow-serving-api`. That package lacks `BatchingParameters`
(`servables/tensorflow/session_bundle_config.proto`), `MonitoringConfig`
(`config/monitoring_config.proto`) and `SSLConfig` (`config/ssl_config.proto`): their fields, as of
TensorFlow Serving 2.20, are declared here.
"""

import functools

from bert_tf.errors import UsageError, explain, needs
from bert_tf.storage import files

_BOOL, _STRING, _INT64, _MESSAGE = 8, 9, 3, 11  # FieldDescriptorProto.Type
_INT64_VALUE, _STRING_VALUE, _BOOL_VALUE = (
    f".google.protobuf.{name}Value" for name in ("Int64", "String", "Bool"))
_PACKAGE = "bert_tf.tensorflow_serving"  # another than theirs: both may be in one process

# message: {field: (number, type or name of the message, repeated)}
_MESSAGES = {
    "BatchingParameters": {
        "max_batch_size": (1, _INT64_VALUE, False),
        "batch_timeout_micros": (2, _INT64_VALUE, False),
        "max_enqueued_batches": (3, _INT64_VALUE, False),
        "num_batch_threads": (4, _INT64_VALUE, False),
        "thread_pool_name": (5, _STRING_VALUE, False),
        "allowed_batch_sizes": (6, _INT64, True),
        "pad_variable_length_inputs": (7, _BOOL, False),
        "max_execution_batch_size": (8, _INT64_VALUE, False),
        "enable_large_batch_splitting": (9, _BOOL_VALUE, False)},
    "PrometheusConfig": {"enable": (1, _BOOL, False), "path": (2, _STRING, False)},
    "MonitoringConfig": {"prometheus_config": (1, f".{_PACKAGE}.PrometheusConfig", False)},
    "SSLConfig": {
        "server_key": (1, _STRING, False), "server_cert": (2, _STRING, False),
        "custom_ca": (3, _STRING, False), "client_verify": (4, _BOOL, False)}}

_SECRET = ("SSLConfig",)  # messages of whose text an error tells nothing


@functools.cache
def message_class(name):
    """The class of a message by its name in TensorFlow Serving, such as `BatchingParameters`.

    Raises:
        UsageError: `tensorflow-serving-api` is not installed.
    """
    if name in _MESSAGES:
        return _declared()[name]
    with needs("serving", "tensorflow-serving-api is not installed"):
        from tensorflow_serving.config import model_server_config_pb2
    return getattr(model_server_config_pb2, name)


@functools.cache
def _declared():
    from google.protobuf import (
        descriptor_pb2,
        descriptor_pool,
        message_factory,
        wrappers_pb2,
    )

    file = descriptor_pb2.FileDescriptorProto(
        name="bert_tf/tensorflow_serving.proto", package=_PACKAGE, syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name])
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            named = isinstance(kind, str)
            message.field.add(name=field, number=number, label=3 if repeated else 1,
                              type=_MESSAGE if named else kind, type_name=kind if named else None)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


def read(path, name):
    """The message in a text file.

    Args:
        path: of the file.
        name: of the message, as of `message_class`.

    Raises:
        BertTfError: the file cannot be read.
        UsageError: it holds something else than such a message; file and line are named.
    """
    from google.protobuf import text_format

    text = files.read_text(path)
    try:
        return text_format.Parse(text, message_class(name)())
    except text_format.ParseError as error:
        line = error.GetLine()
        if name in _SECRET:
            raise UsageError(explain(f"{path}{f' line {line}' if line else ''}",
                                     f"a {name} in protocol buffer text format")) from None
        problem = str(error).split(" : ", 1)[-1].replace(f"{_PACKAGE}.", "")
        problem = problem.replace("tensorflow.serving.", "").rstrip(".")
        raise UsageError(explain(f"{path}{f' line {line}' if line else ''}: {problem}",
                                 f"a {name} in protocol buffer text format")) from error
