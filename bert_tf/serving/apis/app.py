"""The ASGI middleware that answers the protocols that `--api` names, and passes the rest on."""

import asyncio
import contextlib
import logging
import time
import urllib.parse

from bert_tf.serving.apis import cohere, openai, tasks, tei
from bert_tf.serving.apis.backend import OutdatedError
from bert_tf.serving.apis.refusal import MethodRefusal
from bert_tf.serving.apis.route import Answer, View
from bert_tf.serving.apis.settings import HEALTH
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError
from bert_tf.serving.wire.rest_text import dump

_PROTOCOLS = {"openai": (openai, cohere), "tei": (tei,)}  # by what `--api` calls them
CORS = ((b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"POST, GET"),
        # The star is for all others, such as those of OpenAI's client (Fetch standard, 4.8).
        (b"access-control-allow-headers", b"Authorization, *"))
_AT_ONCE = 1 << 20  # bytes up to which an answer is written in the event loop
_VERSIONS = 3  # that may follow one another while a request is answered
_OF_MODEL = "/models/"
_log = logging.getLogger(__name__)


class Apis:
    """The middleware.

    Args:
        app: what answers other paths.
        backend: `Backend`.
        settings: `ApiSettings`.
        bodies: `Bodies`.

    Attributes:
        backend, settings: as given.
        started: when it was made, in seconds since 1970.
    """

    def __init__(self, app, backend, settings, bodies):
        self.app = app
        self.backend = backend
        self.settings = settings
        self.started = int(time.time())
        self._bodies = bodies
        self._routes = {key: (protocol, route) for name in settings.apis
                        for protocol in _PROTOCOLS[name] for key, route in protocol.ROUTES.items()}
        if settings.apis:  # what a probe asks, whatever the protocols
            self._routes |= {("GET", path): (tei, tei.ROUTES["GET", path]) for path in HEALTH}

    async def __call__(self, scope, receive, send):
        found = scope["type"] == "http" and (self._find(scope) or self._find_otherwise(scope))
        if not found:
            await self.app(scope, receive, send)
            return
        protocol, route, name = found
        status, headers = 200, ()
        try:
            answer = await self._answer(protocol, route, name, scope, receive)
            headers = answer.headers
            body = _written(answer.document) if answer.size <= _AT_ONCE else (
                await asyncio.to_thread(_written, answer.document))
        except Exception as problem:
            status, body = self._refused(protocol, scope, problem)
            if isinstance(problem, MethodRefusal):
                headers = [(b"allow", b"GET, HEAD" if problem.method == "GET" else b"POST")]
        await send({"type": "http.response.start", "status": status,
                    "headers": [*self._headers(body), *headers]})
        await send({"type": "http.response.body", "body": body})

    def _headers(self, body):
        return [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)),
                *(CORS if self.settings.cors else ())]

    def refuse(self, scope, problem):
        """What `KeyGuard` answers: in the form of the path's protocol, else in our REST API's."""
        protocol, *_ = self._find(scope) or self._find_otherwise(scope) or (_Plain,)
        status, body = self._refused(protocol, scope, problem)
        return status, self._headers(body), body

    def _refused(self, protocol, scope, problem):
        if not isinstance(problem, ServingError):
            _log.error("%s %r", scope["method"], scope["path"], exc_info=problem)
            problem = error("rest_internal")
        return protocol.refused(problem)

    def _find(self, scope):
        """The protocol of a request, what answers it, and the model in the path; else None."""
        method, path, name = scope["method"], scope["path"], None
        method = "GET" if method == "HEAD" else method  # the server leaves the body out
        if method == "OPTIONS" and self.settings.cors:
            found = (self._find({**scope, "method": "POST"})
                     or self._find({**scope, "method": "GET"}))
            return found and (found[0], _PREFLIGHT, None)
        found = self._routes.get((method, path))
        if found is None and path.startswith(_OF_MODEL):
            # Not yet decoded: a name may have a slash.
            name, _, rest = scope["raw_path"].decode("latin-1")[len(_OF_MODEL):].partition("/")
            name = urllib.parse.unquote(name)
            found = self._routes.get((method, f"/{rest}"))
            found = found if found and found[0].OF_MODEL else None
        return found and (*found, name)

    def _find_otherwise(self, scope):
        """As `_find`, of a path that is there by another method: what refuses it."""
        for method in ("GET", "POST") if scope["method"] != "OPTIONS" else ():
            found = self._find({**scope, "method": method})
            if found and not isinstance(found[1], dict):  # at whose path there may be a page
                return found[0], View(_refuse_method), method
        return None

    async def about(self, name, deadline):
        """The `About` of a model; without a name of the only one."""
        if name is None:
            return await tasks.only(self.backend, None, deadline)
        return await tasks.find(self.backend, name, deadline)

    async def _answer(self, protocol, route, name, scope, receive):
        """The `Answer` to a request; what a model is asked is counted.

        Args:
            protocol: the file of one.
            route: of its `ROUTES`.
            name: of the model that the path says, or None.
        """
        backend, timeout = self.backend, self.settings.timeout
        started, status, about = time.monotonic(), "CANCELLED", None
        deadline = started + timeout if timeout > 0 else None
        if isinstance(route, View):
            return await route.answer(self, name, deadline)
        try:
            if name is not None or isinstance(route, dict):
                about = await self.about(name, deadline)  # before anything of the body is read
            if isinstance(route, dict):
                route = next(route[task] for task in (*about.tasks, *route) if task in route)
            async with self._bodies.read(scope, receive) as (body, packed):
                asked = await backend.decode(route.read, body, packed, deadline=deadline)
            if about is None:
                about = await (tasks.only(backend, route.task, deadline, protocol.OF_MODEL)
                               if asked.model is None
                               else tasks.find(backend, asked.model, deadline))
            answer = await self._answer_of(about, route, asked, deadline)
            status = "OK"
        except Exception as problem:
            status = problem.code if isinstance(problem, ServingError) else "INTERNAL"
            raise
        finally:
            # What is counted has a name of ours: those of clients would fill the memory.
            if about is not None:
                backend.count(about.name, route.api, status, time.monotonic() - started)
        return answer

    async def _answer_of(self, about, route, asked, deadline):
        """The `Answer` of a model, by what the version that computes it says of itself."""
        for _ in range(_VERSIONS):
            with contextlib.suppress(OutdatedError):
                return await route.answer(
                    tasks.Call(self.backend, about, deadline, self.settings.max_tokens), asked)
            about = await self.backend.about(about.name, deadline)
        raise error("not_now")


def _written(document):
    return dump(document() if callable(document) else document)


class _Plain:
    """The form of our REST API's errors."""

    @staticmethod
    def refused(problem):
        return problem.http_status, dump({"error": problem.message})


async def _refuse_method(apis, method, deadline):
    raise MethodRefusal(method)


async def _preflight(*_):
    return Answer({})


_PREFLIGHT = View(_preflight)
