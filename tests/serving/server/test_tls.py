"""Encrypted connections to a server, of either protocol, and who is let in."""

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import subprocess
import sys

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from server_harness import (
    BINARY,
    PATIENCE,
    Server,
    arrays,
    free_ports,
    launch,
    refused,
    wait_until,
)
from small_model import save_small
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

from bert_tf import query
from bert_tf.errors import BertTfError
from bert_tf.serving.client import Client, Tls

pytestmark = pytest.mark.skipif(BINARY is not None, reason="the binary has no TLS for REST")
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Pki:
    """A folder of PEM files: an authority, another one, and what they signed."""

    def __init__(self, folder):
        self.folder = folder
        self._issuers = {}
        for name in ("authority", "stranger"):
            self._make(name)
        self._make("server", "authority", names=("localhost", "127.0.0.1"))
        self._make("old_server", "authority", names=("localhost",), until=NOW - DAY)
        for name, issuer, until in (("client", "authority", NOW + DAY),
                                    ("old_client", "authority", NOW - DAY),
                                    ("strange_client", "stranger", NOW + DAY)):
            self._make(name, issuer, until=until)

    def __getitem__(self, name):
        """Path of `name.key` or `name.crt`."""
        return str(self.folder / name)

    def text(self, name):
        return (self.folder / name).read_text()

    def _make(self, name, issuer=None, names=(), until=NOW + DAY):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        signer = self._issuers.get(issuer, (subject, key))
        built = x509.CertificateBuilder(
            signer[0], subject, key.public_key(), x509.random_serial_number(), NOW - 10 * DAY,
            until).add_extension(x509.BasicConstraints(issuer is None, None), critical=True)
        if names:
            built = built.add_extension(x509.SubjectAlternativeName([
                x509.IPAddress(ipaddress.ip_address(each)) if each[0].isdigit()
                else x509.DNSName(each) for each in names]), critical=False)
        certificate = built.sign(signer[1], hashes.SHA256())
        self._issuers[name] = subject, key
        pem = serialization.Encoding.PEM
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        (self.folder / f"{name}.crt").write_bytes(certificate.public_bytes(pem))

    def config(self, server="server", verify=False):
        """The flag with a file of an `SSLConfig`."""
        fields = {"server_key": self.text(f"{server}.key"),
                  "server_cert": self.text(f"{server}.crt")}
        if verify:
            fields |= {"custom_ca": self.text("authority.crt"), "client_verify": True}
        path = self.folder / f"{server}-{verify}.config"
        path.write_text("".join(f"{name}: {json.dumps(value)}\n"
                                for name, value in fields.items()))
        return f"--ssl_config_file={path}"

    def tls(self, ca="authority", client=None):
        """A client's `Tls`."""
        own = (self[f"{client}.crt"], self[f"{client}.key"]) if client else (None, None)
        return Tls(self[f"{ca}.crt"], *own)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls") / "small"
    save_small(folder)
    return folder


@contextlib.contextmanager
def serving(pki, model_folder, *flags, **options):
    """`{protocol: address}` of a server with certificates, and the server."""
    def channel(address):
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(
            *(pki.text(name).encode() for name in ("authority.crt", "client.key", "client.crt"))),
            [("grpc.ssl_target_name_override", "localhost")])

    server = Server("--model_name=m", f"--model_base_path={model_folder}",
                    pki.config(**options), *flags, channel=channel)
    try:
        yield {"grpc": server.address, "rest": f"https://localhost:{server.rest_port}"}, server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def unix(pki):
    """Path of the socket of `mutual`."""
    return pki["socket"]


@pytest.fixture(scope="module")
def mutual(pki, model_folder, unix):
    with serving(pki, model_folder, "--host=0.0.0.0", "--allow_reload=cn:client",
                 f"--grpc_socket_path={unix}", verify=True) as found:
        yield found


def length(address, tls):
    with Client(address, "m", tls=tls, retries=0, timeout=PATIENCE) as client:
        return client.predict("serving_default", text=["abc"])[0]["length"]


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
class TestMutual:
    """A server that asks clients who they are."""

    def test_a_known_client_is_served(self, mutual, pki, protocol):
        assert length(mutual[0][protocol], pki.tls(client="client")) == 3

    @pytest.mark.parametrize("client", [None, "strange_client", "old_client"])
    def test_others_are_not(self, mutual, pki, protocol, client):
        with pytest.raises(BertTfError):
            length(mutual[0][protocol], pki.tls(client=client))

    def test_nor_is_who_does_not_trust_the_server(self, mutual, pki, protocol):
        with pytest.raises(BertTfError, match="(?i)certificate verify failed"):
            length(mutual[0][protocol], pki.tls("stranger", "client"))

    def test_nor_is_a_server_of_another_name(self, mutual, pki, protocol):
        address = mutual[0][protocol].replace("localhost", "127.0.0.2")  # this machine too
        with pytest.raises(BertTfError, match="IP address mismatch"):
            length(address, pki.tls(client="client"))

    def test_nor_is_plain_text(self, mutual, pki, protocol):
        with pytest.raises(BertTfError):
            length(mutual[0][protocol].replace("https", "http"), None)

    def test_query(self, mutual, pki, protocol, capsys):
        files = ["--ca_file", pki["authority.crt"], "--cert_file", pki["client.crt"], "--key_file",
                 pki["client.key"]]
        query.main(["m", "abc", "--signature", "serving_default", "--address",
                    mutual[0][protocol], *files])
        assert "length: 3" in capsys.readouterr().out


