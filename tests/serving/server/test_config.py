"""Flags and files of the server: what they mean, and what is refused before anything is served."""

import pathlib
import types

import pytest
import tensorflow as tf

from bert_tf.errors import UsageError
from bert_tf.serving.apis.keys import Keys
from bert_tf.serving.server import config, text_protos
from bert_tf.serving.server.batching import Batching

pytest.importorskip("tensorflow_serving", reason="the extra [serving] is not installed")


def _settings(*flags):
    return config.settings(config.parser("").parse_args([*flags]))


def test_defaults_are_those_of_tensorflow_serving():
    settings = _settings("--model_base_path=/models/m")
    model, = settings.models.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == (
        "default", "/models/m", "tensorflow")
    flags = settings.flags
    assert (flags.port, flags.rest_api_port, flags.rest_api_timeout_in_ms) == (8500, 0, 30000)
    assert flags.file_system_poll_wait_seconds == 1 and flags.max_num_load_retries == 5
    assert flags.enable_model_warmup and not flags.enable_signature_method_name_check
    assert settings.batching is settings.ssl is settings.monitoring_path is None
    batching = _settings("--model_base_path=/m", "--enable_batching").batching
    assert (batching.max_batch_size, batching.timeout, batching.max_enqueued_batches) == (
        1000, 0, 10)


def test_hosts():
    for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "10.0.0.1"):
        assert _settings("--model_base_path=/m", f"--host={host}").flags.host == host
    with pytest.raises(UsageError, match="nowhere.example; expected an IP address"):
        _settings("--model_base_path=/m", "--host=nowhere.example")


def test_protocols_of_other_servers(write_file):
    flags = ["--model_base_path=/m", "--rest_api_port=8501"]
    assert _settings(*flags).apis is _settings(*flags).keys is None
    apis = _settings(*flags, "--api=openai,tei", "--max_request_tokens=5",
                     "--rest_api_timeout_in_ms=500", "--max_request_rows=7").apis
    assert (apis.apis, apis.max_tokens, apis.timeout) == (("openai", "tei"), 5, 0.5)
    assert apis.limits.rows == 7
    with pytest.raises(UsageError, match="soap; expected openai or tei"):
        _settings(*flags, "--api=openai,soap")
    with pytest.raises(UsageError, match="--api without --rest_api_port"):
        _settings(flags[0], "--api=tei")
    keys = _settings(*flags, f"--api_key_file={write_file('keys', 'key')}").keys
    assert keys._digests == Keys(["key"])._digests
    with pytest.raises(UsageError, match="holds no key"):
        _settings(*flags, f"--api_key_file={write_file('keys', '')}")


@pytest.mark.parametrize("given, expected", [
    ("--enable_batching", True), ("--enable_batching=true", True), ("--enable_batching=1", True),
    ("--enable_batching=false", False), ("--enable_batching=0", False)])
def test_a_truth_is_written_as_in_tensorflow(given, expected):
    assert (_settings("--model_base_path=/m", given).batching is not None) == expected


@pytest.mark.parametrize("flag", ["xla_gpu_compilation_enabled", "skip_initialize_tpu",
                                  "mixed_precision=bfloat16", "enable_profiler=false",
                                  "enable_grpc_healthcheck_service=false"])
def test_flags_without_effect_are_taken_and_said(flag, caplog):
    _settings("--model_base_path=/m")
    assert not caplog.records
    _settings("--model_base_path=/m", f"--{flag}")
    record, = caplog.records
    assert f"--{flag.partition('=')[0]} has no effect" in record.getMessage()


@pytest.mark.parametrize("flag, where", [
    ("monitoring_config_file=FILE", "without --rest_api_port"),
    ("enable_per_model_batching_parameters", "without --enable_batching"),
    ("model_base_path=/m", "beside --model_config_file")])
def test_flags_that_need_another_are_taken_and_said(flag, where, write_file, caplog):
    models = write_file("models", "model_config_list { }")
    flag = flag.replace("FILE", write_file("monitoring", "prometheus_config { enable: true }"))
    _settings(f"--model_config_file={models}", f"--{flag}")
    record, = caplog.records
    assert record.getMessage() == f"--{flag.partition('=')[0]} has no effect {where}"


def test_a_configuration_file_is_found_again_from_another_folder(write_file, monkeypatch):
    models = pathlib.Path(write_file("models", "model_config_list { }"))
    monkeypatch.chdir(models.parent)
    flags = _settings("--model_config_file=models").flags
    monkeypatch.chdir("/")
    assert pathlib.Path(flags.model_config_file).samefile(models)


