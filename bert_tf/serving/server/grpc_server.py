"""TensorFlow Serving's gRPC services over a `Core`.

`PredictionService` and `ModelService` of `tensorflow-serving-api`, and `grpc.health.v1`.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
import traceback
import urllib.parse

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    regression_pb2,
)

from bert_tf.errors import BertTfError, explain
from bert_tf.serving.server import config
from bert_tf.serving.server.codec import AT_ONCE, encoded
from bert_tf.serving.server.flag_types import is_loopback
from bert_tf.serving.server.wanted_versions import check_roots
from bert_tf.serving.wire import grpc_messages, tensor_proto
from bert_tf.serving.wire.grpc_messages import read_spec
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError

_SIGNATURE_DEF = "signature_def"
# What a client may cost; gRPC's own bounds of time are minutes or none.
_LIMITS = {"grpc.max_concurrent_streams": 1024, "grpc.max_metadata_size": 8 << 10,
           "grpc.absolute_max_metadata_size": 16 << 10, "grpc.server_handshake_timeout_ms": 20_000,
           "grpc.keepalive_time_ms": 60_000, "grpc.keepalive_timeout_ms": 20_000,
           "grpc.max_connection_idle_ms": 600_000}
_MESSAGE_SECONDS = 120  # from a call to the end of its message, as of a body over REST
_log = logging.getLogger(__name__)


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
        self._server.add_generic_rpc_handlers([_PredictionService(
            core, flags.enable_serialization_as_tensor_content).handler()])
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            _ModelService(core, settings), self._server)
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
            raise _in_use(address) from problem

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
        raise _in_use(f"{host}, port {port},") from problem
    return reserved


def _in_use(address):
    return BertTfError(explain(f"cannot listen on {address} for gRPC: is it in use?",
                               attempt="another --port"))


@contextlib.asynccontextmanager
async def _answering(context, ended=lambda status: None):
    """Turn a `ServingError` into the call's status; what nobody foresaw is INTERNAL.

    Args:
        context: of the call.
        ended: told the name of the status.
    """
    status = "CANCELLED"
    try:
        yield
        status = "OK"
    except Exception as problem:
        told = problem
        if not isinstance(problem, ServingError):
            _log.exception("a request failed")
            told = error("rest_internal")
        status = told.code
        # gRPC keeps what `abort` raises, and with it this error and the frames that it went
        # through: a message there would stay until the garbage collector comes by.
        traceback.clear_frames(problem.__traceback__)
        await context.abort(grpc.StatusCode[status], told.message)
    finally:
        ended(status)


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


class _PredictionService:
    """Its methods are given and give bytes: what is large is decoded in another process."""

    def __init__(self, core, as_content):
        self._core = core
        self._as_content = as_content

    def handler(self):
        """The service as gRPC takes it."""
        answers = {
            "Predict": (grpc_messages.read_predict, self._predict),
            "Classify": (grpc_messages.read_examples, self._classify),
            "Regress": (grpc_messages.read_examples, self._regress),
            "MultiInference": (grpc_messages.read_tasks, self._multi_inference),
            "GetModelMetadata": (grpc_messages.read_metadata, self._metadata)}

        def method(api, decode, answer):
            async def called(_, context):
                return await self._call(api, decode, answer, context)
            # One message each; taken as a stream it is in nobody's hands but ours.
            return grpc.stream_unary_rpc_method_handler(called)

        return grpc.method_handlers_generic_handler(
            "tensorflow.serving.PredictionService",
            {api: method(api, *both) for api, both in answers.items()})

    async def _call(self, api, decode, answer, context):
        """Await `answer(…)` to what the call's message says, and count it."""
        started, name = time.monotonic(), ""
        remaining = context.time_remaining()
        deadline = None if remaining is None else started + remaining

        def count(status):
            self._core.count(name, api, "GRPC", status, time.monotonic() - started)

        async def decoded():
            nonlocal name
            try:
                async with asyncio.timeout(_MESSAGE_SECONDS):
                    message = await context.read()
            except TimeoutError as problem:
                raise error("deadline") from problem
            if message is grpc.aio.EOF:
                raise error("no_message")
            spec = None if api == "MultiInference" else grpc_messages.first_spec(message)
            if spec is not None:
                name = spec.name
                if len(message) > AT_ONCE:
                    self._core.check(spec)
            return await self._core.decode(decode, message, deadline=deadline)

        async def answered():
            nonlocal name
            asked = await decoded()
            name = asked[0].name
            return await answer(*asked, deadline)

        async with _answering(context, count):
            return await answered()

    async def _predict(self, spec, inputs, outputs, deadline):
        spec, outputs = await self._core.predict(spec, inputs, outputs, deadline)
        return await encoded(outputs, _predict_response, spec, self._as_content)

    async def _classify(self, spec, examples, deadline):
        spec, answer = await self._core.classify(spec, examples, deadline)
        response = classification_pb2.ClassificationResponse()
        write_spec(spec, response.model_spec)
        _write_classifications(answer, response.result)
        return response.SerializeToString()

    async def _regress(self, spec, examples, deadline):
        spec, answer = await self._core.regress(spec, examples, deadline)
        response = regression_pb2.RegressionResponse()
        write_spec(spec, response.model_spec)
        _write_regressions(answer, response.result)
        return response.SerializeToString()

    async def _multi_inference(self, spec, tasks, examples, deadline):
        results = await self._core.multi_inference(tasks, examples, deadline)
        response = inference_pb2.MultiInferenceResponse()
        for kind, spec, answer in results:
            result = response.results.add()
            write_spec(spec, result.model_spec)
            if kind == "classify":
                _write_classifications(answer, result.classification_result)
            else:
                _write_regressions(answer, result.regression_result)
        return response.SerializeToString()

    async def _metadata(self, spec, fields, deadline):
        if not fields:
            raise error("no_metadata_field")
        for field in fields:
            if field != _SIGNATURE_DEF:
                raise error("metadata_field", field=field)
        spec, definitions = self._core.metadata(spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = spec.name
        response.model_spec.version.value = spec.version
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, definition in definitions.items():
            signatures.signature_def[name].CopyFrom(definition)
        response.metadata[_SIGNATURE_DEF].Pack(signatures)
        return response.SerializeToString()


class _ModelService(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, core, settings):
        self._core = core
        self._allowed = settings.flags.allow_reload
        self._roots = settings.reload_roots

    async def GetModelStatus(self, request, context):  # noqa: N802
        async with _answering(context):
            if not request.HasField("model_spec"):
                raise error("no_spec")
            spec = read_spec(request.model_spec)
            response = get_model_status_pb2.GetModelStatusResponse()
            for version in self._core.status(spec.name, spec.version):
                response.model_version_status.add(
                    version=version.version, state=version.state,
                    status={"error_code": version.error_code,
                            "error_message": version.error_message})
            return response

    async def HandleReloadConfigRequest(self, request, context):  # noqa: N802
        async with _answering(context):
            if not _names_of(context).intersection(self._allowed):  # a SavedModel is a program
                raise error("no_reload")
            if request.config.WhichOneof("config") != "model_config_list":
                raise error("not_a_list")
            if not request.config.model_config_list.config:
                raise error("empty_list")
            check_roots(request.config, self._roots)
            await self._core.reload(request.config)
            return model_management_pb2.ReloadConfigResponse(status={"error_code": "OK"})


def _names_of(context):
    """What `--allow_reload` may call the client of a call."""
    kind, _, address = context.peer().partition(":")
    names = {f"cn:{name.decode()}"
             for name in context.auth_context().get("x509_common_name", ())}
    if kind == "unix":
        return {"unix", *names}
    host = urllib.parse.unquote(address).rpartition(":")[0].strip("[]")
    return {"loopback", *names} if is_loopback(host) else names


def write_spec(spec, model_spec):
    """Fill an empty `ModelSpec`."""
    model_spec.name = spec.name
    model_spec.signature_name = spec.signature
    model_spec.version.value = spec.version


def _predict_response(outputs, spec, as_content):
    response = predict_pb2.PredictResponse()
    write_spec(spec, response.model_spec)
    for name, array in outputs.items():
        tensor_proto.write(array, response.outputs[name], as_content)
    return response.SerializeToString()


def _write_classifications(answer, result):
    for row in answer:
        classes = result.classifications.add().classes
        for label, score in row:
            classes.add(label=label, score=score)


def _write_regressions(answer, result):
    for value in answer:
        result.regressions.add(value=value)
