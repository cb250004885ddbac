"""Who may change the models of a server, and from when on it listens."""

import socket
import stat
from types import SimpleNamespace

import grpc
import pytest
from fake_models import add_version, answering, running, settings_of
from server_harness import PATIENCE, free_ports, refused
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc

from bert_tf.errors import BertTfError
from bert_tf.serving.server.grpc_server import GrpcServer
from bert_tf.serving.server.grpc_services import _names_of

pytestmark = pytest.mark.usefixtures("fake_versions")


def reload_through(channel, folder, *names):
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.SetInParent()  # there, if empty
    for name in names:
        request.config.model_config_list.config.add(
            name=name, base_path=str(folder), model_platform="tensorflow")
    model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest(
        request, timeout=PATIENCE)


@pytest.mark.parametrize("allowed", [(), ("loopback",), ("unix",)])
def test_models_are_changed_by_those_that_are_named(tmp_path, allowed):
    path = tmp_path / "socket"
    models = tmp_path / "models"
    for name in ("models/m", "models/n", "elsewhere/x"):
        (tmp_path / name).mkdir(parents=True)
        add_version(tmp_path / name)
    (models / "link").symlink_to(tmp_path / "elsewhere" / "x")
    (port,) = free_ports(1)
    settings = settings_of(models, f"--port={port}", f"--grpc_socket_path={path}",
                           f"--allow_reload={','.join(allowed)}")
    with answering(settings) as (_, core):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for kind, address in (("loopback", f"127.0.0.1:{port}"), ("unix", f"unix:{path}")):
            with grpc.insecure_channel(address) as channel:
                if kind not in allowed:
                    with refused("PERMISSION_DENIED", "does not name this client"):
                        reload_through(channel, models / "n", "n")
                    continue
                for outside in (tmp_path / "elsewhere" / "x", models / "link", models / ".." / "x",
                                models.with_name("models-2") / "x"):
                    with refused("PERMISSION_DENIED", "not below --reload_roots"):
                        reload_through(channel, outside, "x")
                with refused("INVALID_ARGUMENT", "names no model"):
                    reload_through(channel, models)
                with refused("INVALID_ARGUMENT", "has no name"):
                    reload_through(channel, models / "n", "")
                assert core.models() == ["m"]
                reload_through(channel, models / "n", "n")
                assert core.models() == ["n"]


@pytest.mark.parametrize("peer, names", [
    ("ipv4:127.0.0.1:5000", {"loopback"}), ("ipv6:%5B::1%5D:5000", {"loopback"}),
    ("ipv4:192.0.2.7:5000", set()), ("ipv6:%5B2001:db8::1%5D:5000", set()),
    ("unix:/tmp/socket", {"unix"}), ("unix:", {"unix"})])
@pytest.mark.parametrize("certified", [(), (b"ops",)])
def test_what_a_client_is_called(peer, names, certified):
    call = SimpleNamespace(peer=lambda: peer,
                           auth_context=lambda: {"x509_common_name": certified})
    assert _names_of(call) == names | {f"cn:{name.decode()}" for name in certified}


def test_grpc_listens_once_models_are_there(tmp_path):
    add_version(tmp_path / "m")
    (port,) = free_ports(1)
    settings = settings_of(tmp_path, f"--port={port}")

    async def start(core):
        made = GrpcServer(core, settings)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        await made.start()
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
        with pytest.raises(BertTfError, match="Address already in use"):
            GrpcServer(core, settings)
        await made.stop(0)

    with running(settings) as (run, core):
        run(start(core))
