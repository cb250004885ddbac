"""Configuration of the embedded server: the flags and files of `tensorflow_model_server`.

Names, defaults and meanings of the flags are those of TensorFlow Serving 2.20
(`model_servers/main.cc`, `server.h`), and so are those of the files (`text_protos`).
"""

import argparse
import dataclasses
import logging
import os
from typing import Any

from bert_tf import cli
from bert_tf.errors import UsageError, explain
from bert_tf.serving.apis.keys import Keys
from bert_tf.serving.apis.settings import ApiSettings
from bert_tf.serving.server import flag_types, text_protos
from bert_tf.serving.server.batching import CPUS, Batching, batching_of
from bert_tf.serving.server.flag_types import add as _add
from bert_tf.serving.server.tls import ServerTls
from bert_tf.serving.wire.request import Limits
from bert_tf.storage import files

MAX_MESSAGE_BYTES = 64 << 20  # of a request; TensorFlow Serving takes 2 GB
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the flags and the files they name say.

    Attributes:
        flags: the parsed flags, under their names.
        models: a `ModelServerConfig`.
        batching: a `Batching`, or None where requests are not merged.
        ssl: a `ServerTls`, or None for connections in the clear.
        monitoring_path: of the metrics, or None.
        max_message_bytes: of a request.
        keys: `Keys` that let clients in, or None for all.
    """

    flags: argparse.Namespace
    models: Any
    batching: Batching | None = None
    ssl: ServerTls | None = None
    monitoring_path: str | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES
    keys: Any = None

    @property
    def limits(self):
        """The `Limits` of a request."""
        return Limits(self.flags.max_request_rows, self.max_message_bytes,
                      self.flags.max_text_bytes)

    @property
    def apis(self):
        """The `ApiSettings`, or None where there are no such protocols."""
        flags = self.flags
        return ApiSettings(flags.api, self.limits, flags.rest_api_timeout_in_ms / 1000,
                           flags.max_request_tokens, flags.rest_api_enable_cors_support,
                           flags.max_connections) if flags.api else None

    @property
    def reload_roots(self):
        """Folders below which the base paths of a `HandleReloadConfigRequest` must be."""
        return self.flags.reload_roots or tuple(sorted({
            os.path.dirname(one.base_path.rstrip("/"))
            for one in self.models.model_config_list.config}))


def parser(doc):
    """The parser of the flags of `tensorflow_model_server`."""
    result = cli.Parser("serve", doc)
    group = result.add_argument_group("ports")
    _add(group, "host", flag_types.host, "127.0.0.1", "address to listen on, of either protocol; "
         "0.0.0.0 or :: for all of the machine's: see SECURITY.md. tensorflow_model_server has no "
         "such flag and listens on all")
    _add(group, "port", flag_types.port, 8500, "for gRPC; 0 for none, with --grpc_socket_path")
    _add(group, "grpc_socket_path", str, None, "Unix socket for gRPC, beside --port")
    _add(group, "rest_api_port", flag_types.port, 0, "for REST and the page for people; 0 for none")
    _add(group, "rest_api_timeout_in_ms", int, 30000, "time for a REST request")
    _add(group, "rest_api_enable_cors_support", bool, False, "allow pages of other origins")
    _add(group, "enable_serialization_as_tensor_content", bool, False,
         "answer Predict over gRPC with bytes in tensor_content, not with values")
    _add(group, "grpc_channel_arguments", str, None,
         "such as grpc.max_connection_age_ms=2000,grpc.max_receive_message_length=…")
    _add(group, "ssl_config_file", cli.path, None,
         "SSLConfig with the certificates, for gRPC and REST; read at the start")
    _add(group, "max_connections", cli.positive, 1000, "at the same time, of either protocol")
    _add(group, "max_request_rows", cli.positive, 4096, "texts or other rows of a request")
    _add(group, "max_text_bytes", cli.positive, 1 << 20, "of one text of a request")
    _add(group, "search_indexes", flag_types.names, (), "folders of bert_tf.index, with commas, "
         "that the page searches: each built by --model saved_models/NAME/VERSION; not a flag of "
         "tensorflow_model_server")
    flag_types.add_apis(result)
    group = result.add_argument_group("models")
    _add(group, "model_config_file", str, None, "ModelServerConfig with the models")
    _add(group, "model_config_file_poll_wait_seconds", int, 0,
         "seconds between looks at the file; 0: read once")
    _add(group, "model_name", str, "default", "where there is no --model_config_file")
    _add(group, "model_base_path", str, None, "folder with the model's versions, absolute")
    _add(group, "allow_version_labels_for_unavailable_models", bool, False,
         "a new label may name a version that is not loaded yet")
    _add(group, "file_system_poll_wait_seconds", int, 1,
         "seconds between looks for versions; 0: look once")
    _add(group, "max_num_load_retries", cli.natural, 5, "tries after a version failed to load")
    _add(group, "load_retry_interval_micros", int, 60_000_000, "time between them")
    _add(group, "allow_reload", flag_types.names, (), "whose HandleReloadConfigRequest is taken, "
         "with commas: loopback, of clients on this machine, unix, through --grpc_socket_path, "
         "cn:NAME, with a certificate of that common name; default: nobody's")
    _add(group, "reload_roots", flag_types.names, (), "folders below which it may name models, "
         "with commas; default: those that hold the models of the start")
    _add(group, "saved_model_tags", str, "serve", "of the graph in a SavedModel, with commas")
    _add(group, "enable_model_warmup", bool, True, "run assets.extra/tf_serving_warmup_requests")
    _add(group, "num_request_iterations_for_warmup", int, 0, "runs of each; 0: one")
    _add(group, "enable_signature_method_name_check", bool, False,
         "Classify and Regress ask the signature for their method name")
    group = result.add_argument_group("work")
    _add(group, "enable_batching", bool, False, "merge requests of several clients")
    _add(group, "batching_parameters_file", str, None, "BatchingParameters")
    _add(group, "enable_per_model_batching_parameters", bool, False,
         "batching_params.pbtxt in a version's folder goes before --batching_parameters_file")
    _add(group, "grpc_max_threads", cli.positive, 4 * CPUS, "requests that run side by side, "
         "where they are not merged")
    _add(group, "tensorflow_session_parallelism", cli.natural, 0,
         "threads, both for one operation and for operations side by side; 0: as TensorFlow likes")
    _add(group, "tensorflow_intra_op_parallelism", cli.natural, 0, "threads for one operation, "
         "where --tensorflow_session_parallelism is 0; 0: with --enable_batching the cores divided "
         "by num_batch_threads, else as TensorFlow likes")
    _add(group, "tensorflow_inter_op_parallelism", cli.natural, 0, "operations side by side, "
         "where --tensorflow_session_parallelism is 0")
    _add(group, "constant_kernels", bool, True,
         "keep bfloat16 kernels in the processor's order, which is quicker and takes memory for "
         "each signature; not a flag of tensorflow_model_server")
    _add(group, "monitoring_config_file", str, None,
         "MonitoringConfig: Prometheus, on --rest_api_port")
    _add_ineffective(result)
    return result


# Flags that change nothing here: (name, type, default)
_INEFFECTIVE = (
    ("rest_api_num_threads", int, 4 * CPUS),
    ("num_load_threads", int, 0), ("num_unload_threads", int, 0),
    ("flush_filesystem_caches", bool, True), ("enable_profiler", bool, True),
    ("remove_unused_fields_from_bundle_metagraph", bool, True),
    ("per_process_gpu_memory_fraction", float, 0.0), ("num_tflite_pools", int, CPUS),
    ("num_tflite_interpreters_per_pool", int, 1), ("xla_cpu_compilation_enabled", bool, False),
    ("xla_gpu_compilation_enabled", bool, False), ("skip_initialize_tpu", bool, False),
    ("mixed_precision", str, ""), ("enable_grpc_healthcheck_service", bool, True))
# Flags that this server cannot follow; their defaults are taken.
_UNSUPPORTED = (("use_alts_credentials", bool, False), ("prefer_tflite_model", bool, False),
                ("platform_config_file", str, None), ("tensorflow_session_config_file", str, None),
                ("thread_pool_factory_config_file", str, None))


def _add_ineffective(result):
    names = " ".join(f"--{name}" for name, _, _ in _INEFFECTIVE)
    group = result.add_argument_group("taken, without effect", names)
    for name, kind, default in _INEFFECTIVE + _UNSUPPORTED:
        _add(group, name, kind, default, argparse.SUPPRESS)


def settings(flags):
    """The `Settings` of parsed flags; their files are read.

    Raises:
        UsageError: flags contradict each other, or a file says something that cannot be.
        BertTfError: a file cannot be read.
    """
    for name, _, default in _UNSUPPORTED:
        if getattr(flags, name) != default:
            raise UsageError(explain(f"--{name}, which this server cannot follow",
                                     attempt="tensorflow_model_server"))
    for name, _, default in _INEFFECTIVE:
        if getattr(flags, name) != default:
            _log.warning("--%s has no effect on this server", name)
    for name, has_effect, where in (
            ("monitoring_config_file", flags.rest_api_port, "without --rest_api_port"),
            ("enable_per_model_batching_parameters", flags.enable_batching,
             "without --enable_batching"),
            ("model_base_path", not flags.model_config_file, "beside --model_config_file")):
        if getattr(flags, name) and not has_effect:
            _log.warning("--%s has no effect %s", name, where)
    ssl = flags.ssl_config_file and ServerTls.read(flags.ssl_config_file) or None
    if not flags.port and not flags.grpc_socket_path:
        raise UsageError(explain("--port=0", "a port, or --grpc_socket_path"))
    if flags.rest_api_port and flags.rest_api_port == flags.port:
        raise UsageError(explain(f"--rest_api_port={flags.port} and --port={flags.port}",
                                 "two different ports"))
    if flags.api and not flags.rest_api_port:
        raise UsageError(explain("--api without --rest_api_port", "a port for these protocols"))
    if flags.search_indexes and not flags.rest_api_port:
        raise UsageError(explain("--search_indexes without --rest_api_port",
                                 "a port for the page that searches them"))
    _check_reload(flags, ssl)
    channel_arguments(flags)
    monitoring = flags.monitoring_config_file and _monitoring(flags.monitoring_config_file)
    keys = flags.api_key_file and Keys.read(flags.api_key_file) or None
    result = Settings(flags, read_models(flags), batching_of(flags), ssl, monitoring or None,
                      keys=keys)
    if flags.model_config_file and not files.is_remote(flags.model_config_file):
        # It is looked at again where the server may be in another folder (`codec`).
        flags.model_config_file = os.path.abspath(flags.model_config_file)
    _check_default_roots(result)
    return result


def _check_reload(flags, ssl):
    for name in flags.allow_reload:
        kind, colon, common_name = name.partition(":")
        if not (name in ("loopback", "unix") or kind == "cn" and common_name):
            raise UsageError(explain(f"--allow_reload={name}", "loopback, unix or cn:NAME"))
        if name == "unix" and not flags.grpc_socket_path:
            raise UsageError(explain("--allow_reload=unix without --grpc_socket_path",
                                     "a socket"))
        if colon and not (ssl and ssl.verify):
            raise UsageError(explain(f"--allow_reload={name}, but clients show no certificates",
                                     "client_verify in --ssl_config_file"))
    for root in flags.reload_roots:
        if not os.path.isabs(root) and not files.is_remote(root):
            raise UsageError(explain(f"--reload_roots={root}", "an absolute path"))


def _check_default_roots(settings):
    """Refuse roots that nobody named and below which everything is: the disk, or all buckets."""
    if settings.flags.allow_reload and not settings.flags.reload_roots:
        for root in settings.reload_roots:
            if root.endswith(":") or os.path.realpath(root) == os.path.sep:
                raise UsageError(explain(
                    f"--allow_reload where the folder that holds a model is {root}",
                    "--reload_roots with folders below which models may be"))


def read_models(flags):
    """The `ModelServerConfig` of `--model_config_file`, or of `--model_name` and its path."""
    if flags.model_config_file:
        config = text_protos.read(flags.model_config_file, "ModelServerConfig")
        if config.WhichOneof("config") == "custom_model_config":
            raise UsageError(explain(f"{flags.model_config_file}: custom_model_config",
                                     "model_config_list"))
        return config
    if not flags.model_base_path:
        raise UsageError(explain("no model", "--model_config_file, or --model_name and "
                                 "--model_base_path"))
    config = text_protos.message_class("ModelServerConfig")()
    config.model_config_list.config.add(
        name=flags.model_name, base_path=flags.model_base_path, model_platform="tensorflow")
    return config


def channel_arguments(flags):
    """`--grpc_channel_arguments` as gRPC takes them: a list of (name, text or number)."""
    result = []
    for part in filter(None, (flags.grpc_channel_arguments or "").split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(explain(f"--grpc_channel_arguments: {part}", "name=value"))
        number = value.removeprefix("-").isdigit()
        result.append((name, int(value) if number else value))
    return result


def _monitoring(path):
    config = text_protos.read(path, "MonitoringConfig").prometheus_config
    if not config.enable:
        return None
    found = config.path or "/monitoring/prometheus/metrics"
    if not found.startswith("/"):
        raise UsageError(explain(f"{path}: path {found!r}", "one that begins with /"))
    return found
