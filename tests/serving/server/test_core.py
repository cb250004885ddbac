"""Servers of models that do what tests want: they fail, run on, tell secrets, come and go."""

import asyncio
import contextlib
import json
import pathlib
import shutil
import socket
import stat
import threading

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
import uvicorn
from server_harness import PATIENCE, free_ports, refused, wait_until
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from bert_tf.errors import BertTfError
from bert_tf.serving.server import config, decoder, loaded_version, model_store, server
from bert_tf.serving.server.cancelling import Cancellation
from bert_tf.serving.server.core import Core
from bert_tf.serving.server.grpc_server import GrpcServer
from bert_tf.serving.server.loaded_version import Signature
from bert_tf.serving.server.rest_server import make_app
from bert_tf.serving.wire.request import ServingError, Spec

PRIVATE = "/srv/secret/models"


def _definition():
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
        self.definitions = {"serving_default": _definition()}
        self.input_types = {"serving_default": {"x": 3}}
        self.signatures = {"serving_default": Signature(
            "serving_default", _definition(), self.function)}
        self._fails_to_close = does == "stay"

    @staticmethod
    def function(x):
        return {"y": 2 * x}

    def close(self):
        if self._fails_to_close:
            raise OSError(PRIVATE)


@pytest.fixture(autouse=True)
def fake_versions(monkeypatch):
    monkeypatch.setattr(model_store, "LoadedVersion", Loaded)
    monkeypatch.setattr(model_store, "warm_up", lambda *_: 0)


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


@contextlib.contextmanager
def running(settings, *, watch=False):
    """`(run, core)`: a `Core` whose event loop runs in a thread; `run(coroutine)` in it."""
    loop = asyncio.new_event_loop()
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
        return {one.version: one.state for one in core.status(name)}
    return {}


