"""A server on loopback that is sent any bytes, and must go on answering."""

import asyncio
import contextlib
import logging
import socket
import struct
import threading

from fuzzing.target import Target
from fuzzing.wire import Core, request_seeds

_SECONDS = 120  # until a server is taken to hang
_HEAD = b"POST /v1/models/m:predict HTTP/1.1\r\nhost: a\r\ncontent-length: 21\r\n\r\n"
_CHUNKED = (b"POST /v1/models/m:predict HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
            b"15\r\n{\"instances\": [\"ab\"]}\r\n0\r\n\r\n")
_REQUESTS = (_HEAD + b'{"instances": ["ab"]}', _CHUNKED, b"GET /v1/models/m HTTP/1.1\r\n\r\n",
             b"GET /page/models HTTP/1.0\r\n\r\n", b"GET /page/../x?\xff HTTP/1.1\r\n\r\n",
             b"OPTIONS * HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
             b"\r\nGET / HTTP/1.1\r\nexpect: 100-continue\r\n\r\n" * 3)


def _told(port, data):
    """What a server says to bytes."""
    with socket.create_connection(("127.0.0.1", port), _SECONDS) as connection:
        said = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                said += part
        return said


class _Errors(logging.Handler):
    """Keeps what is logged as an error: a request that nobody foresaw."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []

    def emit(self, record):
        self.found.append(record.getMessage())


def _in_thread(start):
    """The port that the coroutine function `start` returns, whose event loop goes on."""
    loop, made = asyncio.new_event_loop(), threading.Event()
    ports = []

    async def run():
        ports.append(await start())
        made.set()

    def forever():
        asyncio.set_event_loop(loop)
        loop.create_task(run())
        loop.run_forever()

    threading.Thread(target=forever, daemon=True).start()
    assert made.wait(_SECONDS)
    return ports[0]


def _http():
    """Any bytes to the HTTP port."""
    import uvicorn

    from bert_tf.serving.server.http_limits import bounded
    from bert_tf.serving.server.rest_server import make_app

    async def start():
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        server = uvicorn.Server(uvicorn.Config(
            make_app(Core()), http=bounded(64, 1 << 16), lifespan="off", log_level="error",
            ws="none"))
        server.capture_signals = contextlib.nullcontext
        asyncio.get_running_loop().create_task(server.serve([listening]))
        return listening.getsockname()[1]

    port, errors = _in_thread(start), _Errors()
    logging.getLogger().addHandler(errors)
    logging.getLogger("uvicorn.error").addHandler(errors)

    def check(data):
        said = _told(port, data)
        assert not said or said.startswith(b"HTTP/1."), said
        assert not said.startswith(b"HTTP/1.1 5"), said
        assert not errors.found, errors.found.pop()
        assert b"ab" in _told(port, _REQUESTS[0])

    return check


def _grpc():
    """Any bytes as the messages of calls, and to the port itself."""
    import grpc

    from bert_tf.serving.server import config, grpc_server

    flags = config.parser("").parse_args(["--model_base_path=/m", "--allow_reload=loopback"])
    settings = config.Settings(flags, config.read_models(flags))
    servers = []

    class OnAnyPort(grpc_server.GrpcServer):
        def _add(self, address, tls):
            return super()._add("127.0.0.1:0", tls)

    async def start():
        servers.append(OnAnyPort(Core(), settings))
        await servers[0].start()
        return servers[0].port

    port, errors = _in_thread(start), _Errors()
    logging.getLogger().addHandler(errors)
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    methods = [channel.unary_unary(f"/tensorflow.serving.{name}") for name in (
        "PredictionService/Predict", "PredictionService/Classify", "PredictionService/Regress",
        "PredictionService/MultiInference", "PredictionService/GetModelMetadata",
        "ModelService/GetModelStatus", "ModelService/HandleReloadConfigRequest")]
    refusals = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
                grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED,
                grpc.StatusCode.PERMISSION_DENIED)  # of models that are not below /

    def check(data):
        if data[:1] >= b"\xf0":  # after the preface that every HTTP/2 connection begins with
            _told(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:]
                  + b"\4\0\0\0\0\0" + data[1:])
            data = b"\0"
        try:
            methods[(data[0] if data else 0) % len(methods)](data[1:], timeout=_SECONDS)
        except grpc.RpcError as error:
            # What is no message of its type, gRPC itself answers with UNKNOWN, and logs.
            unread = [said for said in errors.found if "[DecodeError]" in said]
            assert error.code() in refusals or unread, error
            for said in unread:
                errors.found.remove(said)
        assert not errors.found, errors.found.pop()

    return check


TARGETS = (
    Target("http", _http, _REQUESTS, 30_000),
    Target("grpc", _grpc, lambda: tuple(bytes([method]) + seed for method in range(7)
                                        for seed in request_seeds()), 30_000),
)
