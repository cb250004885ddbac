"""Why a server does not answer, found out by connecting once more: what stands in the error."""

import http.client
import socket
import ssl
import time
import urllib.parse

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # with empty SETTINGS
_SETTINGS = b"\4"  # the type of the frame that a server of HTTP/2 begins with
_GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_PORTS = {True: 8501, False: 8500}  # by whether it is REST


def diagnose(address, seconds):
    """Find out what is wrong on the way to a server.

    It is asked in the protocol that it was taken to speak, then in the others.

    Args:
        address: an `Address`.
        seconds: that this may take.

    Returns: the arguments of `errors.explain`; None where it is there and speaks as expected, or
        says nothing.
    """
    end = time.monotonic() + seconds
    expected = address.rest, address.tls is not None
    failed = None  # why it could not be asked as expected
    for rest, tls in (expected, (not expected[0], expected[1]), (expected[0], not expected[1]),
                      (not expected[0], not expected[1])):
        connection = None
        try:
            connection = _connected(address, end)
            if connection is None:
                return None
            if _speaks(connection, address, rest, tls):
                return None if (rest, tls) == expected else _other(address, rest, tls)
        except OSError as error:
            if (rest, tls) == expected and (connection is None or isinstance(error, ssl.SSLError)):
                failed = error
            if connection is None or isinstance(error, ssl.SSLCertVerificationError):
                break
        finally:
            if connection is not None:
                connection.close()
    return failed and _no_way(address, failed)


def _connected(address, end):
    """A socket that leads to the server; None where a proxy leads there that opens no tunnel."""
    left = max(end - time.monotonic(), 0.01)
    proxy = address.proxy
    if proxy is None:
        return socket.create_connection((address.host, address.port), left)
    parts = urllib.parse.urlsplit(proxy.url)
    if not proxy.tunnels or address.rest and not address.tls:
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 1080)
        socket.create_connection((parts.hostname, port), left).close()
        return None
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=left)
    connection.set_tunnel(address.host, address.port, proxy.headers())
    try:
        connection.connect()
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return connection.sock


def _speaks(connection, address, rest, tls):
    """Whether the server answers in a protocol."""
    if tls:
        if address.tls:
            context = address.tls.context()
        else:  # to know what it is, whose it is does not matter
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1" if rest else "h2"])
        connection = context.wrap_socket(connection, server_hostname=address.host)
        if connection.selected_alpn_protocol():
            return True
    with connection:
        connection.sendall(_GET if rest else _PREFACE)
        said = connection.recv(9)
    return said.startswith(b"HTTP/1") if rest else said[3:4] == _SETTINGS


def _no_way(address, error):
    reason = error.strerror or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return (f"the certificate of {address.text}: {reason}",
                f"one that vouches for {address.host}, signed by those of ca_file "
                "or those that the machine trusts", "Tls(ca_file=…) (--ca_file)")
    if address.proxy:
        return (f"{address.proxy}, which is to lead to {address.text}, fails: {reason}",
                "a proxy that does", "another one, or naming the host in no_proxy")
    return (f"no server answers at {address.text}: {reason}",
            "a server that has loaded its models: before that it may have no open port",
            "again soon, another address, or starting one: python -m bert_tf.serve --help")


def _other(address, rest, tls):
    """What is said of a port that speaks something else."""
    scheme = ("https://" if tls else "http://") if rest else ""
    attempt = f"{scheme}{address.target}"
    if tls and not rest:
        attempt += " with tls=Tls() (--tls)"
    if rest != address.rest:
        attempt += f", or the port of {_name(address.rest)}, often {_PORTS[address.rest]}"
    return (f"{address.text} speaks {_name(rest, tls)}",
            _name(address.rest, address.tls is not None), attempt)


def _name(rest, tls=None):
    name = "REST" if rest else "gRPC"
    return name if tls is None else f"{name} {'with' if tls else 'without'} TLS"