@pytest.fixture
def quick_looks(monkeypatch):
    """The server sleeps for hundredths of seconds."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *rest: sleep(seconds / 100, *rest))


# Configurations and versions.


def test_what_loading_raises_ends_the_version_and_no_look_at_folders_is_the_last(
        tmp_path, quick_looks, monkeypatch, caplog):
    add_version(tmp_path / "m")
    find = model_store.find_versions
    with running(settings_of(tmp_path)) as (_, core):
        looks = []

        def fails(configs):
            looks.append(configs)
            raise RuntimeError(PRIVATE)

        monkeypatch.setattr(model_store, "find_versions", fails)
        wait_until(lambda: len(looks) > 2, "looks go on")
        monkeypatch.setattr(model_store, "find_versions", find)
        add_version(tmp_path / "m", 2, "fail")
        wait_until(lambda: states(core) == {1: "AVAILABLE", 2: "END"}, "version 2 has failed")
        (told, _) = core.status("m")
        assert told.error_code == "INTERNAL" and "log says why" in told.error_message
        assert PRIVATE in caplog.text and PRIVATE not in told.error_message
        add_version(tmp_path / "m", 3, "stay")
        wait_until(lambda: states(core) == {1: "END", 2: "END", 3: "AVAILABLE"}, "3 answers")
        shutil.rmtree(tmp_path / "m" / "3")  # of which unloading raises
        add_version(tmp_path / "m", 4)
        wait_until(lambda: states(core).get(3) == "END"
                   and states(core).get(4) == "AVAILABLE", "4 answers, 3 is gone")


def test_a_configuration_that_cannot_be_changes_nothing_and_is_tried_again(
        tmp_path, quick_looks, caplog):
    add_version(tmp_path / "m")
    with running(settings_of(tmp_path), watch=True) as (_, core):
        for text, expected in (("# empty\n", "names no model"),
                               ("model_config_list { config {", "not taken"),
                               ("model_config_list {}", "names no model")):
            caplog.clear()
            write_config(tmp_path, text=text)
            wait_until(lambda expected=expected: expected in caplog.text, expected)
            assert states(core) == {1: "AVAILABLE"}
        # A label that moves before its version is there: taken once it is.
        write_config(tmp_path, "m", more='version_labels { key: "new" value: 2 }')
        wait_until(lambda: "label" in caplog.text, "the label is refused")
        add_version(tmp_path / "m", 2)

        def labelled():
            with contextlib.suppress(ServingError):
                core.check(Spec("m", label="new"))
                return True

        wait_until(labelled, "the label is there")


def test_a_mistyped_path_is_corrected_while_it_is_waited_for(tmp_path, quick_looks):
    add_version(tmp_path / "m")
    add_version(tmp_path / "second")
    with running(settings_of(tmp_path), watch=True) as (_, core):
        text = (tmp_path / "models.config").read_text()
        other = 'config { name: "other" base_path: "%s" model_platform: "tensorflow" }\n}'
        write_config(tmp_path, text=text.removesuffix("}") + other % (tmp_path / "sceond"))
        wait_until(lambda: core.models() == ["m", "other"], "the configuration is taken")
        assert states(core, "other") == {}
        write_config(tmp_path, text=text.removesuffix("}") + other % (tmp_path / "second"))
        wait_until(lambda: states(core, "other") == {1: "AVAILABLE"}, "the model is loaded")
        # And one whose version failed there: the same number elsewhere is another version.
        add_version(tmp_path / "broken", 1, "fail")
        write_config(tmp_path, text=text.replace('"m"', '"n"').replace("/m", "/broken"))
        wait_until(lambda: states(core, "n") == {1: "END"}, "it has failed")
        write_config(tmp_path, text=text.replace('"m"', '"n"').replace("/m", "/second"))
        wait_until(lambda: states(core, "n") == {1: "AVAILABLE"}, "it is loaded from elsewhere")


# Who may change models.


def reload_through(channel, folder, name):
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.config.add(
        name=name, base_path=str(folder), model_platform="tensorflow")
    model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest(
        request, timeout=PATIENCE)


@pytest.mark.parametrize("allowed", [(), ("loopback",), ("unix",)])
def test_models_are_changed_by_those_that_are_named(tmp_path, allowed):
    path = tmp_path / "socket"
    models = tmp_path / "models"
    for name in ("models/m", "models/n", "elsewhere/x"):
        (tmp_path / name).mkdir(parents=True)
        add_version(tmp_path / name)
    (models / "link").symlink_to(tmp_path / "elsewhere" / "x")
    (port,) = free_ports(1)
    settings = settings_of(models, f"--port={port}", f"--grpc_socket_path={path}",
                           f"--allow_reload={','.join(allowed)}")
    with answering(settings) as (_, core):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for kind, address in (("loopback", f"127.0.0.1:{port}"), ("unix", f"unix:{path}")):
            with grpc.insecure_channel(address) as channel:
                if kind not in allowed:
                    with refused("PERMISSION_DENIED", "does not name this client"):
                        reload_through(channel, models / "n", "n")
                    continue
                for outside in (tmp_path / "elsewhere" / "x", models / "link", models / ".." / "x",
                                models.with_name("models-2") / "x"):
                    with refused("PERMISSION_DENIED", "not below --reload_roots"):
                        reload_through(channel, outside, "x")
                assert core.models() == ["m"]
                reload_through(channel, models / "n", "n")
                assert core.models() == ["n"]


def test_grpc_listens_once_models_are_there(tmp_path):
    add_version(tmp_path / "m")
    (port,) = free_ports(1)
    settings = settings_of(tmp_path, f"--port={port}")

    async def start(core):
        made = GrpcServer(core, settings)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        await made.start()
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
        with pytest.raises(BertTfError, match="is it in use"):
            GrpcServer(core, settings)
        await made.stop(0)

    with running(settings) as (run, core):
        run(start(core))


def test_a_model_is_looked_up_before_anything_is_decoded(tmp_path, monkeypatch):
    add_version(tmp_path / "m")
    (port,) = free_ports(1)
    asked = []

    async def decode(self, function, data, *_, **options):
        asked.append(len(data))
        raise ServingError("UNIMPLEMENTED", "decoded")

    monkeypatch.setattr(decoder.Decoder, "run", decode)
    large = "a" * (2 << 20)
    settings = settings_of(tmp_path, f"--port={port}")
    with running(settings) as (run, core), rest_of(core, run) as address:
        made = run(started(core, settings))
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
                for name, code in (("none", "NOT_FOUND"), ("m", "UNIMPLEMENTED")):
                    request = predict_pb2.PredictRequest(model_spec={"name": name})
                    request.inputs["x"].CopyFrom(tf.make_tensor_proto([large]))
                    with refused(code):
                        stub.Predict(request, timeout=PATIENCE)
                    assert len(asked) == (name == "m")
        finally:
            run(made.stop(0))
        asked.clear()
        for name, status in (("none", 404), ("m/versions/9", 404), ("m", 501)):
            found = httpx.post(f"{address}/v1/models/{name}:predict",
                               json={"instances": [large]}, timeout=PATIENCE)
            assert (found.status_code, len(asked)) == (status, name == "m")


# What clients are told.


@contextlib.contextmanager
def rest_of(core, run):
    """The address of a REST server in the core's loop."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = uvicorn.Server(uvicorn.Config(make_app(core), log_level="critical", lifespan="off"))
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


