"""PredictionService and the health service over the wire: answers, and refusals."""

import gzip
import socket

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2
from server_harness import BINARY, PATIENCE, arrays, refused, texts
from small_model import LABELS
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)


def _example(text):
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
    return tf.train.Example(features=tf.train.Features(feature={"text": feature}))


def _input(request, *texts):
    request.model_spec.name = "plain"
    request.input.example_list.examples.extend(map(_example, texts))
    return request


@pytest.mark.parametrize("model", ["plain", "merging"])
def test_predict_answers_in_the_request_s_order(server, model):
    response = server.predict(model, text=["a", "", "네 🙂"])
    assert response.model_spec.name == model
    assert response.model_spec.version.value == 1
    assert response.model_spec.signature_name == "serving_default"
    outputs = arrays(response)
    assert set(outputs) == {"score", "length", "batch", "text"}
    np.testing.assert_array_equal(outputs["length"], [1, 0, 8])
    np.testing.assert_array_equal(outputs["text"], texts("A", "", "네 🙂"))
    assert outputs["score"].dtype == np.float32 and outputs["length"].dtype == np.int32


def test_predict_gives_the_outputs_that_are_asked_for(server):
    response = server.predict("plain", outputs=["length"], text=["abc"])
    assert set(arrays(response)) == {"length"}
    # Clients read typed fields as well.
    assert list(response.outputs["length"].int_val) == [3]
    response = server.predict("plain", outputs=["score"], text=["abc"])
    assert list(response.outputs["score"].float_val) == [3.0]


def test_predict_reads_every_form_of_a_tensor(server):
    ids = np.arange(6, dtype=np.int32).reshape(2, 3)
    content = tf.make_tensor_proto(ids)
    assert content.tensor_content
    values = tensor_pb2.TensorProto(dtype=tf.int32.as_datatype_enum, int_val=ids.ravel())
    values.tensor_shape.dim.add(size=2)
    values.tensor_shape.dim.add(size=3)
    for proto in (content, values):
        outputs = arrays(server.predict("plain", "ids", ids=proto))
        np.testing.assert_array_equal(outputs["sum"], [3, 12])


def test_what_predict_refuses(server):
    with refused("NOT_FOUND", "none"):
        server.predict("none", text=["a"])
    with refused("NOT_FOUND", "plain, 7"):
        server.predict("plain", version=7, text=["a"])
    with refused("INVALID_ARGUMENT", "name"):
        server.predict("", text=["a"])
    with refused("INVALID_ARGUMENT", "label:? .?none"):
        server.predict("plain", label="none", text=["a"])
    with refused("FAILED_PRECONDITION", 'none'):
        server.predict("plain", "none", text=["a"])
    with refused("INVALID_ARGUMENT", "text"):
        server.predict("plain")
    with refused("INVALID_ARGUMENT", "more"):
        server.predict("plain", text=["a"], more=["a"])
    with refused("INVALID_ARGUMENT", "text"):
        server.predict("plain", other=["a"])
    with refused("INVALID_ARGUMENT", "string.*int32|int32.*string"):
        server.predict("plain", text=[1])
    with refused("INVALID_ARGUMENT"):
        server.predict("merging", text="no batch axis")
    with refused("INVALID_ARGUMENT"):
        server.predict("plain", "ids", ids=[1, 2])
    with refused("INVALID_ARGUMENT", "output.*none.*score"):
        server.predict("plain", outputs=["none"], text=["a"])
    with refused("INVALID_ARGUMENT", "score"):
        server.predict("plain", outputs=["score", "score"], text=["a"])
    with refused("INVALID_ARGUMENT", "could not correctly convert string: x"):
        server.predict("plain", "number", text=["x"])
    short = tensor_pb2.TensorProto(dtype=tf.int32.as_datatype_enum, tensor_content=b"123")
    short.tensor_shape.dim.add(size=1)
    with refused("INVALID_ARGUMENT", "ids"):
        server.predict("plain", "ids", ids=short)
    # The server is as well as before.
    assert arrays(server.predict("plain", text=["abc"]))["length"] == [3]