def test_the_files_are_read(write_file):
    models = write_file("models", 'model_config_list { config { name: "m" base_path: "/m" '
                        'model_platform: "tensorflow" '
                        'version_labels { key: "stable" value: 2 } } }')
    batching = write_file("batching", "max_batch_size { value: 32 }\n"
                          "batch_timeout_micros { value: 5000 }\n"
                          "max_enqueued_batches { value: 7 } num_batch_threads { value: 3 }\n"
                          "allowed_batch_sizes: [1, 8, 32] pad_variable_length_inputs: true\n"
                          "thread_pool_name { value: 'pool' }")
    monitoring = write_file("monitoring", "prometheus_config { enable: true }")
    settings = _settings(f"--model_config_file={models}", "--enable_batching",
                         f"--batching_parameters_file={batching}",
                         f"--monitoring_config_file={monitoring}",
                         "--grpc_channel_arguments=grpc.max_connection_age_ms=20,a=b")
    assert settings.models.model_config_list.config[0].version_labels["stable"] == 2
    assert settings.batching == Batching(32, 0.005, 7, 3, "pool", (1, 8, 32), True, False, 32)
    assert settings.monitoring_path == "/monitoring/prometheus/metrics"
    assert config.channel_arguments(settings.flags) == [
        ("grpc.max_connection_age_ms", 20), ("a", "b")]


@pytest.mark.parametrize("flags, expected", [
    ([], "no model"),
    (["--model_base_path=/m", "--rest_api_port=8500"], "two different ports"),
    (["--model_base_path=/m", "--port=70000"], "70000"),
    (["--model_base_path=/m", "--api_key_file="], "--api_key_file: an empty path"),
    (["--model_base_path=/m", "--ssl_config_file="], "--ssl_config_file: an empty path"),
    (["--model_base_path=/m", "--search_indexes=/i"], "--search_indexes without --rest_api_port"),
    (["--model_base_path=/m", "--port=0"], "--grpc_socket_path"),
    (["--model_base_path=/m", "--enable_batching=maybe"], "true or false"),
    (["--model_base_path=/m", "--enable_batch"], "try --enable_batching"),
    (["--model_base_path=/m", "--use_alts_credentials"], "cannot follow"),
    (["--model_base_path=/m", "--grpc_channel_arguments=a"], "name=value"),
    (["--model_base_path=/m", "--allow_reload=all"], "loopback, unix or cn:NAME"),
    (["--model_base_path=/m", "--allow_reload=loopback,unix"], "without --grpc_socket_path"),
    (["--model_base_path=/m", "--allow_reload=cn:me"], "client_verify"),
    (["--model_base_path=/m", "--allow_reload=loopback"],
     "--allow_reload where the folder that holds a model is /; expected --reload_roots"),
    (["--model_base_path=gs://bucket", "--allow_reload=loopback"], "expected --reload_roots"),
    (["--model_base_path=/m", "--reload_roots=models"], "an absolute path")])
def test_flags_that_cannot_be(flags, expected):
    with pytest.raises(UsageError, match=expected):
        _settings(*flags)


def test_who_may_change_the_models():
    assert _settings("--model_base_path=/m").reload_roots == ("/",)  # of no use: nobody may
    told = _settings("--model_base_path=/m", "--allow_reload=loopback", "--reload_roots=/")
    assert told.reload_roots == ("/",)
    told = _settings("--model_base_path=/models/m/")
    assert (told.flags.allow_reload, told.reload_roots) == ((), ("/models",))
    told = _settings("--model_base_path=/models/m", "--allow_reload=unix, loopback",
                     "--grpc_socket_path=/s", "--reload_roots=/a,gs://b/c")
    assert told.flags.allow_reload == ("unix", "loopback")
    assert told.reload_roots == ("/a", "gs://b/c")


def test_the_declared_messages_have_tensorflow_serving_s_fields():
    # Of two of them another client carries the generated code.
    protos = pytest.importorskip("ovmsclient.tfs_compat.protos.tensorflow_serving.config."
                                 "ssl_config_pb2", reason="ovmsclient is not installed")
    from ovmsclient.tfs_compat.protos.tensorflow_serving.config import monitoring_config_pb2

    for theirs in (protos.SSLConfig, monitoring_config_pb2.MonitoringConfig,
                   monitoring_config_pb2.PrometheusConfig):
        ours = text_protos.message_class(theirs.DESCRIPTOR.name)
        assert {(field.name, field.number, field.type) for field in theirs.DESCRIPTOR.fields} == {
            (field.name, field.number, field.type) for field in ours.DESCRIPTOR.fields}


@pytest.mark.parametrize("session, intra, batches, threads", [
    (0, 4, 2, (4, 2)), (3, 4, 2, (3, 3)), (0, 0, None, (0, 2)), (0, 0, 2, (4, 2)),
    (0, 0, 3, (2, 2)), (0, 0, 16, (1, 2))])
def test_threads_of_sessions_go_before_those_of_operations_and_these_before_batches(
        monkeypatch, session, intra, batches, threads):
    from bert_tf.serving.server import server

    given = []
    monkeypatch.setattr(server, "CPUS", 8)
    for name in ("intra", "inter"):
        monkeypatch.setattr(tf.config.threading, f"set_{name}_op_parallelism_threads", given.append)
    server._set_threads(types.SimpleNamespace(
        flags=types.SimpleNamespace(
            tensorflow_session_parallelism=session, tensorflow_intra_op_parallelism=intra,
            tensorflow_inter_op_parallelism=2),
        batching=batches and Batching(threads=batches)))
    assert tuple(given) == threads
