"""The server as a process: what stops it from starting, TLS, and how it ends."""

import asyncio
import concurrent.futures
import os
import shutil
import signal
import socket
import subprocess
import threading

import grpc
import pytest
from fake_models import add_version, settings_of
from server_harness import (
    BINARY,
    PATIENCE,
    Held,
    Server,
    arrays,
    free_ports,
    launch,
    refused,
    wait_until,
)
from small_model import save_small
from tensorflow_serving.config import model_server_config_pb2

from bert_tf.serving.server import server as server_module

own_words = pytest.mark.skipif(BINARY is not None, reason="the binary says it in other words")


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("process") / "small"
    save_small(folder)
    return folder


def _fails(*flags):
    """What the server says as it ends at once with an error."""
    process = launch(*flags)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None), output
    return output


@own_words
def test_what_is_wrong_is_said_before_anything_is_loaded(model_folder, tmp_path):
    models = tmp_path / "models.config"
    models.write_text('model_config_list {\n  config { name: "m" folder: "/m" }\n}\n')
    said = _fails(f"--model_config_file={models}")
    assert said == (f'error: {models} line 2: Message type "ModelConfig" has no field named '
                    '"folder"; expected a ModelServerConfig in protocol buffer text format\n')
    assert "--model_base_path" in _fails("--model_name=m")
    assert "two different ports" in _fails("--port=8500", "--rest_api_port=8500",
                                           f"--model_base_path={model_folder}")
    assert "try --enable_batching" in _fails(
        f"--model_base_path={model_folder}", f"--batching_parameters_file={models}")


@own_words
@pytest.mark.parametrize("flag", [
    "port", pytest.param("rest_api_port", marks=pytest.mark.long)])
def test_a_port_in_use(model_folder, flag):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        ports = {"port": free_ports(1)[0], flag: taken.getsockname()[1]}
        said = _fails(f"--model_base_path={model_folder}",
                      *(f"--{name}={number}" for name, number in ports.items()))
    assert f"another --{flag}" in said and str(ports[flag]) in said


def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path):
    save_small(tmp_path / "broken")
    (tmp_path / "broken" / "1" / "saved_model.pb").write_bytes(b"damaged")
    port, = free_ports(1)
    said = _fails(f"--port={port}", "--model_name=m", f"--model_base_path={tmp_path / 'broken'}",
                  "--max_num_load_retries=0")
    assert "did not become available" in said and "saved_model.pb" in said


@pytest.mark.long  # in this process: test_looks_for_models, test_versions
def test_a_changed_configuration_file_is_taken(model_folder, tmp_path):
    def write(*names):
        entries = "".join(f'config {{ name: "{name}" base_path: "{model_folder}" '
                          'model_platform: "tensorflow" }' for name in names)
        (tmp_path / "new").write_text(f"model_config_list {{ {entries} }}")
        (tmp_path / "new").rename(models)

    models = tmp_path / "models.config"
    write("first")
    server = Server(f"--model_config_file={models}", "--model_config_file_poll_wait_seconds=1")
    try:
        assert server.status("first")[1][0] == "AVAILABLE"
        write("first", "second")
        server.wait_for("second", v1="AVAILABLE")
        write("second")
        server.wait_for("first", v1="END")
        assert arrays(server.predict("second", text=["abc"]))["length"] == [3]
    finally:
        server.stop()


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """`pem(name)` -> key and certificate for localhost, each PEM text, self-signed."""
    if not shutil.which("openssl"):
        pytest.skip("openssl, which makes the certificates, is absent")
    folder = tmp_path_factory.mktemp("pem")

    def make(name):
        key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
        if not key.exists():
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                 "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                 "-keyout", key, "-out", certificate], check=True, capture_output=True)
        return key.read_text(), certificate.read_text()

    return make


def _ssl_config(path, key, certificate, **others):
    from bert_tf.serving.server import text_protos

    config = text_protos.message_class("SSLConfig")(server_key=key, server_cert=certificate,
                                                    **others)
    path.write_text(str(config))
    return f"--ssl_config_file={path}"


@pytest.mark.long  # in make test: test_tls
def test_tls_with_clients_that_show_who_they_are(model_folder, tmp_path, pem):
    (key, certificate), (client_key, client_certificate) = pem("server"), pem("client")
    flag = _ssl_config(tmp_path / "ssl.config", key, certificate, custom_ca=client_certificate,
                       client_verify=True)
    credentials = grpc.ssl_channel_credentials(
        certificate.encode(), client_key.encode(), client_certificate.encode())
    server = Server("--model_name=m", f"--model_base_path={model_folder}", flag,
                    channel=lambda address: grpc.secure_channel(address, credentials))
    try:
        assert arrays(server.predict("m", text=["abc"]))["length"] == [3]
        for stranger in (grpc.insecure_channel(server.address), grpc.secure_channel(
                server.address, grpc.ssl_channel_credentials(certificate.encode()))):
            call = stranger.unary_unary("/tensorflow.serving.PredictionService/Predict")
            with stranger, refused("UNAVAILABLE"):
                call(b"", timeout=PATIENCE)
    finally:
        server.stop()


