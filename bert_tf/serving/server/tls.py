"""Who the server is, and whom it lets in: TLS of its gRPC and REST ports."""

import dataclasses
import ssl
import tempfile

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.serving.server import text_protos


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """An `SSLConfig`; PEM texts, of which only the certificate is shown.

    Attributes:
        key, certificate: of the server, the certificate followed by its chain.
        ca: certificates that sign those of clients; "" for none.
        verify: whether a client must show a certificate.
    """

    key: str = dataclasses.field(repr=False)
    certificate: str
    ca: str = ""
    verify: bool = False

    @classmethod
    def read(cls, path):
        """Read `--ssl_config_file`.

        Raises:
            UsageError: something is missing, or key and certificate do not belong together.
            BertTfError: the file cannot be read.
        """
        config = text_protos.read(path, "SSLConfig")
        for name in ("server_key", "server_cert"):
            if not getattr(config, name):
                raise UsageError(explain(f"{path}: no {name}", "the text of a PEM file"))
        if config.client_verify and not config.custom_ca:
            raise UsageError(explain(f"{path}: client_verify without custom_ca",
                                     "the certificate that signs those of clients"))
        read = cls(config.server_key, config.server_cert, config.custom_ca, config.client_verify)
        try:
            read.context()
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            mismatch = "KEY_VALUES_MISMATCH" in reason
            raise UsageError(explain(
                f"{path}: " + ("server_key is not the key of server_cert" if mismatch else
                               f"key or certificate cannot be read: {reason}"),
                "a PEM key, its certificate, and the custom_ca of clients if any")) from error
        except OSError as error:
            raise BertTfError(f"{path}: cannot check the certificate: {error}") from error
        return read

    def context(self):
        """An `ssl.SSLContext` for REST, of TLS 1.2 at least."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The module reads key and certificate from files only; this one is its owner's alone.
        with tempfile.NamedTemporaryFile("w") as pem:
            pem.write(f"{self.key}\n{self.certificate}\n")
            pem.flush()
            context.load_cert_chain(pem.name, password="")
        if self.ca:
            context.load_verify_locations(cadata=self.ca)
        if self.verify:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def credentials(self):
        """gRPC's `ServerCredentials`, which take TLS 1.2 and 1.3."""
        import grpc

        return grpc.ssl_server_credentials([(self.key.encode(), self.certificate.encode())],
                                           self.ca.encode() or None, self.verify)