def test_bytes_that_are_no_text_are_the_model_s_affair(server):
    outputs = arrays(server.predict("plain", text=[b"\xff\xfe"]))
    assert outputs["length"] == [2]


def test_an_empty_batch_is_answered_or_refused(server):
    empty = tf.make_tensor_proto([], tf.string)
    assert arrays(server.predict("plain", text=empty))["length"].shape == (0,)


def test_a_megabyte_of_text_is_answered(server):
    assert arrays(server.predict("plain", outputs=["length"], text=["x" * 10**6]))["length"] == [
        10**6]


def test_classify_regress_and_both(server):
    request = _input(classification_pb2.ClassificationRequest(), "abc", "")
    request.model_spec.signature_name = "classify"
    response = server.predictions.Classify(request, timeout=PATIENCE)
    rows = [{one.label: one.score for one in row.classes}
            for row in response.result.classifications]
    assert rows == [{"no": 0.25, "네": 0.75}, {"no": 1, "네": 0}]
    assert response.model_spec.version.value == 1

    request = _input(regression_pb2.RegressionRequest(), "abc", "")
    request.model_spec.signature_name = "regress"
    response = server.predictions.Regress(request, timeout=PATIENCE)
    assert [one.value for one in response.result.regressions] == [3, 0]

    # The context comes before every example.
    request = regression_pb2.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "plain", "regress"
    examples = request.input.example_list_with_context
    examples.context.CopyFrom(_example("ab"))
    examples.examples.add()
    response = server.predictions.Regress(request, timeout=PATIENCE)
    assert [one.value for one in response.result.regressions] == [2]

    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.append(_example("abc"))
    for method in ("classify", "regress"):
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = "plain", method
    first, second = server.predictions.MultiInference(request, timeout=PATIENCE).results
    assert [one.label for one in first.classification_result.classifications[0].classes] == LABELS
    assert [one.value for one in second.regression_result.regressions] == [3]
    assert second.model_spec.signature_name == "regress"


def test_what_classify_and_regress_refuse(server):
    request = _input(classification_pb2.ClassificationRequest())
    request.model_spec.signature_name = "classify"
    with refused("INVALID_ARGUMENT", "examples|empty"):
        server.predictions.Classify(request, timeout=PATIENCE)
    request = _input(classification_pb2.ClassificationRequest(), "a")
    for name, pattern in (("none", "none"), ("ids", "found 3|classify"), ("regress", "")):
        request.model_spec.signature_name = name
        with refused("INVALID_ARGUMENT", pattern):
            server.predictions.Classify(request, timeout=PATIENCE)
    for example in (b"abc", b"\xff\xfe"):  # whether or not the bytes are text
        with refused("INVALID_ARGUMENT", "^Could not parse example input, value: '[^']{2,3}'$"):
            server.predict("plain", "regress", inputs=[example])


@pytest.mark.parametrize("code, tasks", [
    ("INVALID_ARGUMENT", []), ("INVALID_ARGUMENT", [("", "classify", "classify")]),
    ("NOT_FOUND", [("none", "classify", "classify")]),
    ("INVALID_ARGUMENT", [("plain", "classify", "none")]),
    ("INVALID_ARGUMENT", [("plain", "classify", "regress")]),
    ("INVALID_ARGUMENT", [("plain", "classify", "classify"), ("merging", "regress", "regress")]),
    ("INVALID_ARGUMENT", [("plain", "classify", "classify")] * 2),
    ("UNIMPLEMENTED", [("plain", "predict", "classify")])])
def test_what_several_at_once_are_refused_for(server, code, tasks):
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.append(_example("abc"))
    for name, method, signature in tasks:
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = name, signature
    with refused(code):
        server.predictions.MultiInference(request, timeout=PATIENCE)


