"""TensorFlow Serving's REST API over a `Core`, and the page at `/`, as an ASGI application.

    GET  /v1/models/NAME[/versions/N|/labels/L]            states of the versions
    GET  /v1/models/NAME[/versions/N|/labels/L]/metadata   signatures
    POST /v1/models/NAME[/versions/N|/labels/L]:predict    also :classify and :regress

Paths and codes are those of `tensorflow_serving/model_servers/http_rest_api_handler.cc`,
`http_rest_api_util.cc` and `http_server.cc`.
"""

import dataclasses
import json
import logging
import re
import time
import urllib.parse

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from tensorflow_serving.apis import get_model_metadata_pb2

from bert_tf.serving.apis.app import CORS, Apis
from bert_tf.serving.apis.body import Bodies
from bert_tf.serving.apis.keys import KeyGuard
from bert_tf.serving.apis.settings import HEALTH, ApiSettings
from bert_tf.serving.server import page
from bert_tf.serving.server.codec import encoded
from bert_tf.serving.server.core_backend import CoreBackend
from bert_tf.serving.server.metrics import CONTENT_TYPE
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError, Spec
from bert_tf.serving.wire.rest_examples import (
    read_examples,
    write_classifications,
    write_regressions,
)
from bert_tf.serving.wire.rest_json import read_predict, write_predict
from bert_tf.serving.wire.rest_text import dump

_WHICH = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"(?i:/v1/models/(?P<name>[^/:]+){_WHICH}):"
                   r"(?P<method>classify|regress|predict)")
_GET = re.compile(rf"(?i:/v1/models(?:/(?P<name>[^/:]+))?{_WHICH}(?P<metadata>/metadata)?)")
_JSON = (b"content-type", b"application/json")
_INT64_MAX = 2 ** 63 - 1
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RestSettings:
    """How the REST API behaves.

    Attributes:
        timeout_ms: from a request to 504 (`--rest_api_timeout_in_ms`); 0: none.
        max_body_bytes: of a request, also once it is unpacked; a larger one is answered with 413.
        cors: whether pages of other origins may ask (`--rest_api_enable_cors_support`).
    """

    timeout_ms: int = 30_000
    max_body_bytes: int = 64 << 20
    cors: bool = False


def make_app(core, settings=None, attention=None, metrics_path=None, indexes=None, apis=None,
             keys=None):
    """The ASGI application.

    Args:
        core: `bert_tf.serving.server.core.Core`, whose event loop this runs in.
        settings: `RestSettings`.
        attention: draws what models attend to, as of `page.routes`; None for no such pages.
        metrics_path: where the metrics are; None for nowhere.
        indexes: a `ServedIndexes` that the page searches; None for none.
        apis: `ApiSettings` of other servers' protocols; None for none.
        keys: `Keys` that let clients in; None for all.
    """
    settings = settings or RestSettings()
    bodies = Bodies(settings.max_body_bytes)

    async def metrics(request):
        return Response(core.metrics.text(), media_type=CONTENT_TYPE)

    routes = [Route(metrics_path, metrics)] if metrics_path else []
    app = Starlette(routes=routes + page.routes(core, attention, indexes), middleware=[
        Middleware(RestApi, core=core, settings=settings, bodies=bodies)])
    if apis is None and keys is None:
        return app
    app = Apis(app, CoreBackend(core), apis or ApiSettings(cors=settings.cors), bodies)
    return app if keys is None else KeyGuard(app, keys, {*HEALTH, *page.STATIC, metrics_path},
                                             app.refuse)


