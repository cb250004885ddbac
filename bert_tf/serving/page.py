"""The page at `/`: which models are served, and a form to try each signature in the browser.

It is static (`page/`: HTML, CSS, JavaScript, nothing from elsewhere) and speaks the REST API; only
the names of the models, which that API does not list, it gets from here.
"""

import pathlib

from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

_FOLDER = pathlib.Path(__file__).with_suffix("")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
                               "connect-src 'self'; img-src data:; base-uri 'none'; "
                               "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def routes(core):
    """Starlette's routes of the page: `/`, `/page/models` (JSON list of names), `/page/FILE`."""
    async def index(request):
        return FileResponse(_FOLDER / "index.html", headers=_HEADERS)

    async def models(request):
        return JSONResponse(core.models(), headers={"Cache-Control": "no-store"})

    return [Route("/", index), Route("/page/models", models),
            Mount("/page", StaticFiles(directory=_FOLDER))]