@own_words
def test_a_key_of_another_certificate(model_folder, tmp_path, pem):
    flag = _ssl_config(tmp_path / "ssl.config", pem("client")[0], pem("server")[1])
    said = _fails(f"--model_base_path={model_folder}", flag)
    assert "server_key is not the key of server_cert" in said
    flag = _ssl_config(tmp_path / "ssl.config", "no key", pem("server")[1])
    assert "cannot be read" in _fails(f"--model_base_path={model_folder}", flag)


def another_connection(address):
    """A channel that shares its connection with no other."""
    return grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])


def answers(channel):
    """Whether the server answers over a channel, if with a refusal."""
    call = channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
    try:
        call(b"", timeout=PATIENCE)
    except grpc.RpcError as error:
        return error.code() != grpc.StatusCode.UNAVAILABLE
    return True


@pytest.fixture(scope="module")
def limited(model_folder, tmp_path_factory):
    """A server with flags for what it takes, and the path of its socket."""
    path = tmp_path_factory.mktemp("socket") / "grpc.socket"
    server = Server("--model_name=m", f"--model_base_path={model_folder}",
                    f"--grpc_socket_path={path}",
                    "--grpc_channel_arguments=grpc.max_receive_message_length=2000000",
                    *([] if BINARY else ["--host=0.0.0.0", "--max_connections=3",
                                         "--max_text_bytes=300"]))
    yield server, path
    server.stop()


@own_words
def test_a_server_takes_what_its_flags_allow_and_models_from_nobody(model_folder, limited):
    server, _ = limited
    held = [another_connection(server.address) for _ in range(3)]
    for channel, taken in zip(held, (True, True, False), strict=True):
        assert answers(channel) == taken  # the harness has one of the three
    for channel in (held[2], held[0]):  # that one would try again, and take the place
        channel.close()

    def has_room():
        with another_connection(server.address) as channel:
            return answers(channel)

    wait_until(has_room, "there is room again")
    held[1].close()
    for port in (server.port, server.rest_port):
        socket.create_connection(("127.0.0.2", port), PATIENCE).close()
    assert arrays(server.predict("m", text=["abc"]))["length"] == [3]
    with refused("INVALID_ARGUMENT", "a text of 301 bytes; expected at most 300"):
        server.predict("m", text=["a" * 301])
    request = model_server_config_pb2.ModelServerConfig()
    request.model_config_list.config.add(name="m", base_path=str(model_folder),
                                         model_platform="tensorflow")
    with refused("PERMISSION_DENIED", "--allow_reload does not name this client"):
        server.reload(request)


def test_a_socket_and_a_large_message(limited):
    server, path = limited
    assert os.path.exists(path)
    with grpc.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        request = server.request("m", text=["abc"]).SerializeToString()
        assert b"ABC" in call(request, timeout=PATIENCE)
    with refused("RESOURCE_EXHAUSTED", "larger than max"):
        server.predict("m", text=["x" * 3_000_000])
    assert arrays(server.predict("m", text=["abc"]))["length"] == [3]


def test_requests_under_way_are_answered_after_sigterm(limited, tmp_path):
    """The last of the tests of that server."""
    server, _ = limited
    held = Held(tmp_path)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(server.predict, "m", "hold", text=[held.path])
        held.wait()
        server.process.terminate()

        def refuses():
            with socket.socket() as probe:
                return probe.connect_ex(("localhost", server.port)) != 0

        wait_until(refuses, "no new connections are taken")
        held.release()
        assert arrays(waiting.result())["batch"].tolist() == [1]
    assert server.stop() == 0


@own_words
@pytest.mark.usefixtures("fake_versions")
def test_a_stop_does_not_wait_for_who_reads_whether_indexes_are_of_served_models(tmp_path):
    may_end, ended = threading.Event(), []

    class Indexes:
        def warn_of_unowned(self, folders):
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append(may_end.wait(PATIENCE))

    add_version(tmp_path / "m")
    settings = settings_of(tmp_path, f"--port={free_ports(1)[0]}")
    asyncio.run(server_module._serve(settings, None, Indexes()))
    assert ended == []
    may_end.set()