@pytest.mark.parametrize(("client", "status"), [("client", 200), (None, 503)])
def test_a_gateway_with_certificates_on_both_sides(mutual, pki, client, status):
    own = [f"--cert_file={pki[f'{client}.crt']}", f"--key_file={pki[f'{client}.key']}"]
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "bert_tf.gateway", f"--address={mutual[0]['grpc']}", "--models=m",
         f"--port={port}", f"--ca_file={pki['authority.crt']}", *(own if client else ()),
         pki.config()], stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()  # which tells that it listens
        address = f"https://localhost:{port}/health"
        context = ssl.create_default_context(cafile=pki["authority.crt"])
        # A slow machine may have no answer to it in the time that it has, which is a 503, too.
        wait_until(lambda: httpx.get(address, verify=context, timeout=PATIENCE
                                     ).status_code == status, f"health {status}")
        with pytest.raises(httpx.ConnectError, match="(?i)certificate verify failed"):
            httpx.get(address, timeout=PATIENCE)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_a_named_client_may_change_the_models(mutual, model_folder):
    server = mutual[1]
    assert server.status("m")[1][0] == "AVAILABLE"
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name="m", base_path=str(model_folder),
                                        model_platform="tensorflow")
    server.reload(config)


@pytest.mark.parametrize("client", [None, "strange_client", "client"])
def test_the_unix_socket_asks_who_a_client_is_too(mutual, pki, unix, client):
    own = [pki.text(f"{client}.{end}").encode() for end in ("key", "crt")] if client else []
    credentials = grpc.ssl_channel_credentials(pki.text("authority.crt").encode(), *own)
    request = mutual[1].request("m", text=["abc"])
    with grpc.secure_channel(f"unix:{unix}", credentials, [
            ("grpc.ssl_target_name_override", "localhost")]) as channel, (
            contextlib.nullcontext() if client == "client" else refused("UNAVAILABLE")):
        answer = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(
            request, timeout=PATIENCE)
        assert arrays(answer)["length"] == [3]
    with grpc.insecure_channel(f"unix:{unix}") as channel, refused("UNAVAILABLE"):
        prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(
            request, timeout=PATIENCE)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_nothing_older_than_tls_1_2(mutual, protocol, pki):
    port = int(mutual[0][protocol].rpartition(":")[2])
    for version, taken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = pki.tls(client="client").context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.set_ciphers("ALL:@SECLEVEL=0")  # or OpenSSL would not even try
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(("localhost", port), PATIENCE) as plain, (
                contextlib.nullcontext() if taken else pytest.raises(OSError)), \
                context.wrap_socket(plain, server_hostname="localhost") as connection:
            assert connection.version() == "TLSv1.2"


@pytest.mark.long  # in make test: with client certificates
def test_without_client_certificates(pki, model_folder):
    with serving(pki, model_folder) as (addresses, server):
        for address in addresses.values():
            assert length(address, pki.tls()) == 3
            assert length(address, pki.tls(client="strange_client")) == 3  # nobody looks
        page = httpx.get(addresses["rest"], verify=pki.tls().context(), timeout=PATIENCE)
        assert page.status_code == 200 and page.http_version == "HTTP/1.1"
        assert pki.text("server.key").split("\n")[1] not in server.output


@pytest.mark.long  # in make test: a certificate that is not trusted, of another name
def test_a_certificate_that_has_expired(pki, model_folder):
    ports = free_ports(2)
    process = launch(f"--port={ports[0]}", f"--rest_api_port={ports[1]}", "--model_name=m",
                     f"--model_base_path={model_folder}", pki.config("old_server"))
    try:
        assert any(line.startswith("serving m on 127.0.0.1") for line in process.stdout)
        for address in (f"localhost:{ports[0]}", f"https://localhost:{ports[1]}"):
            with pytest.raises(BertTfError, match="expired"):
                length(address, pki.tls())
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_a_damaged_file_tells_nothing_of_the_key(pki, model_folder, tmp_path):
    secret = pki.text("server.key").split("\n")[1]
    damaged = tmp_path / "ssl.config"
    damaged.write_text(f"server_key: {secret}\n")
    said, _ = launch(f"--model_base_path={model_folder}", f"--ssl_config_file={damaged}"
                     ).communicate(timeout=PATIENCE)
    assert f"{damaged} line 1" in said and secret[:8] not in said
