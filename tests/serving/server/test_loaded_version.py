"""A version in memory, and that nothing of it is kept once it is dropped."""

import gc
import weakref

import pytest
from server_harness import texts
from small_model import save_small
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from bert_tf.serving.server.loaded_version import LoadedVersion
from bert_tf.serving.server.warm_up import MAX_RECORDS, warm_up
from bert_tf.serving.wire.request import ServingError


def test_nothing_of_a_dropped_version_is_kept(tmp_path):
    path = str(save_small(tmp_path / "m", warm_up={"serving_default": {"text": ["a"]}}))

    def load_and_drop():
        version = LoadedVersion(path)
        assert warm_up(version) == 1
        kept = weakref.ref(version.signatures["serving_default"].function)
        version.close()
        gc.collect()
        assert kept() is None
        return set(ops.gradient_registry._registry), set(context.context().list_function_names())

    gradients, functions = load_and_drop()
    again = load_and_drop()
    assert again[0] == gradients
    assert len(again[1]) == len(functions)


def test_what_cannot_be_loaded_says_why(tmp_path):
    with pytest.raises(ServingError, match="saved_model.pb") as refused:
        LoadedVersion(str(tmp_path))
    assert refused.value.code == "NOT_FOUND"
    path = save_small(tmp_path / "m")
    with pytest.raises(ServingError, match="tags other"):
        LoadedVersion(str(path), ("other",))
    data = path / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ServingError):
        LoadedVersion(str(path))


def test_warm_up_files(tmp_path):
    version = LoadedVersion(str(save_small(tmp_path / "m", warm_up={"number": {"text": ["1"]}})))
    assert warm_up(version, iterations=2) == 1
    file = tmp_path / "m" / "1" / "assets.extra" / "tf_serving_warmup_requests"
    record = file.read_bytes()
    file.write_bytes(record * MAX_RECORDS)
    assert warm_up(version) == MAX_RECORDS
    file.write_bytes(record * (MAX_RECORDS + 1))
    with pytest.raises(ServingError, match="1000 warm-up records"):
        warm_up(version)
    file.write_bytes(record[:-1])
    with pytest.raises(ServingError, match="TFRecord"):
        warm_up(version)


def test_outputs_are_those_asked_for(tmp_path):
    signature = LoadedVersion(str(save_small(tmp_path / "m"))).signatures["serving_default"]
    inputs = {"text": texts("a", "bc")}
    signature.checked(inputs, ("length",))
    assert signature.run(inputs, ("length",))["length"].tolist() == [1, 2]
    assert set(signature.run(inputs)) == {"batch", "length", "score", "text"}
