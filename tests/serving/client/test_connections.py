"""What is on the way to a server: no server, another one, proxies, TLS."""

import socket
import subprocess

import grpc
import pytest
from scripted_server import Refusal, ScriptedServer
from server_harness import free_ports

from bert_tf.errors import BertTfError
from bert_tf.serving.client import RequestError, Tls
from bert_tf.serving.client.address import Address


def test_no_server(protocol, ask):
    address = f"{'http://' if protocol == 'rest' else ''}localhost:{free_ports(1)[0]}"
    with pytest.raises(RequestError, match=f"no server answers at {address}: Connection refused "
                       r"\(waited \d+\.\d s\); expected a server that has loaded its models"):
        ask(address, "embed", ["5"])
    with pytest.raises(RequestError, match="no server answers at nowhere.invalid:1: "):
        ask("nowhere.invalid:1", "status")


def test_no_proxy_leads_to_this_machine(protocol, ask, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_ports(1)[0]}")  # there is none
    monkeypatch.setenv("grpc_proxy", f"http://127.0.0.1:{free_ports(1)[0]}")
    with ScriptedServer().running(protocol) as address:
        scheme, port = "http://" * (protocol == "rest"), address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost"):
            assert ask(f"{scheme}{host}:{port}", "embed", ["5"]).tolist() == [[5, 1]]
        # A name of this machine that does not say so: through the proxy, unless no_proxy names it.
        other = f"{scheme}{socket.gethostname()}:{port}"
        monkeypatch.setattr(Address, "unreachable", lambda self, seconds: "not through the proxy")
        with pytest.raises(RequestError, match="not through the proxy"):
            ask(other, "embed", ["5"], of={"retries": 0, "timeout": 20})
        monkeypatch.setenv("no_proxy", f"elsewhere,{socket.gethostname()}")
        assert ask(other, "embed", ["5"]).tolist() == [[5, 1]]


@pytest.mark.parametrize(("status", "code"), [
    (413, "RESOURCE_EXHAUSTED"), (408, "DEADLINE_EXCEEDED"), (502, "UNAVAILABLE"),
    (429, "RESOURCE_EXHAUSTED"), (418, "UNKNOWN")])
def test_what_http_servers_and_proxies_say_themselves(ask, status, code):
    def answer(signature, inputs):
        raise Refusal(grpc.StatusCode.UNKNOWN, status, "no")

    with (ScriptedServer(answer).running("rest") as address,
          pytest.raises(RequestError, match="no") as error):
        ask(address, "embed", ["5"], of={"retries": 0})
    assert error.value.code == code


def test_the_other_protocols_server(protocol, ask):
    with ScriptedServer().running(protocol) as address:
        other = f"http://{address}" if protocol == "grpc" else address.removeprefix("http://")
        with pytest.raises(RequestError, match=other):
            ask(other, "embed", ["5"], of={"retries": 1, "timeout": 5})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Paths of a key and of a certificate of `localhost` that it signs itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-keyout", key, "-out", certificate, "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"], check=True,
                       capture_output=True)
    except FileNotFoundError:
        pytest.skip("the command openssl is absent")
    return key, certificate


def test_tls(ask, certificate, tmp_path):
    with ScriptedServer().running("grpc", certificate) as address:
        tls = Tls(ca_file=str(certificate[1]))
        assert ask(address, "embed", "3", of={"tls": tls}).tolist() == [3, 1]
        for scheme in ("", "https://"):
            with pytest.raises(RequestError, match="certificate verify failed"):
                ask(scheme + address, "embed", "3", of={"tls": Tls()})
        other = tmp_path / "other.pem"
        other.write_text("not a certificate")
        with pytest.raises(BertTfError, match="other.pem"):
            ask(f"https://{address}", "embed", "3", of={"tls": Tls(ca_file=str(other))})
        with pytest.raises(BertTfError, match="nowhere.pem: no such file"):
            ask(address, "embed", "3", of={"tls": Tls(ca_file=str(tmp_path / "nowhere.pem"))})
