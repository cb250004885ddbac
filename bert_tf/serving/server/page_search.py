"""What the page asks to search indexes by vectors of a served model.

`/page/indexes?model=NAME[&version=N]` gives the names of the model's indexes, JSON. `POST
/page/search` takes `{"index": NAME, "vector": [number, …]}` and gives the nearest passages, a list
of `{"id", "text", "title", "score"}`, or `{"error": sentence}`.
"""

import asyncio
import concurrent.futures
import json
import logging
import math

from starlette.responses import JSONResponse
from starlette.routing import Route

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.wire.request import ServingError

_MOST_BYTES = 1 << 20  # of a request
_MOST_WAITING = 32  # searches
_FOUND = 10  # passages
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_log = logging.getLogger(__name__)


def search_routes(core, indexes, spec_of):
    """Starlette's routes.

    Args:
        core: `bert_tf.serving.server.core.Core`.
        indexes: a `ServedIndexes`, or None for no indexes.
        spec_of: function from a request to the `Spec` that it names.
    """
    # One search at a time: the cores are the models'.
    thread = concurrent.futures.ThreadPoolExecutor(1, "search")
    waiting = 0

    async def names(request):
        try:
            _, folder = core.folder(spec_of(request))
            found = [] if indexes is None else await asyncio.to_thread(indexes.names, folder)
        except (BertTfError, ServingError):
            found = []
        return JSONResponse(found, headers=_HEADERS)

    async def search(request):
        nonlocal waiting
        if indexes is None:
            return _refusal(404, "This server has no indexes.")
        try:
            name, vector = _asked(await _body(request))
        except ValueError as problem:
            return _refusal(400, str(problem))
        if waiting >= _MOST_WAITING:
            return _refusal(503, "Other searches are waited for; try again in a moment.")
        waiting += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                thread, indexes.search, name, vector, _FOUND)
        except UsageError as problem:
            return _refusal(400, str(problem))
        except BertTfError as problem:  # whose message names a file
            _log.error("%s", problem)
            return _refusal(500, "The index cannot be read.")
        finally:
            waiting -= 1
        return JSONResponse(found, headers=_HEADERS)

    return [Route("/page/indexes", names), Route("/page/search", search, methods=["POST"])]


async def _body(request):
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise ValueError(f"The request is too long: expected up to {_MOST_BYTES} bytes.")
    return body


def _asked(body):
    """Return the name and the vector of a request; ValueError where it has none."""
    try:
        asked = json.loads(body)
    except RecursionError:
        asked = None
    name, vector = (asked.get(key) for key in ("index", "vector")) if isinstance(
        asked, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(vector, list) or not vector or not all(
            type(number) in (int, float) for number in vector):
        raise ValueError('Expected {"index": NAME, "vector": [number, …]}.')
    try:
        vector = [float(number) for number in vector]
    except OverflowError:
        raise ValueError("A number of the vector is too large.") from None
    if not all(map(math.isfinite, vector)):
        raise ValueError("The vector is not finite.")
    return name, vector


def _refusal(status, sentence):
    return JSONResponse({"error": sentence}, status, headers=_HEADERS)
