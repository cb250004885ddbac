"""The gRPC server: its port, what clients may cost, who may call; `grpc_services` answer."""

import os
import socket

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc

from bert_tf.errors import BertTfError, explain
from bert_tf.serving.server import config
from bert_tf.serving.server.grpc_services import ModelService, PredictionService
from bert_tf.serving.wire.request import ServingError

# What a client may cost; gRPC's own bounds of time are minutes or none.
_LIMITS = {"grpc.max_concurrent_streams": 1024, "grpc.max_metadata_size": 8 << 10,
           "grpc.absolute_max_metadata_size": 16 << 10, "grpc.server_handshake_timeout_ms": 20_000,
           "grpc.keepalive_time_ms": 60_000, "grpc.keepalive_timeout_ms": 20_000,
           "grpc.max_connection_idle_ms": 600_000}


class GrpcServer:
    """The gRPC side of a server: its port is reserved when it is made, and open from `start` on.

    Args:
        core: `Core`.
        settings: `Settings`.

    Attributes:
        port: on which it listens.

    Raises:
        BertTfError: the port is in use.
    """

    def __init__(self, core, settings):
        flags = settings.flags
        options = {"grpc.so_reuseport": 0,  # two servers on one port would share its clients
                   "grpc.max_receive_message_length": settings.max_message_bytes,
                   "grpc.max_send_message_length": -1, **_LIMITS,
                   "grpc.max_allowed_incoming_connections": flags.max_connections,
                   **dict(config.channel_arguments(flags))}
        self._server = grpc.aio.server(
            interceptors=[_KeyInterceptor(settings.keys)] if settings.keys else None,
            options=list(options.items()))
        self._server.add_generic_rpc_handlers([PredictionService(
            core, flags.enable_serialization_as_tensor_content).handler()])
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(core, settings), self._server)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._reserved = flags.port and _reserve(flags.host, flags.port)
        self.port = flags.port
        self._settings = settings

    def _listen(self):
        flags, tls = self._settings.flags, self._settings.ssl
        if flags.port:
            host = f"[{flags.host}]" if ":" in flags.host else flags.host
            self.port = self._add(f"{host}:{flags.port}", tls)
            self._reserved.close()
        if flags.grpc_socket_path:
            _refuse_live(flags.grpc_socket_path)  # gRPC would take it over
            before = os.umask(0o177)  # for its owner alone
            try:
                self._add(f"unix:{flags.grpc_socket_path}", tls if tls and tls.verify else None)
            finally:
                os.umask(before)

    def _add(self, address, tls):
        try:
            if tls is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, tls.credentials())
        except RuntimeError as problem:
            if address.startswith("unix:"):
                raise _refused(address, "is its folder there, and may files be made in it?",
                               "--grpc_socket_path") from problem
            raise _refused(address, "is it in use?") from problem

    async def start(self):
        """Listen and answer calls; the health service says SERVING from now on, of all services.

        Raises:
            BertTfError: the port is in use, or the certificate cannot be used.
        """
        self._listen()
        for service in ("", "PredictionService", "ModelService",
                        "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()

    async def stop(self, grace):
        """Take no more calls, and wait up to `grace` seconds for those that are under way."""
        if self._reserved:
            self._reserved.close()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


def _reserve(host, port):
    """A socket that holds a port without listening; whoever listens on it is found out."""
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # As gRPC does: so that both may have the port until one of them listens.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((host, port))
    except OSError as problem:
        reserved.close()
        raise _refused(f"{host}, port {port},", problem.strerror, "--port or --host") from problem
    return reserved


def _refuse_live(path):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return  # nothing is there, or what a server that was killed left
    raise _refused(f"unix:{path}", "another server listens there", "--grpc_socket_path")


def _refused(address, why, flags="--port"):
    return BertTfError(explain(f"cannot listen on {address} for gRPC: {why}",
                               attempt=f"another {flags}"))


class _KeyInterceptor(grpc.aio.ServerInterceptor):
    """Lets nobody without a key in, but to the health service."""

    def __init__(self, keys):
        self._keys = keys

    async def intercept_service(self, continuation, handler_call_details):
        """See gRPC; what is refused is refused before its message is received."""
        if not handler_call_details.method.startswith("/grpc.health.v1.Health/"):
            given = dict(handler_call_details.invocation_metadata).get("authorization", "")
            try:
                self._keys.check(given.encode() if isinstance(given, str) else given)
            except ServingError as problem:
                code, message = grpc.StatusCode[problem.code], problem.message

                async def refuse(_, context):
                    await context.abort(code, message)

                return grpc.stream_unary_rpc_method_handler(refuse)
        return await continuation(handler_call_details)
