"""What `serving/` commits: a config that the server's own protos parse, examples that fit."""

import json
import pathlib
import re

import pytest
from google.protobuf import text_format

from bert_tf.saved_model.signatures import BY_IDS, BY_TEXT

SIGNATURES = {**BY_IDS, **BY_TEXT}
SERVING = pathlib.Path(__file__).parents[2] / "serving"


def test_models_config():
    protos = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2",
                                 reason="the extra [serving] is not installed")
    text = (SERVING / "models.config").read_text()
    config = text_format.Parse(text, protos.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("bert_tiny", "/models/bert_tiny")
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 1


def test_the_examples_call_every_signature_with_its_inputs():
    text = (SERVING / "README.md").read_text()
    requests = [json.loads(body) for body in re.findall(r"-d '(.*)'", text)]
    called = {request.get("signature_name", "serving_default"): request for request in requests}
    assert set(called) == set(SIGNATURES)
    for name, request in called.items():
        inputs = set(SIGNATURES[name].inputs)
        first = request["inputs"] if "inputs" in request else request["instances"][0]
        assert (set(first) if isinstance(first, dict) else inputs) == inputs
        row = re.search(rf"\| `{name}` \| .*? \| (.*?) \|", text).group(1)
        assert set(re.findall(r"`(\w+)`", row)) == inputs
