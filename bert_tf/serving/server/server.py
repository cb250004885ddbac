"""The embedded server: one event loop with gRPC, REST and the models behind them."""

import asyncio
import logging
import signal
import threading

import tensorflow as tf

from bert_tf.errors import BertTfError, UsageError
from bert_tf.serving.server import DRAIN_SECONDS, config, memory, priority
from bert_tf.serving.server.batching import CPUS
from bert_tf.serving.server.core import Core
from bert_tf.serving.server.grpc_server import GrpcServer
from bert_tf.serving.wire.request import ServingError

_log = logging.getLogger(__name__)


def run(settings, attention=None, indexes=None):
    """Serve until SIGTERM or SIGINT.

    Args:
        settings: `Settings`.
        attention: draws what models attend to, as of `page.routes`; None for no such pages.
        indexes: a `ServedIndexes` that the page searches; None for none.

    Raises:
        BertTfError: a port is in use, or a model could not be loaded.
    """
    memory.reuse_large_blocks()
    priority.favor_requests()
    _set_threads(settings)
    asyncio.run(_serve(settings, attention, indexes))


def _set_threads(settings):
    flags, batching = settings.flags, settings.batching
    both = flags.tensorflow_session_parallelism  # counts before the others, as in TF Serving
    # Where other batches have work for the other cores, an operation is best kept on its own:
    # handing parts of it over and waiting for them takes longer than it saves.
    share = max(1, CPUS // batching.threads) if batching else 0
    tf.config.threading.set_intra_op_parallelism_threads(
        both or flags.tensorflow_intra_op_parallelism or share)
    tf.config.threading.set_inter_op_parallelism_threads(
        both or flags.tensorflow_inter_op_parallelism)


async def _serve(settings, attention, indexes):
    flags = settings.flags
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    core = Core(settings)
    # Ports first: that one is in use is to be known before models are loaded.
    grpc_server = GrpcServer(core, settings)
    rest = _http_server(core, settings, attention, indexes) if flags.rest_api_port else None
    told = asyncio.ensure_future(stopping.wait())
    try:
        loading = asyncio.ensure_future(core.reload(settings.models))
        await asyncio.wait([told, loading], return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            return
        try:
            loading.result()
        except ServingError as problem:
            raise BertTfError(f"{problem.code}: {problem.message}") from problem
        await grpc_server.start()
        if rest:
            await rest.start()
        print(f"serving {' '.join(core.models())} on {flags.host}: gRPC on port {grpc_server.port}"
              + (f", REST and a page for people on port {rest.port}" if rest else ""), flush=True)
        watching = asyncio.ensure_future(_watch_config(core, settings))
        if indexes is not None:
            # It reads every version's files; no stop waits for it, as it would for `to_thread`.
            threading.Thread(target=indexes.warn_of_unowned, args=(core.folders(),),
                             daemon=True).start()
        await told
        watching.cancel()
    finally:
        told.cancel()
        await asyncio.gather(grpc_server.stop(DRAIN_SECONDS),
                             *([rest.stop()] if rest else []))
        await core.close()


async def _watch_config(core, settings):
    """Take the model configuration anew whenever its file has changed.

    One that cannot be taken changes nothing and is tried again at every look: a label may name a
    version that is still loading, a file may be half written.
    """
    flags, last, said = settings.flags, settings.models, None
    while flags.model_config_file and flags.model_config_file_poll_wait_seconds > 0:
        await asyncio.sleep(flags.model_config_file_poll_wait_seconds)
        try:
            models = await asyncio.to_thread(config.read_models, flags)
            if models == last:
                said = None  # the same mistake is told anew when it comes again
                continue
            if not models.model_config_list.config:
                raise UsageError(f"{flags.model_config_file} names no model")
            await core.configure(models)
            last, said = models, None
        except Exception as problem:
            if str(problem) != said:  # not at every look
                said = str(problem)
                _log.error("%s is not taken: %s", flags.model_config_file, said, exc_info=not
                           isinstance(problem, BertTfError | ServingError))


def _http_server(core, settings, attention, indexes):
    """The `HttpServer` of REST, the page and other servers' protocols."""
    from bert_tf.serving.server.http_server import HttpServer
    from bert_tf.serving.server.rest_server import RestSettings, make_app

    flags = settings.flags
    app = make_app(core, RestSettings(flags.rest_api_timeout_in_ms, settings.max_message_bytes,
                                      flags.rest_api_enable_cors_support), attention,
                   settings.monitoring_path, indexes, settings.apis, settings.keys)
    return HttpServer(app, flags.host, flags.rest_api_port, "rest_api_port",
                      flags.max_connections, settings.max_message_bytes,
                      settings.ssl and settings.ssl.context())
