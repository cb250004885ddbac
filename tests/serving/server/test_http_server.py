"""The server of an application: the port that it takes first and listens on later."""

import asyncio
import socket

import pytest
from server_harness import free_ports

from bert_tf.errors import BertTfError
from bert_tf.serving.server.http_server import HttpServer


def test_a_port_on_which_another_process_has_begun_to_listen():
    [port] = free_ports(1)

    async def start_late():
        server = HttpServer(None, "127.0.0.1", port, "rest_api_port", 1, 1)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            with pytest.raises(BertTfError, match=f"cannot listen on 127.0.0.1, port {port}, for "
                               "REST: Address already in use; try another --rest_api_port"):
                await server.start()
            await server.stop()

    asyncio.run(start_late())
