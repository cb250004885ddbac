"""Preset folders of keras-hub that are damaged or hostile: one clear line, nothing imported."""

import json
import shutil

import h5py
import keras_nlp
import numpy as np
import pytest

from bert_tf.converters import keras_hub
from bert_tf.errors import BertTfError, UsageError


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset as the library writes it."""
    path = tmp_path_factory.mktemp("presets") / "bert"
    keras_nlp.models.BertBackbone(50, 4, 2, 16, 32, max_sequence_length=12).save_to_preset(
        str(path))
    return path


@pytest.fixture
def folder(preset, tmp_path):
    """A copy of it to be damaged."""
    return shutil.copytree(preset, tmp_path / "bert")


@pytest.mark.parametrize(("changes", "message"), [
    ({"class_name": "Popen", "module": "subprocess", "registered_name": None}, "Popen"),
    ({"class_name": "Lambda", "module": "keras.layers", "registered_name": "Lambda"}, "Lambda"),
    ({"registered_name": "keras_hub>GemmaBackbone"}, "GemmaBackbone"),
    ({"class_name": "GPTNeoXBackbone", "registered_name": "keras_hub>GPTNeoXBackbone"}, "GPTNeoX"),
    ({"class_name": "GPT2Backbone", "registered_name": "keras_hub>GPT2Backbone"},
     "num_segments is unknown"),
    ({"class_name": ["BertBackbone"]}, "class_name="),
    ({"config": None}, "config=None"),
])
def test_no_class_is_taken_from_a_file(folder, changes, message):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(UsageError, match=message):
        keras_hub.read(str(folder))


def test_the_module_in_a_file_is_never_imported(folder):
    (folder / "hostile.py").write_text("raise SystemExit('imported')")
    path = folder / "config.json"
    values = json.loads(path.read_text())
    values["module"] = "hostile"
    values["config"]["dtype"] = {"module": "hostile", "class_name": "X", "config": {}}
    path.write_text(json.dumps(values))
    assert keras_hub.read(str(folder)).config.family == "bert"


@pytest.mark.parametrize(("changes", "message"), [
    ({"hidden_dim": 24}, r"does not fit.*- .*\(50, 24\)"),
    ({"num_layers": 5}, "- transformer_layer_0/.*query/kernel"),
    ({"num_layers": 3}, r"\+ layers/transformer_encoder"),
    ({"vocabulary_size": 10**12}, r"- token_embedding/embeddings \(1000000000000, 16\)"),
    ({"num_layers": 10**9}, "num_hidden_layers=1000000000"),
    ({"hidden_dim": "16"}, "hidden_size='16'"),
    ({"max_sequence_length": None}, "max_sequence_length=None"),
    ({"num_heads": 3}, "num_attention_heads=3"),
    ({"layers": []}, "layers is unknown"),
    ({"dtype": {"class_name": "DTypePolicyMap", "config": {"policy_map": {
        "a": {"class_name": "QuantizedDTypePolicy"}}}}}, "quantised"),
])
def test_configurations_that_do_not_fit(folder, changes, message):
    path = folder / "config.json"
    values = json.loads(path.read_text())
    values["config"].update(changes)
    path.write_text(json.dumps(values))
    with pytest.raises(UsageError, match=message) as error:
        keras_hub.read(str(folder))
    assert "\n" not in str(error.value)


def test_repetitions_inside_a_group_are_refused(tmp_path):
    keras_nlp.models.AlbertBackbone(
        50, 2, 2, 8, 16, 32, num_inner_repetitions=2,
        max_sequence_length=12).save_to_preset(str(tmp_path))
    with pytest.raises(UsageError, match="num_inner_repetitions=2; expected 1"):
        keras_hub.read(str(tmp_path))


def external_link(file):
    del file["layers/dense"]
    file["layers/dense"] = h5py.ExternalLink("/etc/passwd", "/")


def soft_link(file):
    del file["layers/dense"]
    file["layers/dense"] = h5py.SoftLink("/layers/embedding")


def virtual(file):
    layout = h5py.VirtualLayout((50, 16), "float32")
    layout[:] = h5py.VirtualSource("other.h5", "data", (50, 16))
    del file["layers/reversible_embedding/vars/0"]
    file.create_virtual_dataset("layers/reversible_embedding/vars/0", layout)


def external_storage(file):
    del file["layers/dense/vars/1"]
    file.create_dataset("layers/dense/vars/1", (16,), "float32", external="/etc/hostname")


def claims_terabytes(file):
    file.create_dataset("layers/dense/vars/2", (1 << 20, 1 << 20), "float32", chunks=(1024, 1024),
                        compression="gzip")


def packed(file):
    file.create_dataset("layers/dense/vars/2", data=np.zeros(10**7, np.float32),
                        compression="gzip")


def text(file):
    file["layers/dense/vars/2"] = "text"


def missing(file):
    del file["layers/dense/vars/1"]


def extra(file):
    file["layers/dense/vars/2"] = np.zeros(3, np.float32)


def wrong_shape(file):
    del file["layers/dense/vars/0"]
    file["layers/dense/vars/0"] = np.zeros((16, 17), np.float32)


def misplaced(file):
    file.move("layers/dense", "layers/sparse")


def not_finite(file):
    file["layers/dense/vars/0"][3, 4] = np.nan


@pytest.mark.parametrize(("damage", "message"), [
    (external_link, "dense is a link to elsewhere"),
    (soft_link, "dense is a link to elsewhere"),
    (virtual, "reversible_embedding/vars/0 takes its values from other files"),
    (external_storage, "dense/vars/1 takes its values from other files"),
    (claims_terabytes, "claims arrays of 4398.* bytes; expected at most its own size"),
    (packed, "claims arrays of 40.* bytes; expected at most its own size"),
    (text, "dense/vars/2 is of type object"),
    (missing, r"- .*/bias \(16,\)"),
    (extra, r"\+ layers/dense/vars/2 \(3,\)"),
    (wrong_shape, r"- .*\(16, 16\).*\+ layers/dense/vars/0 \(16, 17\)"),
    (misplaced, "does not fit"),
    (not_finite, "pooled_dense/kernel holds NaN"),
])
def test_damaged_weights_are_refused(folder, damage, message):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        damage(file)
    with pytest.raises(BertTfError, match=message) as error:
        checkpoint = keras_hub.read(str(folder))
        dict(checkpoint.tensors)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kept", [0, 3, 100, 5000, 60000])
def test_truncated_weights_are_refused(folder, kept):
    path = folder / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BertTfError, match="model.weights.h5"):
        keras_hub.read(str(folder))


def test_missing_files_are_named(folder, tmp_path_factory):
    (folder / "model.weights.h5").rename(folder / "model_00000.weights.h5")
    with pytest.raises(BertTfError, match=r"cannot read .*model.weights.h5: no such file"):
        keras_hub.read(str(folder))
    (folder / "model.weights.json").write_text("{}")
    with pytest.raises(BertTfError, match="several files.*max_shard_size=None"):
        keras_hub.read(str(folder))
    with pytest.raises(BertTfError, match=r"config.json: no such file"):
        keras_hub.read(str(tmp_path_factory.mktemp("empty")))
