"""SavedModels of TensorFlow 1, as in TensorFlow Serving's tutorial and tests."""

import gc
import weakref

import httpx
import numpy as np
import pytest
import tensorflow as tf
from server_harness import PATIENCE
from small_server import VERSION, serving
from tf1_models import save_counter, save_half_plus

from bert_tf.serving.server import inference
from bert_tf.serving.server.loaded_version import LoadedVersion
from bert_tf.serving.wire.request import ServingError


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = tmp_path_factory.mktemp("half_plus_two")
    save_half_plus(folder / str(VERSION))
    with serving(folder, "half") as served, httpx.Client(
            base_url=served.address, timeout=PATIENCE) as client:
        yield client


@pytest.mark.parametrize("which", ["half", f"half/versions/{VERSION}", "half/labels/stable"])
@pytest.mark.parametrize("method, body, answer", [
    # The signature says [batch, 1]; the graph takes any shape.
    ("predict", {"instances": [1.0, 2.0, 5.0]}, {"predictions": [2.5, 3.0, 4.5]}),
    ("predict", {"instances": [[1.0, 2.0], [3, 4]]}, {"predictions": [[2.5, 3.0], [3.5, 4.0]]}),
    ("predict", {"signature_name": "serving_default", "inputs": [3.0, 4.0]},
     {"outputs": [3.5, 4.0]}),
    ("predict", {"inputs": {"x": 3.0}}, {"outputs": 3.5}),
    ("predict", {"signature_name": "word", "instances": [1, 0, 7]},
     {"predictions": ["yes", "no", ""]}),
    ("regress", {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}]},
     {"results": [42.0]}),
    ("classify", {"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}, {"x": [10.0]}]},
     {"results": [[["", 12.0]], [["", 7.0]]]})])
def test_answers(http, which, method, body, answer):
    found = http.post(f"/v1/models/{which}:{method}", json=body)
    assert (found.status_code, found.json()) == (200, answer)


@pytest.mark.parametrize("method, body, named", [
    ("predict", {"instances": ["x", "y"]}, "'x'"),
    ("predict", {"signature_name": "none", "instances": [1]}, "none"),
    ("predict", {"signature_name": "word", "instances": [1.5]}, "1.5"),
    ("regress", {"signature_name": "regress_x_to_y", "examples": [{"x": "a"}]}, "x"),
    ("regress", {"signature_name": "regress_x_to_y", "examples": [{}]}, "x"),
    ("regress", {"signature_name": "regress_x2", "examples": [{"x": 80.0}]}, "string"),
    ("classify", {"examples": [{"x": 20.0}]}, "serving_default"),
    ("classify", {"signature_name": "regress_x_to_y", "examples": [{"x": 20.0}]}, "outputs")])
def test_refusals(http, method, body, named):
    found = http.post(f"/v1/models/half:{method}", json=body)
    assert found.status_code == 400 and named in found.json()["error"], found.text


def test_metadata(http):
    metadata = http.get("/v1/models/half/metadata").json()["metadata"]
    signatures = metadata["signature_def"]["signature_def"]
    assert {name for name in signatures if not name.startswith("__")} == {
        "serving_default", "word", "regress_x_to_y", "regress_x2", "classify_x_to_y"}
    x = signatures["serving_default"]["inputs"]["x"]
    assert (x["name"], x["dtype"], [dim["size"] for dim in x["tensor_shape"]["dim"]]) == (
        "x:0", "DT_FLOAT", ["-1", "1"])


def test_a_legacy_init_op_runs(tmp_path):
    save_half_plus(tmp_path / "1", 3.0, legacy=True)
    version = LoadedVersion(str(tmp_path / "1"))
    assert version.signatures["serving_default"].run({"x": np.float32([2, 4])})["y"].tolist() == [
        4.0, 5.0]
    assert version.signatures["word"].run({"number": np.int64([1])})["word"].tolist() == [b"yes"]
    signature = inference.METHODS["regress"].signature(version, "regress_x_to_y")
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(80)
    examples = [example.SerializeToString()] * 2
    outputs = signature.run(inference.METHODS["regress"].inputs(signature, examples))
    assert inference.METHODS["regress"].answer(signature, 2, outputs) == [43.0, 43.0]


def test_state_stays_between_requests_and_goes_with_the_version(tmp_path):
    save_counter(tmp_path / "1")

    def run(version, name, **inputs):
        signature = version.signatures[name]
        signature.checked(inputs)
        return signature.run(inputs)["output"].item()

    version = LoadedVersion(str(tmp_path / "1"))
    assert [run(version, "get_counter"), run(version, "incr_counter"),
            run(version, "incr_counter_by", delta=np.float32(3)), run(version, "incr_counter"),
            run(version, "get_counter"), run(version, "reset_counter"),
            run(version, "incr_counter")] == [0, 1, 4, 5, 5, 0, 1]
    with pytest.raises(ServingError) as refused:
        run(version, "incr_counter_by", delta=np.float32([1, 2]))  # the graph's to judge
    assert refused.value.code == "INVALID_ARGUMENT"
    kept = weakref.ref(version.signatures["get_counter"].function)
    version.close()
    gc.collect()
    assert kept() is None
    assert run(LoadedVersion(str(tmp_path / "1")), "get_counter") == 0
