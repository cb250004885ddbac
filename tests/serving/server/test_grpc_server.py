"""Where the gRPC server listens, and where it cannot."""

import socket

import pytest
from fake_models import add_version, running, settings_of, started

from bert_tf.errors import BertTfError

pytestmark = pytest.mark.usefixtures("fake_versions")


@pytest.fixture
def start(tmp_path):
    """`start(*flags)`: start a server and stop it."""
    add_version(tmp_path / "m")

    def start(*flags):
        settings = settings_of(tmp_path, *flags)
        with running(settings) as (run, core):
            run(run(started(core, settings)).stop(0))

    return start


def test_a_live_socket_is_not_taken_over(start, tmp_path):
    path = tmp_path / "socket"
    flags = "--port=0", f"--grpc_socket_path={path}"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(BertTfError, match=f"cannot listen on unix:{path} for gRPC: another "
                                              "server listens there; try another "
                                              "--grpc_socket_path"):
            start(*flags)
    assert path.exists()
    start(*flags)  # over what a server that was killed left


@pytest.mark.parametrize("flags, message", [
    (["--port=0", "--grpc_socket_path={folder}/none/socket"], "is its folder there, .* another "
                                                              "--grpc_socket_path"),
    (["--port={port}"], "127.0.0.1, port {port}, for gRPC: Address already in use; try another "
                        "--port or --host"),
    (["--port=47", "--host=203.0.113.1"], "Cannot assign requested address")])
def test_why_it_cannot_listen_is_told(start, tmp_path, flags, message):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        values = {"folder": tmp_path, "port": other.getsockname()[1]}
        with pytest.raises(BertTfError, match=message.format(**values)):
            start(*(flag.format(**values) for flag in flags))
