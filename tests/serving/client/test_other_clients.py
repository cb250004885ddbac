"""A client that we did not write: ovmsclient, over gRPC and over REST.

It asks for version 0 unless told another, which tensorflow_model_server takes for that number too.
"""

import numpy as np
import pytest
from server_harness import PATIENCE, texts

ovmsclient = pytest.importorskip("ovmsclient", reason="ovmsclient is not installed")


@pytest.fixture(params=["grpc", "http"])
def client(server, request):
    address = {"grpc": server.address, "http": server.rest.removeprefix("http://")}[request.param]
    return getattr(ovmsclient, f"make_{request.param}_client")(address)


def test_it_reads_status_and_metadata(client):
    status = client.get_model_status(model_name="plain", model_version=1, timeout=PATIENCE)
    assert status == {1: {"state": "AVAILABLE", "error_code": 0, "error_message": ""}}
    metadata = client.get_model_metadata(model_name="plain", model_version=1, timeout=PATIENCE)
    if "metadata" in metadata:  # over REST it knows another server's names and gives the JSON
        signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert signature["inputs"]["text"]["dtype"] == "DT_STRING"
        assert metadata["model_spec"]["version"] == "1"
        metadata = signature
    else:
        assert metadata["inputs"] == {"text": {"shape": [-1], "dtype": "DT_STRING"}}
        assert metadata["model_version"] == 1
    assert set(metadata["outputs"]) == {"score", "length", "batch", "text"}


def test_its_answers(client):
    outputs = client.predict({"text": texts("ab", "네").tolist()}, "plain", 1, timeout=PATIENCE)
    np.testing.assert_array_equal(outputs["length"], [2, 3])
    np.testing.assert_array_equal(outputs["score"], [2, 3])


def test_what_is_refused_comes_as_its_own_errors(client):
    with pytest.raises(ovmsclient.ModelNotFoundError, match=r"\(none, 0\)"):
        client.predict({"text": [b"a"]}, "none", timeout=PATIENCE)
    with pytest.raises(ovmsclient.ModelNotFoundError, match="7"):
        client.get_model_status("plain", model_version=7, timeout=PATIENCE)
    with pytest.raises(ovmsclient.InvalidInputError):
        client.predict({"other": [b"a"]}, "plain", 1, timeout=PATIENCE)