def test_metadata_are_the_signatures(server):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "plain"
    response = server.predictions.GetModelMetadata(request, timeout=PATIENCE)
    assert response.model_spec.version.value == 1
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    definition = signatures.signature_def["ids"]
    assert definition.inputs["ids"].dtype == tf.int32.as_datatype_enum
    assert [dim.size for dim in definition.inputs["ids"].tensor_shape.dim] == [-1, -1]
    assert set(definition.outputs) == {"sum", "ids", "batch"}

    request.ClearField("metadata_field")
    with refused("INVALID_ARGUMENT", "metadata_field"):
        server.predictions.GetModelMetadata(request, timeout=PATIENCE)
    request.metadata_field.append("none")
    with refused("INVALID_ARGUMENT", "(?i)metadata.field"):
        server.predictions.GetModelMetadata(request, timeout=PATIENCE)


def test_status_and_health(server):
    assert server.status("plain") == {1: ("AVAILABLE", 0, "")}
    assert server.status("plain", 1) == {1: ("AVAILABLE", 0, "")}
    with refused("NOT_FOUND", "plain"):
        server.status("plain", 7)
    with refused("NOT_FOUND", "none"):
        server.status("none")
    with refused("INVALID_ARGUMENT", "(?i)model_?spec"):
        server.models.GetModelStatus(get_model_status_pb2.GetModelStatusRequest())
    for service in ("", "PredictionService", "ModelService"):
        request = health_pb2.HealthCheckRequest(service=service)
        response = server.health.Check(request, timeout=PATIENCE)
        assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_names_and_labels_that_are_empty(server):
    with refused("INVALID_ARGUMENT", "label"):  # which is given, and that of no version
        server.predict("plain", label="", text=["a"])
    for request, call in (
            (predict_pb2.PredictRequest(), server.predictions.Predict),
            (_input(regression_pb2.RegressionRequest(), "a"), server.predictions.Regress),
            (_input(classification_pb2.ClassificationRequest(), "a"),
             server.predictions.Classify),
            (get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"]),
             server.predictions.GetModelMetadata)):
        for has_spec in (False, True):
            request.ClearField("model_spec")
            if has_spec:
                request.model_spec.signature_name = "s"
            with refused("INVALID_ARGUMENT", "(?i)name|model_?spec"):
                call(request, timeout=PATIENCE)
    with refused("NOT_FOUND", "versions"):
        server.status("")
    with refused("NOT_FOUND", "version 1"):
        server.status("", 1)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "plain"
    for label in ("", "none"):  # status is that of all versions then
        request.model_spec.version_label = label
        response = server.models.GetModelStatus(request, timeout=PATIENCE)
        assert [one.version for one in response.model_version_status] == [1]


def test_only_a_list_of_models_can_be_loaded(server):
    with refused("INVALID_ARGUMENT", "(?i)model_?config_?list"):
        server.models.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest())


@pytest.mark.skipif(BINARY is not None, reason="the binary listens everywhere")
def test_nobody_listens_beyond_loopback(server):
    for port in (server.port, server.rest_port):
        for address, taken in (("127.0.0.1", True), ("127.0.0.2", False)):
            with socket.socket() as probe:
                assert (probe.connect_ex((address, port)) == 0) == taken


@pytest.mark.skipif(BINARY is not None, reason="the binary has no such bounds")
def test_what_a_request_may_hold(server):
    with refused("INVALID_ARGUMENT", "a request of 5000 rows; expected at most 4096"):
        server.predict("plain", text=["a"] * 5000)
    with refused("INVALID_ARGUMENT", "holds a text of 1048577 bytes; expected at most 1048576"):
        server.predict("plain", text=["a" * (2**20 + 1)])
    for letter in "x🙂":  # what is said of it is cut
        with refused("INVALID_ARGUMENT", f"could not correctly convert string: {letter * 99}"):
            server.predict("plain", "number", text=[letter * 250_000])
    call = server.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    bomb = server.request("plain", text=["a" * (65 << 20)]).SerializeToString()
    assert len(gzip.compress(bomb, 1)) < 1 << 20
    with refused("RESOURCE_EXHAUSTED", "larger than max"):
        call(bomb, compression=grpc.Compression.Gzip, timeout=PATIENCE)
    with refused("RESOURCE_EXHAUSTED", "metadata"):
        call(b"", metadata=[("x", "a" * 50_000)], timeout=PATIENCE)
    assert arrays(server.predict("plain", text=["abc"]))["length"] == [3]
