"""GPT's classifier as transformers has it: a linear map, without a bias, of the last real token."""

import hf_models
import numpy as np
import pytest
from test_families import batch
from test_stack import tiny

from bert_tf.converters import hf_safetensors, ours
from bert_tf.errors import UsageError
from bert_tf.storage import files
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.pretrained import from_pretrained


def test_the_formula_and_the_way_there_and_back(tmp_path):
    model = Classifier(tiny("gpt", initializer_range=0.2, intermediate_size=64),
                       labels=["a", "b", "c"], seed=1)
    inputs = batch()
    states = model.encoder(inputs)["sequence_output"].numpy()
    last = states[np.arange(len(states)), inputs["input_mask"].sum(1) - 1]
    weights = model.head.output_weights.numpy()
    np.testing.assert_allclose(model(inputs), last @ weights.T, rtol=1e-5, atol=1e-6)
    model.save_pretrained(str(tmp_path / "ours"))
    hf_safetensors.write(ours.read(str(tmp_path / "ours")), str(tmp_path / "hf"))
    config = files.read_json(str(tmp_path / "hf" / "config.json"))
    assert config["architectures"] == ["OpenAIGPTForSequenceClassification"]
    assert config["id2label"] == {"0": "a", "1": "b", "2": "c"}
    np.testing.assert_array_equal(hf_models.tensors(tmp_path / "hf")["score.weight"], weights)
    ours.write(hf_safetensors.read(str(tmp_path / "hf")), str(tmp_path / "again"))
    again = from_pretrained(str(tmp_path / "again"))
    assert again.labels == ["a", "b", "c"]
    np.testing.assert_array_equal(again(inputs), model(inputs))


def test_a_bias_has_no_place_there(tmp_path):
    """As classifiers of earlier versions have."""
    model = Classifier(tiny("gpt", label_head="linear", intermediate_size=64), labels=["a", "b"],
                       seed=1)
    model.save_pretrained(str(tmp_path / "ours"))
    with pytest.raises(UsageError, match="label_head='linear' cannot be written to the config"):
        hf_safetensors.write(ours.read(str(tmp_path / "ours")), str(tmp_path / "hf"))
