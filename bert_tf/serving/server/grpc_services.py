"""TensorFlow Serving's gRPC services over a `Core`.

`PredictionService` and `ModelService` of `tensorflow-serving-api`.
"""

import asyncio
import contextlib
import logging
import time
import traceback
import urllib.parse

import grpc
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

from bert_tf.serving.server.codec import AT_ONCE, encoded
from bert_tf.serving.server.flag_types import is_loopback
from bert_tf.serving.server.wanted_versions import check_roots
from bert_tf.serving.wire import grpc_messages, tensor_proto
from bert_tf.serving.wire.grpc_messages import read_spec
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError

_SIGNATURE_DEF = "signature_def"
_MESSAGE_SECONDS = 120  # from a call to the end of its message, as of a body over REST
_log = logging.getLogger(__name__)


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


class PredictionService:
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
        """Await `answer(…)` to what the call's message says, and count it if a model computes."""
        started, name = time.monotonic(), ""
        remaining = context.time_remaining()
        deadline = None if remaining is None else started + remaining

        def count(status):
            if api != "GetModelMetadata":  # which clients ask for when they begin
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
        _write_spec(spec, response.model_spec)
        _write_classifications(answer, response.result)
        return response.SerializeToString()

    async def _regress(self, spec, examples, deadline):
        spec, answer = await self._core.regress(spec, examples, deadline)
        response = regression_pb2.RegressionResponse()
        _write_spec(spec, response.model_spec)
        _write_regressions(answer, response.result)
        return response.SerializeToString()

    async def _multi_inference(self, spec, tasks, examples, deadline):
        results = await self._core.multi_inference(tasks, examples, deadline)
        response = inference_pb2.MultiInferenceResponse()
        for kind, spec, answer in results:
            result = response.results.add()
            _write_spec(spec, result.model_spec)
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


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """States of models, and reloads by those who may."""

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
                    version=version.number, state=version.state, status=version.status())
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


def _write_spec(spec, model_spec):
    """Fill an empty `ModelSpec`."""
    model_spec.name = spec.name
    model_spec.signature_name = spec.signature
    model_spec.version.value = spec.version


def _predict_response(outputs, spec, as_content):
    response = predict_pb2.PredictResponse()
    _write_spec(spec, response.model_spec)
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
