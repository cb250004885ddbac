"""Which signatures Classify and Regress take, and what may come out of them."""

from types import SimpleNamespace

import numpy as np
import pytest
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.serving.server.inference import METHODS
from bert_tf.serving.wire.request import ServingError

TEXTS = np.array([[b"a", b"b"], [b"c", b"d"]], object)
SCORES = np.float32([[0.25, 0.75], [1, 0]])


def _version(inputs, outputs, method=""):
    definition = meta_graph_pb2.SignatureDef(method_name=method)
    for name in inputs:
        definition.inputs[name].dtype = 7
    for name in outputs:
        definition.outputs[name].dtype = 1
    return SimpleNamespace(signatures={"s": SimpleNamespace(definition=definition)})


@pytest.mark.parametrize("kind, inputs, outputs", [
    ("classify", ["inputs"], ["scores"]), ("classify", ["inputs"], ["classes"]),
    ("classify", ["inputs"], ["classes", "scores"]), ("regress", ["inputs"], ["outputs"])])
def test_signatures(kind, inputs, outputs):
    name = METHODS[kind].name
    for method, check in (("", False), ("tensorflow/serving/predict", False), (name, True)):
        version = _version(inputs, outputs, method)
        assert METHODS[kind].signature(version, "s", check) is version.signatures["s"]
    with pytest.raises(ServingError, match=f"'tensorflow/serving/predict'; expected {name}") as no:
        METHODS[kind].signature(_version(inputs, outputs, "tensorflow/serving/predict"), "s", True)
    assert no.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("kind, inputs, outputs", [
    ("classify", [], ["scores"]), ("classify", ["inputs", "more"], ["scores"]),
    ("classify", ["text"], ["scores"]), ("classify", ["inputs"], []),
    ("classify", ["inputs"], ["outputs"]), ("classify", ["inputs"], ["a", "classes", "scores"]),
    ("regress", [], ["outputs"]), ("regress", ["inputs", "more"], ["outputs"]),
    ("regress", ["text"], ["outputs"]), ("regress", ["inputs"], []),
    ("regress", ["inputs"], ["scores"]), ("regress", ["inputs"], ["outputs", "scores"])])
def test_signatures_for_something_else(kind, inputs, outputs):
    with pytest.raises(ServingError, match=f"s is not for {kind}") as refused:
        METHODS[kind].signature(_version(inputs, outputs), "s")
    assert refused.value.code == "INVALID_ARGUMENT"
    for name in ("none", ""):
        with pytest.raises(ServingError, match=name or "serving_default") as refused:
            METHODS[kind].signature(_version(inputs, outputs), name)
        assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("outputs, answer", [
    ({"classes": TEXTS, "scores": SCORES},
     [[("a", 0.25), ("b", 0.75)], [("c", 1.0), ("d", 0.0)]]),
    ({"classes": TEXTS}, [[("a", 0.0), ("b", 0.0)], [("c", 0.0), ("d", 0.0)]]),
    ({"scores": SCORES}, [[("", 0.25), ("", 0.75)], [("", 1.0), ("", 0.0)]])])
def test_classifications(outputs, answer):
    assert METHODS["classify"].answer(None, 2, outputs) == answer


@pytest.mark.parametrize("outputs", [np.float32([1, 2]), np.float32([[1], [2]])])
def test_regressions(outputs):
    assert METHODS["regress"].answer(None, 2, {"outputs": outputs}) == [1.0, 2.0]


@pytest.mark.parametrize("kind, outputs", [
    ("classify", {"classes": TEXTS[0]}), ("classify", {"scores": SCORES[0]}),
    ("classify", {"scores": SCORES[:, :, np.newaxis]}), ("classify", {"classes": SCORES}),
    ("classify", {"scores": TEXTS}), ("classify", {"scores": SCORES.astype(np.float64)}),
    ("classify", {"classes": TEXTS[:1]}), ("classify", {"scores": SCORES[:1]}),
    ("classify", {"classes": TEXTS, "scores": SCORES[:, :1]}),
    ("regress", {"outputs": np.float32(1)}), ("regress", {"outputs": SCORES}),
    ("regress", {"outputs": np.float32([1, 2, 3])}), ("regress", {"outputs": np.float64([1, 2])}),
    ("regress", {"outputs": np.float32([[[1]], [[2]]])})])
def test_what_a_signature_may_not_give(kind, outputs):
    with pytest.raises(ServingError, match="output (classes|scores|outputs) is") as refused:
        METHODS[kind].answer(None, 2, outputs)
    assert refused.value.code == "INVALID_ARGUMENT"


def test_no_examples():
    for method in METHODS.values():
        with pytest.raises(ServingError, match="examples") as refused:
            method.inputs(None, [])
        assert refused.value.code == "INVALID_ARGUMENT"