STACK = ("Graph execution error:\n\nDetected at node 'a/b' defined at (most recent call last):\n"
         f'  File "{PRIVATE}/code.py", line 3, in <module>\nNode: \'a/b\'\n')


@pytest.mark.parametrize("failure, code, told", [
    (ZeroDivisionError(f"by {PRIVATE}"), "INTERNAL", "log says why"),
    (tf.errors.InternalError(None, None, f"at {PRIVATE}"), "INTERNAL", "log says why"),
    (tf.errors.NotFoundError(None, None, f"{PRIVATE}; No such file"), "NOT_FOUND", "log says why"),
    (tf.errors.InvalidArgumentError(
        None, None, STACK + f"{{{{function_node __inference_f_1}}}} cannot convert string: x of "
        f"{PRIVATE}/vocab.txt\n\t [[{{{{node a/b}}}}]] [Op:__inference_f_2]"),
     "INVALID_ARGUMENT", "^cannot convert string: x of <path>$")])
def test_clients_see_no_stacks_no_paths_and_no_exceptions(
        tmp_path, monkeypatch, failure, code, told):
    def fails(x):
        raise failure

    monkeypatch.setattr(Loaded, "function", staticmethod(fails))
    add_version(tmp_path / "m")
    settings = settings_of(tmp_path, "--port=0", f"--grpc_socket_path={tmp_path / 'socket'}")

    with running(settings) as (run, core):
        made = run(started(core, settings))
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto([1]))
        with grpc.insecure_channel(f"unix:{tmp_path / 'socket'}") as channel, refused(code, told):
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(
                request, timeout=PATIENCE)
        run(made.stop(0))
        with rest_of(core, run) as address:
            answer = httpx.post(f"{address}/v1/models/m:predict", json={"inputs": [1]},
                                timeout=PATIENCE)
            said = json.loads(answer.content)["error"]
            assert answer.status_code in (400, 404, 500)
            assert PRIVATE not in said and "Error" not in said and "File" not in said
            assert (code != "INVALID_ARGUMENT") or said == "cannot convert string: x of <path>"


# Work that nobody waits for, and how much may wait.


@pytest.fixture(scope="module")
def endless():
    """A signature that counts: for hours, or up to a small number."""
    def count(x):
        done = tf.while_loop(lambda step: step < tf.reduce_max(x), lambda step: (step + 1,), (0,))
        return {"y": done[0] + tf.zeros_like(x)}

    function = tf.function(count).get_concrete_function(x=tf.TensorSpec([None], tf.int32, "x"))
    return Signature("s", _definition(), function)


FOREVER, SHORT = ({"x": np.array([number], np.int32)} for number in (2**31 - 1, 3))


