"""Servers in a thread of the tests' process, of models that do what tests want."""

import asyncio
import contextlib
import pathlib
import socket
import threading

import uvicorn
from server_harness import PATIENCE
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.serving.server import config, server
from bert_tf.serving.server.core import Core
from bert_tf.serving.server.grpc_server import GrpcServer
from bert_tf.serving.server.rest_server import make_app
from bert_tf.serving.server.signature import Signature
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError

PRIVATE = "/srv/secret/models"


def definition_of_x():
    definition = meta_graph_pb2.SignatureDef()
    definition.inputs["x"].dtype = definition.outputs["y"].dtype = 3
    for info in (definition.inputs["x"], definition.outputs["y"]):
        info.tensor_shape.unknown_rank = True
    return definition


class Loaded:
    """In place of a `LoadedVersion`: what its folder's file `does` says happens as it is loaded."""

    def __init__(self, path, *_):
        self.path = path
        does = pathlib.Path(path, "does").read_text()
        if does == "fail":
            raise ZeroDivisionError(f"{PRIVATE} is not there")
        self.definitions = {"serving_default": definition_of_x()}
        self.input_types = {"serving_default": {"x": 3}}
        self.signatures = {"serving_default": Signature(
            "serving_default", definition_of_x(), self.function)}
        self._fails_to_close = does == "stay"

    def signature(self, name):
        if name not in self.signatures:
            raise error("no_signature", signature=name)
        return self.signatures[name]

    @staticmethod
    def function(x):
        return {"y": 2 * x}

    def close(self):
        if self._fails_to_close:
            raise OSError(PRIVATE)


def add_version(folder, number=1, does=""):
    version = folder / str(number)
    staged = folder.with_name(f"{folder.name}-{number}-written")
    staged.mkdir(parents=True)
    (staged / "does").write_text(does)
    folder.mkdir(exist_ok=True)
    staged.rename(version)


def settings_of(folder, *flags, models=("m",), **options):
    """`Settings` with a file `models.config` for models in the folder."""
    write_config(folder, *models, **options)
    return config.settings(config.parser("").parse_args([
        f"--model_config_file={folder / 'models.config'}", "--max_num_load_retries=0",
        "--model_config_file_poll_wait_seconds=1", *flags]))


def write_config(folder, *models, text="", more=""):
    made = folder / "models.config.new"
    made.write_text(text or "model_config_list {\n%s\n}" % "\n".join(  # noqa: UP031 — braces
        f'config {{ name: "{name}" base_path: "{folder / name}" model_platform: "tensorflow" '
        f'{more} }}' for name in models))
    made.rename(folder / "models.config")


class LaterLoop(asyncio.SelectorEventLoop):
    """An event loop for which it is `ahead` seconds later than it is."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead


@contextlib.contextmanager
def running(settings, *, watch=False):
    """`(run, core)`: a `Core` whose event loop runs in a thread; `run(coroutine)` in it.

    The loop is a `LaterLoop`.
    """
    loop = LaterLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    async def start():
        core = Core(settings)
        await core.reload(settings.models)
        return core

    try:
        core = run(start())
        if watch:
            watching = asyncio.run_coroutine_threadsafe(server._watch_config(core, settings), loop)
        yield run, core
        if watch:
            assert not watching.done()
            watching.cancel()
        run(core.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)


async def started(core, settings):
    """A `GrpcServer` that listens."""
    made = GrpcServer(core, settings)
    await made.start()
    return made


@contextlib.contextmanager
def answering(settings):
    """`(gRPC port, core)` of a server in a thread."""
    with running(settings) as (run, core):
        made = run(started(core, settings))
        try:
            yield made.port, core
        finally:
            run(made.stop(0))


def states(core, name="m"):
    with contextlib.suppress(ServingError):
        return {one.number: one.state for one in core.status(name)}
    return {}


@contextlib.contextmanager
def rest_of(core, run, settings=None, **options):
    """The address of a REST server in the core's loop; `settings` and so on as of `make_app`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = uvicorn.Server(uvicorn.Config(make_app(core, settings, **options),
                                             log_level="critical", lifespan="off"))
        made.capture_signals = contextlib.nullcontext

        async def start():
            return asyncio.ensure_future(made.serve([listening]))

        serving = run(start())
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            made.should_exit = True

            async def ended():
                await serving

            run(ended())
