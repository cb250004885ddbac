"""What clients are told, and before what."""

import json

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from fake_models import PRIVATE, Loaded, add_version, rest_of, running, settings_of, started
from server_harness import PATIENCE, free_ports, predict_request, refused
from tensorflow_serving.apis import prediction_service_pb2_grpc

from bert_tf.serving.server import codec
from bert_tf.serving.server.signature import serving_error
from bert_tf.serving.wire.request import ServingError, Spec

pytestmark = pytest.mark.usefixtures("fake_versions")


def test_a_model_is_looked_up_before_anything_is_decoded(tmp_path, monkeypatch):
    add_version(tmp_path / "m")
    (port,) = free_ports(1)
    asked = []

    async def decode(self, function, data, *_, **options):
        asked.append(len(data))
        raise ServingError("UNIMPLEMENTED", "decoded")

    monkeypatch.setattr(codec.Decoder, "run", decode)
    large = "a" * (2 << 20)
    settings = settings_of(tmp_path, f"--port={port}")
    with running(settings) as (run, core), rest_of(core, run) as address:
        made = run(started(core, settings))
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
                for name, code in (("none", "NOT_FOUND"), ("m", "UNIMPLEMENTED")):
                    with refused(code):
                        stub.Predict(predict_request(name, x=[large]), timeout=PATIENCE)
                    assert len(asked) == (name == "m")
        finally:
            run(made.stop(0))
        asked.clear()
        for name, status in (("none", 404), ("m/versions/9", 404), ("m", 501)):
            found = httpx.post(f"{address}/v1/models/{name}:predict",
                               json={"instances": [large]}, timeout=PATIENCE)
            assert (found.status_code, len(asked)) == (status, name == "m")


@pytest.mark.parametrize("flags, method, code", [
    ((), "other", None), (("--enable_signature_method_name_check",), "other", "INTERNAL"),
    *((("--enable_signature_method_name_check",), f"tensorflow/serving/{name}", None)
      for name in ("predict", "classify", "regress"))])
def test_predict_asks_for_names_of_methods_where_that_is_configured(
        tmp_path, flags, method, code):
    add_version(tmp_path / "m")
    with running(settings_of(tmp_path, *flags)) as (run, core):
        signature = core._models.find(Spec("m")).loaded.signatures["serving_default"]
        signature.definition.method_name = method
        try:
            _, outputs = run(core.predict(Spec("m"), {"x": np.int32([2])}))
        except ServingError as problem:
            assert problem.code == code and method in problem.message
        else:
            assert code is None and outputs["y"].tolist() == [4]


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
        with grpc.insecure_channel(f"unix:{tmp_path / 'socket'}") as channel, refused(code, told):
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(
                predict_request("m", x=[1]), timeout=PATIENCE)
        run(made.stop(0))
        with rest_of(core, run) as address:
            answer = httpx.post(f"{address}/v1/models/m:predict", json={"inputs": [1]},
                                timeout=PATIENCE)
            said = json.loads(answer.content)["error"]
            assert answer.status_code in (400, 404, 500)
            assert PRIVATE not in said and "Error" not in said and "File" not in said
            assert (code != "INVALID_ARGUMENT") or said == "cannot convert string: x of <path>"


def test_errors_of_tensorflow_are_told_in_one_line():
    problem = tf.errors.InvalidArgumentError(None, None, STACK + "wrong: a/b and/or 1/2")
    assert serving_error(problem).message == "wrong: a/b and/or 1/2"


def test_errors_that_repeat_long_texts_are_told_at_once():
    """Patterns that are sought in all of the text take hours of it."""
    for part in (" ", "[[", "{{node ", "/a", "\nNode: "):
        for stack in (STACK, ""):
            problem = tf.errors.InvalidArgumentError(
                None, None, f"{stack}wrong: {part * 1_000_000} [Op:x]")
            assert serving_error(problem).message.startswith("wrong:")
