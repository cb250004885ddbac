"""The ASGI middleware that answers the protocols that `--api` names, and passes the rest on."""

import asyncio
import logging
import time

from bert_tf.serving.apis import cohere, openai, tasks, tei
from bert_tf.serving.apis.refusal import Kind, refusal
from bert_tf.serving.apis.route import Answer
from bert_tf.serving.apis.settings import HEALTH
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import HTTP_STATUS, ServingError
from bert_tf.serving.wire.rest_text import dump

_PROTOCOLS = {"openai": (openai, cohere), "tei": (tei,)}  # by what `--api` calls them
_CORS = ((b"access-control-allow-origin", b"*"),
         (b"access-control-allow-methods", b"POST, GET"),
         (b"access-control-allow-headers", b"Content-Type, Authorization"))
_AT_ONCE = 1 << 20  # bytes of arrays up to which an answer is written in the event loop
_JSON = (b"content-type", b"application/json")
_OF_MODEL = "/models/"
_log = logging.getLogger(__name__)


class Apis:
    """The middleware.

    Args:
        app: what answers other paths.
        backend: `Backend`.
        settings: `ApiSettings`.
        bodies: `Bodies`.
    """

    def __init__(self, app, backend, settings, bodies):
        self.app = app
        self._backend = backend
        self._settings = settings
        self._bodies = bodies
        self._started = int(time.time())
        self._protocols = [each for name in settings.apis for each in _PROTOCOLS[name]]
        self._routes = {key: (protocol, route) for protocol in self._protocols
                        for key, route in protocol.ROUTES.items()}
        self._paths = {path for _, path in self._routes}

    async def __call__(self, scope, receive, send):
        found = scope["type"] == "http" and self._find(scope)
        if not found:
            await self.app(scope, receive, send)
            return
        protocol, answer = found
        status, headers = 200, ()
        try:
            answer = await answer(scope, receive)
            headers, document = answer.headers, answer.document
            body = dump(document) if answer.size <= _AT_ONCE else await asyncio.to_thread(
                dump, document)
        except Exception as problem:
            status, body = self._refused(protocol, scope, problem)
        await send({"type": "http.response.start", "status": status, "headers": [
            _JSON, (b"content-length", b"%d" % len(body)), *headers, *self._cors()]})
        await send({"type": "http.response.body", "body": body})

    def _cors(self):
        return _CORS if self._settings.cors else ()

    def refuse(self, scope, problem):
        """What `KeyGuard` answers: in the form of the path's protocol, else in our REST API's."""
        found = self._find(scope)
        status, body = self._refused(found[0] if found else None, scope, problem)
        return status, [_JSON, (b"content-length", b"%d" % len(body)), *self._cors()], body

    def _refused(self, protocol, scope, problem):
        if not isinstance(problem, ServingError):
            _log.error("%s %s", scope["method"], scope["path"], exc_info=problem)
            problem = error("rest_internal")
        return (protocol or _Plain).refused(problem)

    def _find(self, scope):
        """The protocol of a request and what answers it, or None where it is none of theirs."""
        method, path = scope["method"], scope["path"]
        found = self._routes.get((method, path))
        if found is not None:
            protocol, route = found
            return protocol, lambda *of: self._post(route, None, *of)
        if method == "OPTIONS" and self._settings.cors and path in self._paths:
            return openai, _preflight
        if openai in self._protocols and (method, path) == ("GET", "/v1/models"):
            return openai, self._models
        if tei in self._protocols:
            return self._find_tei(method, path)
        return None

    def _find_tei(self, method, path):
        name = None
        if path.startswith(_OF_MODEL):
            name, _, rest = path[len(_OF_MODEL):].partition("/")
            path = "/" + rest
        if method == "GET" and path in HEALTH and name is None:
            return tei, self._health
        if method == "GET" and path == "/info":
            return tei, lambda *_: self._info(name)
        if method == "POST" and path == "/":
            return tei, lambda *of: self._post(None, name, *of)
        route = tei.ROUTES.get((method, path))
        return route and (tei, lambda *of: self._post(route, name, *of))

    async def _post(self, route, name, scope, receive):
        """Answer a request and count it.

        Args:
            route: `Route`, or None for what the model is for.
            name: of the model that the path says, or None.
        """
        settings, backend = self._settings, self._backend
        started, status, about = time.monotonic(), "INTERNAL", None
        deadline = started + settings.timeout if settings.timeout > 0 else None
        try:
            if route is None or name is not None:
                about = await self._about(name)
            if route is None:
                route = tei.BY_TASK[about.tasks[0]] if about.tasks else tei.ROUTES["POST", "/embed"]
            async with self._bodies.read(scope, receive) as (body, packed):
                asked = await backend.decode(route.read, body, packed, deadline=deadline)
            if about is None:
                about = await (tasks.only(backend, route.task) if asked.model is None
                               else tasks.find(backend, asked.model))
            answer = await route.answer(
                tasks.Call(backend, about, deadline, settings.max_tokens), asked)
            status = "OK"
        except ServingError as problem:
            status = problem.code
            raise
        finally:
            # What is counted has a name of ours: those of clients would fill the memory.
            if about is not None:
                backend.count(about.name, route.api, status, time.monotonic() - started)
        return answer

    async def _about(self, name):
        if name is None:
            return await tasks.only(self._backend, None)
        return await tasks.find(self._backend, name)

    async def _models(self, *_):
        return openai.models(self._backend, self._started)

    async def _info(self, name):
        return tei.info(await self._about(name), self._settings.limits, self._settings.max_tokens)

    async def _health(self, *_):
        if not await self._backend.is_ready():
            raise refusal("unhealthy", Kind.UNHEALTHY)
        return Answer({})


class _Plain:
    """The form of our REST API's errors."""

    @staticmethod
    def refused(problem):
        return HTTP_STATUS[problem.code], dump({"error": problem.message})


async def _preflight(*_):
    return Answer({})