class RestApi:
    """ASGI middleware that answers `/v1/…` and passes everything else on."""

    def __init__(self, app, core, settings, bodies=None):
        self.app = app
        self.core = core
        self.settings = settings
        self._bodies = bodies or Bodies(settings.max_body_bytes)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or not scope["path"].lower().startswith("/v1/"):
            await self.app(scope, receive, send)
            return
        try:
            status, body = 200, await self._answer(scope, receive)
        except ServingError as problem:
            status, body = problem.http_status, _error(problem)
        except Exception:
            _log.exception("%s %r", scope["method"], scope["path"])
            status, body = 500, _error(error("rest_internal"))
        headers = [_JSON, (b"content-length", b"%d" % len(body))]
        if self.settings.cors:
            headers += CORS
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope, receive):
        method = scope["method"]
        path = scope["raw_path"].decode("latin-1")
        if scope["query_string"]:
            path += "?" + scope["query_string"].decode("latin-1")
        if method == "OPTIONS":
            return _preflight(scope)
        pattern = {"POST": _POST, "GET": _GET}.get(method)
        match = pattern and pattern.fullmatch(path)
        if not match:
            raise error("rest_malformed_request", method=method, path=path)
        spec = _spec(match)
        if method == "GET":
            return (self._metadata if match["metadata"] else self._status)(spec)
        return await self._infer(match["method"], spec, scope, receive)

    async def _infer(self, method, spec, scope, receive):
        """Answer `:predict`, `:classify` or `:regress`, and count it."""
        started, status, timeout = time.monotonic(), "CANCELLED", self.settings.timeout_ms / 1000
        try:
            self.core.check(spec)  # before anything of the body is read
            answer = await getattr(self, f"_{method}")(
                spec, scope, receive, started + timeout if timeout > 0 else None)
            status = "OK"
        except Exception as problem:
            status = problem.code if isinstance(problem, ServingError) else "INTERNAL"
            raise
        finally:
            self.core.count(spec.name, method, "REST", status, time.monotonic() - started)
        return answer

    async def _predict(self, spec, scope, receive, deadline):
        signature, inputs, row_form = await self._decoded(
            scope, receive, deadline, read_predict, self.core.input_types(spec))
        _, outputs = await self.core.predict(
            dataclasses.replace(spec, signature=signature), inputs, deadline=deadline)
        return await encoded(outputs, write_predict, row_form)

    async def _classify(self, *request):
        return write_classifications(await self._on_examples(self.core.classify, *request))

    async def _regress(self, *request):
        return write_regressions(await self._on_examples(self.core.regress, *request))

    async def _on_examples(self, method, spec, scope, receive, deadline):
        signature, examples = await self._decoded(scope, receive, deadline, read_examples)
        _, results = await method(dataclasses.replace(spec, signature=signature), examples,
                                  deadline=deadline)
        return results

    async def _decoded(self, scope, receive, deadline, function, *arguments):
        async with self._bodies.read(scope, receive) as (body, packed):
            return await self.core.decode(function, body, packed, *arguments, deadline=deadline)

    def _status(self, spec):
        versions = self.core.status(spec.name, spec.version)
        return _indented({"model_version_status": [
            {"version": str(version.number), "state": version.state, "status": version.status()}
            for version in versions]})

    def _metadata(self, spec):
        found, signatures = self.core.metadata(spec)
        signature_map = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in signatures.items():
            signature_map.signature_def[name].CopyFrom(signature)
        # A 64-bit number is a string, as in all JSON of protocol buffers.
        return _indented({
            "model_spec": {"name": found.name, "signature_name": "",
                           "version": str(found.version)},
            "metadata": {"signature_def": json_format.MessageToDict(
                signature_map, preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True)}})


def _spec(match):
    """The `Spec` that a path names."""
    version, name, label = (match[group] for group in ("version", "name", "label"))
    if name is None:
        raise error("rest_missing_model_name")
    if version is not None:
        if len(version) > 19 or int(version) > _INT64_MAX:
            raise error("rest_version_not_numeric", version=version)
        version = int(version)
    return Spec(urllib.parse.unquote(name), version, label and urllib.parse.unquote(label))


def _preflight(scope):
    """A browser asks whether a page may; `cors` gives the headers that say so."""
    if not dict(scope["headers"]).get(b"origin", b"").startswith((b"http://", b"https://")):
        raise error("rest_no_origin")
    return b""


def _error(problem):
    return dump({"error": problem.message})


def _indented(value):
    return json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogateescape")
