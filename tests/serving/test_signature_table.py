"""The signatures that `serving/README.md` promises: a row and a request for each, its inputs."""

import json
import pathlib
import re

from bert_tf.saved_model.signatures import BY_IDS, BY_TEXT

SIGNATURES = {**BY_IDS, **BY_TEXT}
README = pathlib.Path(__file__).parents[2] / "serving" / "README.md"
APIS = {"classify": "classify", "regress": "regress"}  # of TF Serving; of other signatures predict


def requests():
    """`(API, body)` of every request to a model."""
    return [(api, json.loads(body)) for api, body in
            re.findall(r"/v1/models/\w+:(\w+) \\\n +-d '(.*)'", README.read_text())]


def test_the_examples_call_every_signature_with_its_inputs():
    text = README.read_text()
    called = {request.get("signature_name", "serving_default"): (api, request)
              for api, request in requests()}
    assert set(called) == {*SIGNATURES, "serving_default"}
    for name, signature in SIGNATURES.items():
        api, request = called[name]
        assert api == APIS.get(name, "predict")
        row = re.search(rf"\| `{name}` \| .*? \| (.*?) \|", text).group(1)
        assert set(re.findall(r"`(\w+)`", row)) == set(signature.inputs)
        if api == "predict":
            first = request["inputs"] if "inputs" in request else request["instances"][0]
            assert not isinstance(first, dict) or set(first) == set(signature.inputs)
            assert isinstance(first, dict) or len(signature.inputs) == 1
        else:
            assert set(request["examples"][0]) == {"text"}
