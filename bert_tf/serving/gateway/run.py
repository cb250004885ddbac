"""The gateway as a process: one event loop with an HTTP server and gRPC connections."""

import asyncio
import signal

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bert_tf.serving.apis.app import Apis
from bert_tf.serving.apis.body import Bodies
from bert_tf.serving.apis.keys import KeyGuard, Keys
from bert_tf.serving.apis.settings import HEALTH, ApiSettings
from bert_tf.serving.client import Tls
from bert_tf.serving.gateway.client_backend import ClientBackend
from bert_tf.serving.server.codec import Decoder
from bert_tf.serving.server.http_server import HttpServer
from bert_tf.serving.server.metrics import CONTENT_TYPE, Metrics
from bert_tf.serving.server.tls import ServerTls
from bert_tf.serving.wire.key_file import read_keys
from bert_tf.serving.wire.request import Limits

METRICS = "/monitoring/prometheus/metrics"  # where TensorFlow Serving has them
MAX_BODY_BYTES = 64 << 20


def run(flags):
    """Serve until SIGTERM or SIGINT.

    Args:
        flags: of `python -m bert_tf.gateway`.

    Raises:
        BertTfError: the port is in use, or a file cannot be read.
    """
    asyncio.run(_serve(flags))


async def _serve(flags):
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    tls = flags.ssl_config_file and ServerTls.read(flags.ssl_config_file)
    app, backend = make_app(flags)
    server = HttpServer(app, flags.host, flags.port, "port", flags.max_connections, MAX_BODY_BYTES,
                        tls.context() if tls else None)
    try:
        await server.start()
        print(f"{','.join(flags.api)} of {' '.join(backend.names())} at {flags.address} on "
              f"{flags.host}, port {server.port}", flush=True)
        await stopping.wait()
    finally:
        await server.stop()
        await backend.close()


def make_app(flags):
    """The ASGI application and its `ClientBackend`."""
    limits = Limits(flags.max_request_rows, MAX_BODY_BYTES, flags.max_text_bytes)
    tls = flags.ca_file, flags.cert_file, flags.key_file
    metrics = Metrics()
    backend = ClientBackend(
        flags.address, flags.models, Decoder(), limits, metrics,
        batch_size=flags.batch_size, tls=Tls(*tls) if flags.tls or any(tls) else None,
        api_key=flags.server_key_file and read_keys(flags.server_key_file)[0])

    async def answer_metrics(request):
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    async def nothing(request, problem):
        return JSONResponse({"error": f"no such path: {request.url.path}"}, 404)

    rest = Starlette(routes=[Route(METRICS, answer_metrics)], exception_handlers={404: nothing})
    settings = ApiSettings(flags.api, limits, flags.timeout, flags.max_request_tokens,
                           max_connections=flags.max_connections)
    app = Apis(rest, backend, settings, Bodies(MAX_BODY_BYTES))
    if flags.api_key_file:
        app = KeyGuard(app, Keys.read(flags.api_key_file), {*HEALTH, METRICS}, app.refuse)
    return app, backend
