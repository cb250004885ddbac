"""An ASGI application on a port, within the bounds of `http_limits`, in the running event loop."""

import asyncio
import contextlib
import socket

import uvicorn

from bert_tf.errors import BertTfError, explain
from bert_tf.serving.server import DRAIN_SECONDS
from bert_tf.serving.server.http_limits import bounded

# Longer than clients and proxies keep an idle connection, so that it is they who close it: what is
# sent while the server closes is lost.
KEEP_ALIVE_SECONDS = 75


class HttpServer:
    """The application's server; its port is taken when it is made.

    Args:
        app: the ASGI application.
        host, port: to listen on; port 0 for any.
        flag: of the port, which an error names.
        max_connections, max_body_bytes: as of `http_limits.bounded`.
        ssl: an `ssl.SSLContext`, or None.

    Attributes:
        port: on which it listens.

    Raises:
        BertTfError: the port is in use.
    """

    def __init__(self, app, host, port, flag, max_connections, max_body_bytes, ssl=None):
        self._where = host, port, flag
        self._socket = _bound(*self._where)
        self.port = self._socket.getsockname()[1]
        server = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", ws="none",
            http=bounded(max_connections, max_body_bytes),
            proxy_headers=False, server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=DRAIN_SECONDS)
        server.load()
        server.ssl = ssl  # it would read files by itself
        self._server = uvicorn.Server(server)
        self._server.capture_signals = contextlib.nullcontext  # the caller's own handlers stay
        self._running = None

    async def start(self):
        """Answer requests from now on.

        Raises:
            BertTfError: another process has begun to listen on the port since it was taken.
        """
        try:
            self._socket.listen(self._server.config.backlog)
        except OSError as problem:
            raise _in_use(*self._where, problem) from problem
        self._running = asyncio.ensure_future(self._server.serve([self._socket]))
        while not self._server.started and not self._running.done():
            await asyncio.sleep(0.01)

    async def stop(self):
        """Take no more requests, and wait for those that are under way."""
        if self._running is None:
            self._socket.close()
            return
        self._server.should_exit = True
        await self._running


def _bound(host, port, flag):
    # The protocol is named, or the event loop would leave small answers waiting (TCP_NODELAY).
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as problem:
        listening.close()
        raise _in_use(host, port, flag, problem) from problem
    return listening


def _in_use(host, port, flag, problem):
    return BertTfError(explain(
        f"cannot listen on {host}, port {port}, for REST: {problem.strerror}",
        attempt=f"another --{flag} or --host"))
