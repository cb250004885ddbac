"""The page at `/`: which models are served, and a form to try each signature in the browser.

It is static (`page/`: HTML, CSS, JavaScript, nothing from elsewhere) and speaks the REST API; only
the names of the models, which that API does not list, it gets from here. And where the server was
given a way to draw them, it links to pages that show what a model attends to in a text.
"""

import asyncio
import concurrent.futures
import logging
import pathlib

from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bert_tf.errors import BertTfError, NoTextError
from bert_tf.serving.server.page_search import search_routes
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError, Spec

MOST_CHARACTERS = 4000  # of the texts of an attention page: more than any window takes
_MOST_WAITING = 8  # attention pages
_FOLDER = pathlib.Path(__file__).with_suffix("")
_log = logging.getLogger(__name__)
# Paths of what stands in the package for everybody to read, of which no key is asked.
STATIC = ("/", *sorted(f"/page/{each.name}" for each in _FOLDER.iterdir() if each.is_file()))
_NOTHING = ("default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'; ")
_HEADERS = {
    "Content-Security-Policy": f"{_NOTHING}script-src 'self'; style-src 'self'; "
                               "connect-src 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
# All in one file, which itself says by their hashes which scripts and styles it may run.
_SINGLE_PAGE = {
    **_HEADERS, "Cache-Control": "no-store", "Content-Security-Policy":
    f"{_NOTHING}script-src 'unsafe-inline'; style-src 'unsafe-inline'"}


def routes(core, attention=None, indexes=None):
    """Starlette's routes of the page: `/`, `/page/models` (JSON list of names), `/page/FILE`.

    And `/page/attention?model=NAME&text=TEXT[&version=N][&text_pair=TEXT]`, an HTML page or a
    sentence that says why there is none, `/page/has_attention?model=NAME[&version=N]`, JSON:
    whether there can be one.

    Args:
        core: `bert_tf.serving.server.core.Core`.
        attention: None for no such pages, or an object with `has_page(folder)`, whether there can
            be pages of the SavedModel in a version's folder, and `page(folder, name, text,
            text_pair)`, the HTML, or a `BertTfError` that says why not; each runs in a thread, the
            second always in the same.
        indexes: see `page_search.search_routes`, which are among these.
    """
    async def index(request):
        return FileResponse(_FOLDER / "index.html", headers=_HEADERS)

    async def models(request):
        return JSONResponse(core.models(), headers={"Cache-Control": "no-store"})

    return [Route("/", index), Route("/page/models", models),
            *_attention_routes(core, attention), *search_routes(core, indexes, _spec),
            Mount("/page", StaticFiles(directory=_FOLDER))]


def _attention_routes(core, attention):
    # One page at a time, so that requests are kept waiting by one thread at most.
    thread = concurrent.futures.ThreadPoolExecutor(1, "attention")
    waiting = 0

    async def has_page(request):
        try:
            _, folder = core.folder(_spec(request))
            found = attention is not None and await asyncio.to_thread(attention.has_page, folder)
        except ServingError:
            found = False
        return JSONResponse(found, headers={"Cache-Control": "no-store"})

    async def page(request):
        nonlocal waiting
        text, pair = (request.query_params.get(name) for name in ("text", "text_pair"))
        if attention is None:
            return _refusal(404, "This server draws no attention pages.")
        if text is None:
            return _refusal(400, "No text: expected /page/attention?model=NAME&text=TEXT.")
        if len(text) + len(pair or "") > MOST_CHARACTERS:
            return _refusal(413, f"The text is too long: expected up to {MOST_CHARACTERS} "
                                 "characters.")
        if waiting >= _MOST_WAITING:
            return _refusal(503, "Other attention pages are waited for; try again in a moment.")
        waiting += 1
        try:
            spec, folder = core.folder(_spec(request))
            drawn = await asyncio.get_running_loop().run_in_executor(
                thread, attention.page, folder, f"{spec.name}, version {spec.version}", text, pair)
        except ServingError as problem:
            return _refusal(problem.http_status, problem.message)
        except BertTfError as problem:  # whose message names the folder
            if not isinstance(problem, NoTextError):
                _log.error("%s", problem)
            return _refusal(404, "There is no attention page of this model; expected a version "
                                 "that python -m bert_tf.export wrote, with a tokenizer.")
        finally:
            waiting -= 1
        return HTMLResponse(drawn, headers=_SINGLE_PAGE)

    return [Route("/page/attention", page), Route("/page/has_attention", has_page)]


def _spec(request):
    """The model and version that are asked for."""
    version = request.query_params.get("version")
    if version and not (version.isascii() and version.isdigit() and len(version) < 20):
        raise error("rest_version_not_numeric", version=version)
    return Spec(request.query_params.get("model", ""), int(version) if version else None)


def _refusal(status, sentence):
    return PlainTextResponse(f"{sentence}\n", status, headers=_SINGLE_PAGE)
