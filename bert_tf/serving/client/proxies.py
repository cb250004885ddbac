"""Which proxy of the environment leads to a server: the same rule for both protocols."""

import base64
import contextlib
import ipaddress
import urllib.parse
import urllib.request
from typing import NamedTuple

from bert_tf.errors import UsageError, explain


class Proxy(NamedTuple):
    """What leads to a server; as text without its password.

    Attributes:
        variable: of the environment, such as `https_proxy`.
        url: what it says, `http://host:3128`, perhaps with a user name and a password.
    """

    variable: str
    url: str

    def __str__(self):
        parts = urllib.parse.urlsplit(self.url)
        return f"the proxy {parts.scheme}://{parts.netloc.rpartition('@')[2]} ({self.variable})"

    @property
    def tunnels(self):
        """Whether it takes CONNECT over an open connection, which is all that gRPC knows of."""
        return self.url.startswith("http://")

    def headers(self):
        """The header that says who asks, if the proxy wants to know."""
        user, at, _ = urllib.parse.urlsplit(self.url).netloc.rpartition("@")
        given = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
        return {"Proxy-Authorization": f"Basic {given}"} if at else {}


def proxy_of(host, rest, tls):
    """The `Proxy` for a host, None where it is asked directly, as this machine always is.

    As is customary, gRPC heeds `grpc_proxy`, `https_proxy` and `http_proxy`, of which the first one
    counts, REST that of its scheme and `all_proxy`; `no_proxy` lists hosts, domains and networks
    without one, for gRPC `no_grpc_proxy` if it is set. Capitals mean the same.

    Args:
        host: name or address.
        rest: REST, else gRPC.
        tls: whether the connection is encrypted.

    Raises:
        UsageError: what counts is no address.
    """
    found = urllib.request.getproxies()
    without = (not rest and found.get("no_grpc")) or found.get("no", "")
    if is_loopback(host) or _listed(host, without):
        return None
    kinds = ("https" if tls else "http", "all") if rest else ("grpc", "https", "http")
    for kind in kinds:
        if url := found.get(kind):
            proxy = Proxy(f"{kind}_proxy", url if "://" in url else f"http://{url}")
            if not _is_address(proxy.url):  # which is not shown: there may be a password in it
                raise UsageError(explain(f"{proxy.variable} of the environment is no address",
                                         "http://host:port", f"naming {host} in no_proxy"))
            return proxy if rest or proxy.tunnels else None
    return None


def is_loopback(host):
    """Whether a host is this machine by its very name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_address(url):
    try:
        parts = urllib.parse.urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _listed(host, without):
    """Whether `no_proxy` names a host, its domain or a network that it is in."""
    if urllib.request.proxy_bypass_environment(host, {"no": without}):
        return True
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        for network in without.split(","):
            with contextlib.suppress(ValueError):
                if address in ipaddress.ip_network(network.strip(), strict=False):
                    return True
    return False
