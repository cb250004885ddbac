"""What the client's protocols share: where a server is, and what a request consists of."""

import dataclasses
import ssl
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.serving.client.proxies import Proxy, proxy_of

_HTTP = ("http", "https")


class Request(NamedTuple):
    """One request, told apart from how it is waited for.

    Attributes:
        send: called with a number of seconds, sends it: the answer, of an asynchronous wire an
            awaitable of it. Raises one of the wire's `errors`.
        read: of the answer what the caller wants; raises `ServingError`.
    """

    send: Callable
    read: Callable


@dataclasses.dataclass(frozen=True)
class Tls:
    """An encrypted connection.

    Attributes:
        ca_file: PEM certificates that the server's is checked with; None for the machine's own.
        cert_file, key_file: PEM certificate and key of the client, where the server asks for them.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __post_init__(self):
        if (self.cert_file is None) != (self.key_file is None):
            raise UsageError(explain("one of cert_file and key_file", "both of them"))

    def contents(self):
        """The three files' bytes, None of what is not given."""
        return tuple(path and _read(path) for path in (
            self.ca_file, self.cert_file, self.key_file))

    def context(self):
        """An `ssl.SSLContext`."""
        self.contents()  # its errors name the file
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except ssl.SSLError as error:
            given = " ".join(map(str, filter(None, (
                self.ca_file, self.cert_file, self.key_file))))
            raise BertTfError(explain(f"{given}: {error}", "PEM files, the key being the "
                                      "certificate's")) from error
        return context


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a server listens, and in which protocol.

    Attributes:
        text: as the user wrote it.
        rest: REST, else gRPC.
        host, port: of the socket.
        tls: a `Tls`, or None for an open connection.
        proxy: the `Proxy` that leads there, or None.
    """

    text: str
    rest: bool
    host: str
    port: int
    tls: Tls | None
    proxy: Proxy | None = None

    @classmethod
    def parse(cls, text, tls=None):
        """Read `host:8500` (gRPC), `http://host:8501` or `https://host:8501` (REST).

        Raises:
            UsageError: it is none of them, or `tls` is given for `http://`.
        """
        scheme, separator, rest = text.rpartition("://")
        try:
            parts = urllib.parse.urlsplit(f"//{rest}")
            host, port = parts.hostname, parts.port
            (host or "").encode("idna")  # as connecting does: refuses labels empty or too long
        except ValueError:  # also a UnicodeError
            host = port = None
        if "@" in rest:  # `text` stands in errors, a password must not
            raise UsageError(explain("an address with a user name", "host:port alone",
                                     "--cert_file, if the server asks who you are"))
        if not host or port is None or parts.path or separator and scheme not in _HTTP:
            raise UsageError(explain(f"the address {text!r}", "host:port for gRPC or "
                                     "http://host:port for REST",
                                     "localhost:8500 or http://localhost:8501"))
        if scheme == "http" and tls:
            raise UsageError(explain(f"TLS with the address {text}", "https://"))
        rest, tls = scheme in _HTTP, tls or (Tls() if scheme == "https" else None)
        return cls(text, rest, host, port, tls, proxy_of(host, rest, tls is not None))

    @property
    def target(self):
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _read(path):
    from bert_tf.storage import files  # needed here alone: clients without certificates are small

    with files.open_binary(path) as stream:
        return stream.read()
