"""What is on the way to a server: no server, another one, proxies, TLS."""

import contextlib
import itertools
import os
import socket
import socketserver
import subprocess
import sys
import threading

import grpc
import pytest
from scripted_server import Refusal, ScriptedServer, numbers
from server_harness import PATIENCE, REPOSITORY, free_ports

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.client import Client, RequestError, Tls
from bert_tf.serving.client.proxies import proxy_of


def test_no_server(protocol, ask):
    address = f"{'http://' if protocol == 'rest' else ''}localhost:{free_ports(1)[0]}"
    with pytest.raises(RequestError, match=f"no server answers at {address}: Connection refused "
                       r"\(waited \d+\.\d s\); expected a server that has loaded its models"):
        ask(address, "embed", ["5"])
    with pytest.raises(RequestError, match="no server answers at nowhere.invalid:1: "):
        ask("nowhere.invalid:1", "status")


_FORKS = """
import os, sys
from bert_tf.serving.client import Client
with Client(sys.argv[1], "m") as client:
    client.embed("1")
    if child := os.fork():
        os.waitpid(child, 0)
    client.embed("2")
"""


def test_a_forked_process_has_a_connection_of_its_own():
    connections = []  # each has a thread of the server's

    def answer(signature, inputs):
        connections.append(threading.get_ident())
        return numbers(signature, inputs)

    with ScriptedServer(answer).running("rest") as address:
        subprocess.run([sys.executable, "-c", _FORKS, address], check=True, timeout=PATIENCE,
                       env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    before, childs, parents = connections
    assert before == parents != childs


@pytest.fixture
def no_proxies(monkeypatch):
    """An environment without proxies."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "no_proxy",
                 "no_grpc_proxy"):
        for each in (name, name.upper()):
            monkeypatch.delenv(each, raising=False)


def test_no_proxy_leads_to_this_machine(protocol, ask, no_proxies, monkeypatch):
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    for name in ("http_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://user:secret@{nobody}")
    with ScriptedServer().running(protocol) as address:
        scheme, port = "http://" * (protocol == "rest"), address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost"):
            assert ask(f"{scheme}{host}:{port}", "embed", ["5"]).tolist() == [[5, 1]]
        # A name of this machine that does not say so: through the proxy, unless no_proxy names it.
        other = f"{scheme}{socket.gethostname()}:{port}"
        variable = "http_proxy" if protocol == "rest" else "grpc_proxy"
        with pytest.raises(RequestError, match=rf"the proxy http://{nobody} \({variable}\), which "
                           f"is to lead to {other}, fails: Connection refused") as error:
            ask(other, "embed", ["5"])
        assert "secret" not in str(error.value)
        monkeypatch.setenv("no_proxy", f"elsewhere,{socket.gethostname()}")
        assert ask(other, "embed", ["5"]).tolist() == [[5, 1]]


class _Tunnel(socketserver.StreamRequestHandler):
    """A proxy that lets clients with a password through to one port, whatever they name."""

    def handle(self):
        # Or to the end: gRPC may give up a connection before it has sent anything.
        head = b"".join(itertools.takewhile(b"\r\n".__ne__, self.rfile))
        if b"Basic dXNlcjpzZWNyZXQ=" not in head:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.server.leads_to)) as there:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self._copy, args=(there, self.connection))
            back.start()
            self._copy(self.connection, there)
            back.join()

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def test_through_a_proxy(ask, no_proxies, monkeypatch):
    host = "model.invalid"
    with (ScriptedServer().running("grpc") as address,
          socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Tunnel) as proxy):
        proxy.leads_to = int(address.rpartition(":")[2])
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        named = f"127.0.0.1:{proxy.server_address[1]}"
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{named}")
        assert ask(f"{host}:8500", "embed", ["5"]).tolist() == [[5, 1]]
        with pytest.raises(RequestError, match=rf"https://{host}:8500 speaks gRPC without TLS"):
            ask(f"https://{host}:8500", "embed", ["5"])
        monkeypatch.setenv("https_proxy", named)
        for server in (f"{host}:8500", f"https://{host}:8500"):
            with pytest.raises(RequestError, match=rf"{named} \(https_proxy\).* fails: .*407"):
                ask(server, "embed", ["5"])
        proxy.shutdown()


@pytest.mark.parametrize(("host", "rest", "tls", "environment", "variable"), [
    ("server", False, False, {"http": "p:1", "https": "p:2"}, "https_proxy"),
    ("server", False, True, {"grpc": "p:1", "https": "p:2"}, "grpc_proxy"),
    ("server", False, False, {"https": "socks5://p:1"}, None),
    ("server", True, False, {"https": "p:2", "all": "p:3"}, "all_proxy"),
    ("server", True, True, {"https": "p:2", "all": "p:3"}, "https_proxy"),
    ("a.example", False, False, {"https": "p:1", "no": ".example"}, None),
    ("a.example", False, False, {"https": "p:1", "no": ".example", "no_grpc": "b"}, "https_proxy"),
    ("10.1.2.3", True, False, {"http": "p:1", "no": "10.0.0.0/8"}, None),
    ("11.1.2.3", True, False, {"http": "p:1", "no": "10.0.0.0/8, x"}, "http_proxy"),
    ("127.0.0.2", True, False, {"http": "p:1"}, None),
    ("::1", False, False, {"http": "p:1"}, None)])
def test_which_proxy(host, rest, tls, environment, variable, no_proxies, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(f"{name}_proxy", value)
    proxy = proxy_of(host, rest, tls)
    assert (proxy and proxy.variable) == variable


def test_a_proxy_of_no_kind(no_proxies, monkeypatch):
    monkeypatch.setenv("http_proxy", "gopher://user:secret@proxy:70")
    told = r"the proxy gopher://proxy:70 \(http_proxy\): .*; expected http://host:port"
    with (pytest.raises(UsageError, match=told) as error,
          Client("http://server:8501", "m") as client):
        client.status()
    assert "secret" not in str(error.value)
    for url in ("http://user:secret@proxy:port", "http://user:secret@[::1", "http://user:secret@"):
        monkeypatch.setenv("http_proxy", url)
        for address in ("server:8500", "http://server:8501"):
            with pytest.raises(UsageError, match="http_proxy of the environment is no") as error:
                Client(address, "m")
            assert "secret" not in str(error.value)


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


@pytest.mark.parametrize("tls", [False, True])
def test_ports_that_speak_something_else_are_named_at_once(protocol, tls, ask, certificate):
    """Every address but the right one: the other protocol, with TLS and without."""
    with ScriptedServer().running(protocol, certificate if tls else None) as address:
        target = address.rpartition("/")[2]
        right = (target if protocol == "grpc" else address, tls)
        name = "gRPC" if protocol == "grpc" else "REST"
        said = rf"speaks {name} {'with' if tls else 'without'} TLS \(waited"
        for each, secured in ((target, False), (target, True), (f"http://{target}", False),
                              (f"https://{target}", True)):
            given = {"tls": Tls(ca_file=str(certificate[1]))} if secured else {}
            if (each, secured) == right:
                assert ask(each, "embed", "3", of=given).tolist() == [3, 1]
                continue
            with pytest.raises(RequestError, match=f"{each} {said}") as error:
                ask(each, "embed", "3", of=given | {"retries": 100, "timeout": 60})
            assert f"try {right[0]}" in str(error.value)