def test_one_thread_s_call_is_cancelled_and_another_s_is_not(endless):
    """One after the other: TensorFlow may have one thread for the operations of all calls."""
    first, second = Cancellation(), Cancellation()
    ends = []

    def run(own):
        with pytest.raises(ServingError) as refused:
            endless.run(FOREVER, (), own)
        ends.append(refused.value.code)

    def started(own):
        thread = threading.Thread(target=run, args=[own])
        thread.start()
        return thread

    running = started(first)
    with second.around():  # of this thread alone
        first.cancel()
        running.join(PATIENCE)
    assert ends == ["CANCELLED"]
    assert endless.run(SHORT, ())["y"].tolist() == endless.run(SHORT, (), second)["y"].tolist()
    running = started(second)
    first.cancel()
    with first.around():
        running.join(0.1)
        assert running.is_alive()
        second.cancel()
        running.join(PATIENCE)
    assert ends == ["CANCELLED"] * 2
    assert endless.run(SHORT, (), Cancellation())["y"].tolist() == [3]


@pytest.mark.parametrize("batching", [(), ("--enable_batching",)])
def test_what_timed_out_makes_room_for_others(tmp_path, monkeypatch, endless, batching):
    """One thread runs requests: who asks next is answered as the first one's time is over."""
    monkeypatch.setattr(Loaded, "function", staticmethod(endless.function))
    monkeypatch.setattr(config, "_CPUS", 1)
    add_version(tmp_path / "m")
    settings = settings_of(tmp_path, "--grpc_max_threads=1", *batching)

    async def ask(core):
        loop = asyncio.get_running_loop()
        with pytest.raises(ServingError) as refused:
            await core.predict(Spec("m"), FOREVER, deadline=loop.time() + 0.2)
        _, outputs = await asyncio.wait_for(core.predict(Spec("m"), SHORT), PATIENCE)
        gone = asyncio.ensure_future(core.predict(Spec("m"), FOREVER))
        await asyncio.sleep(0.1)
        gone.cancel()  # the client
        await asyncio.wait_for(core.predict(Spec("m"), SHORT), PATIENCE)
        return refused.value.code, outputs["y"].tolist()

    with running(settings) as (run, core):
        assert run(ask(core)) == ("DEADLINE_EXCEEDED", [3])


def test_batches_that_wait_are_bounded_whatever_their_outputs(tmp_path, monkeypatch):
    goes, runs = threading.Event(), threading.Event()

    def hold(x):
        runs.set()
        assert goes.wait(PATIENCE)
        return {"y": x}

    monkeypatch.setattr(Loaded, "function", staticmethod(hold))
    monkeypatch.setattr(config, "_CPUS", 1)
    add_version(tmp_path / "m")
    batching = tmp_path / "batching.config"
    batching.write_text("max_batch_size { value: 2 } max_enqueued_batches { value: 2 } "
                        "num_batch_threads { value: 1 }")
    settings = settings_of(tmp_path, "--enable_batching", f"--batching_parameters_file={batching}")

    async def ask(core):
        def asked(rows, outputs=()):
            return asyncio.ensure_future(
                core.predict(Spec("m"), {"x": np.zeros(rows, np.int32)}, outputs))

        sent = [asked(1)]
        await asyncio.to_thread(runs.wait, PATIENCE)
        sent += [asked(2), asked(1, ("y",))]
        await asyncio.sleep(0)
        for outputs in ((), ("y",)):
            with pytest.raises(ServingError) as refused:
                await asked(2, outputs)
            assert refused.value.code == "UNAVAILABLE"
        sent.append(asked(1, ("y",)))  # into the batch that is open
        await asyncio.sleep(0)
        goes.set()
        return [outputs["y"].shape for _, outputs in await asyncio.gather(*sent)]

    with running(settings) as (run, core):
        assert run(ask(core)) == [(1,), (2,), (1,), (1,)]


def test_errors_of_tensorflow_are_told_in_one_line():
    problem = tf.errors.InvalidArgumentError(None, None, STACK + "wrong: a/b and/or 1/2")
    assert loaded_version._serving_error(problem).message == "wrong: a/b and/or 1/2"
