"""The REST API over plain HTTP, in front of a small SavedModel."""

import asyncio
import base64
import gzip
import json
import math
import pathlib
import socket
import zlib

import httpx
import pytest
from google.protobuf import json_format
from prometheus_client.parser import text_string_to_metric_families
from server_harness import PATIENCE
from small_server import save_small_model, serving
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from bert_tf.serving.server.rest_server import RestApi, RestSettings

PREDICT = "/v1/models/small:predict"
TEXTS = ["banana", "네, 이 의자 aei", ""]
EMBEDDINGS = [[text.count(letter) for letter in "aei"] for text in TEXTS]


@pytest.fixture(scope="module")
def base_path(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("small"))
    save_small_model(folder)
    return folder


@pytest.fixture(scope="module")
def served(base_path):
    with serving(base_path) as served:
        yield served


@pytest.fixture(scope="module")
def http(served):
    with httpx.Client(base_url=served.address, timeout=PATIENCE) as client:
        yield client


def test_status(http):
    answer = http.get("/v1/models/small")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {"model_version_status": [
        {"version": "7", "state": "AVAILABLE",
         "status": {"error_code": "OK", "error_message": ""}}]}
    status = json_format.Parse(answer.text, get_model_status_pb2.GetModelStatusResponse())
    assert status.model_version_status[0].state == status.model_version_status[0].AVAILABLE
    # A label names no version here, as in TensorFlow Serving.
    for path in ("/v1/models/small/versions/7", "/V1/Models/small/labels/stable",
                 "/v1/models/small/labels/canary"):
        assert http.get(path).json() == answer.json()


def test_metadata_is_the_saved_models(http, base_path):
    answer = http.get("/v1/models/small/versions/7/metadata").json()
    assert answer["model_spec"] == {"name": "small", "signature_name": "", "version": "7"}
    found = json_format.ParseDict(answer["metadata"]["signature_def"],
                                  get_model_metadata_pb2.SignatureDefMap())
    saved = saved_model_pb2.SavedModel.FromString(
        (pathlib.Path(base_path) / "7" / "saved_model.pb").read_bytes())
    assert {name: definition for name, definition in found.signature_def.items()
            if not name.startswith("__")} == {
        name: definition for name, definition in saved.meta_graphs[0].signature_def.items()
        if not name.startswith("__")}
    text = answer["metadata"]["signature_def"]["signature_def"]["embed"]["inputs"]["text"]
    assert (text["dtype"], text["tensor_shape"]) == (
        "DT_STRING", {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False})


@pytest.mark.parametrize("path", [PREDICT, "/v1/models/small/versions/7:predict",
                                  "/v1/models/small/labels/stable:predict",
                                  "/v1/models/%73mall:predict"])
def test_predict_by_rows_and_columns(http, path):
    for body, key in (({"instances": TEXTS}, "predictions"),
                      ({"instances": [{"text": text} for text in TEXTS]}, "predictions"),
                      ({"inputs": TEXTS}, "outputs"), ({"inputs": {"text": TEXTS}}, "outputs"),
                      ({"signature_name": "embed", "instances": [
                          {"b64": base64.b64encode(t.encode()).decode()} for t in TEXTS]},
                       "predictions")):
        answer = http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {key: EMBEDDINGS}


def test_types_come_back_as_they_went(http):
    rows = [{"floats": [0.1, 3e38], "ints": 1, "flags": True, "raw_bytes": {"b64": "/w=="}},
            {"floats": [-0.0, 1e-45], "ints": -2, "flags": False, "raw_bytes": "네"}]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    answer = http.post(PREDICT, json={"signature_name": "echo", "inputs": columns}).json()
    assert answer["outputs"] == {**columns, "first": 1, "raw_bytes": [
        {"b64": "/w=="}, {"b64": base64.b64encode("네".encode()).decode()}],
        "floats": [[0.1, 3e38], [-0.0, 1e-45]]}
    # By rows every output needs the batch.
    answer = http.post(PREDICT, json={"signature_name": "echo", "instances": rows})
    assert answer.status_code == 400 and "output first" in answer.json()["error"]


def test_not_a_number_goes_in_and_out(http):
    answer = http.post(PREDICT, content=b'{"signature_name": "double", "inputs": [[NaN, -Inf, 2]]}')
    (row,) = json.loads(answer.content)["outputs"]
    assert math.isnan(row[0]) and row[1:] == [-math.inf, 4.0]
    assert b"NaN" in answer.content and b"-Infinity" in answer.content


def test_classify_and_regress(http):
    examples = {"context": {"bonus": 0.5},
                "examples": [{"text": "네"}, {"text": ["abc"], "bonus": 1.5}]}
    examples["signature_name"] = "classify"
    answer = http.post("/v1/models/small:classify", json=examples).json()
    assert answer == {"results": [[["long", 3.5], ["짧은", -3.5]], [["long", 4.5], ["짧은", -4.5]]]}
    examples["signature_name"] = "regress"
    answer = http.post("/v1/models/small/labels/stable:regress", json=examples).json()
    assert answer == {"results": [3.5, 4.5]}


def test_bodies_may_be_gzip(http):
    packed = gzip.compress(json.dumps({"instances": TEXTS}).encode())
    plain = gzip.decompress(packed)
    for coding, body in (("GZIP", packed), ("X-gzip", packed), ("Identity", plain),
                         ("gzip", packed)):
        headers = {"Content-Encoding": coding}
        assert http.post(PREDICT, content=body, headers=headers).json() == {
            "predictions": EMBEDDINGS}
    for coding, body in (("deflate", zlib.compress(plain)), ("br", plain), ("gzip, br", packed)):
        answer = http.post(PREDICT, content=body, headers={"Content-Encoding": coding})
        assert answer.status_code == 400 and answer.json() == {
            "error": f"Content-Encoding is {coding}; expected gzip, identity or none"}
    for broken in (packed[:-9], b"no gzip"):
        answer = http.post(PREDICT, content=broken, headers=headers)
        assert answer.status_code == 400 and "JSON" in answer.json()["error"]


@pytest.mark.parametrize("method, path, body, status, named", [
    ("GET", "/v1/models", None, 400, "no model"),
    ("GET", "/v1/models/other", None, 404, "model other"),
    ("GET", "/v1/models/small/versions/8", None, 404, "version 8"),
    ("GET", "/v1/models/other/metadata", None, 404, "other"),
    ("GET", "/v1/models/small/labels/canary/metadata", None, 400, "canary"),
    ("GET", "/v1/models/small/versions/99999999999999999999", None, 400, "99999999999999999999"),
    ("GET", "/v1/models/small/versions/x", None, 400, "GET /v1/models/small/versions/x"),
    ("GET", "/v1/foo", None, 400, "GET /v1/foo"), ("POST", "/v1/foo", {}, 400, "POST /v1/foo"),
    ("GET", "/v1/models/some/other", None, 400, "/v1/models/some/other"),
    ("GET", PREDICT, None, 400, f"GET {PREDICT}"),
    ("GET", "/v1/models/small?verbose=1", None, 404,  # TensorFlow Serving knows no query string
     "small?verbose=1"),
    ("POST", "/v1/models", {}, 400, "POST /v1/models"),
    ("POST", "/v1/models/small", {}, 400, "POST /v1/models/small"),
    ("POST", "/v1/models/small/metadata", {}, 400, "POST /v1/models/small/metadata"),
    ("POST", "/v1/models/small:embed", {}, 400, "POST /v1/models/small:embed"),
    ("POST", "/v1/models/small/version/7:regress", {}, 400, "/version/7:regress"),
    ("POST", "/v1/models/small/label/stable:regress", {}, 400, "/label/stable:regress"),
    ("POST", "/v1/models/small/versions/stable:regress", {}, 400, "/versions/stable:regress"),
    ("POST", "/v1/models/small/versions/7/labels/stable:regress", {}, 400, "/labels/stable"),
    ("POST", "/v1/models/small/versions/18446744073709551615:regress", {}, 400, "184467440737"),
    ("PUT", PREDICT, {}, 400, f"PUT {PREDICT}"),
    ("POST", "/v1/models/other:predict", {"instances": [""]}, 404, "other"),
    ("POST", "/v1/models/small99:predict", {"instances": [""]}, 404, "small99"),
    ("POST", "/v1/models/small/versions/50:predict", {"instances": [""]}, 404, "50"),
    ("POST", "/v1/models/small/labels/canary:predict", {"instances": [""]}, 400, "canary"),
    ("POST", PREDICT, {"signature_name": "none", "instances": [""]}, 400, "signature none"),
    ("POST", PREDICT, {"signature_name": 1}, 400, "signature_name is 1"),
    ("POST", PREDICT, {"instances": [1]}, 400, "instance 0: 1 is no string"),
    ("POST", "/v1/models/small:classify", {"examples": [1]}, 400, "example 1"),
    ("OPTIONS", PREDICT, None, 400, "Origin"),
])
def test_refusals(http, method, path, body, status, named):
    answer = http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"] and named in answer.json()["error"]
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["classify", "regress"])
@pytest.mark.parametrize("signature", ["none", "embed", "echo", "predict"])
def test_a_signature_for_something_else_is_the_request_s_fault(http, method, signature):
    answer = http.post(f"/v1/models/small:{method}", json={
        "signature_name": signature, "examples": [{"text": "a"}]})
    assert answer.status_code == 400 and signature in answer.json()["error"]


def test_other_paths_are_not_there(http):
    assert [http.get(path).status_code for path in ("/v2", "/v1", "/models", "/page/../x.py")] == [
        404] * 4


def test_huge_bodies_are_refused_and_the_server_stays_up(http):
    def body(megabytes):
        yield b'{"instances": ["'
        for _ in range(megabytes):
            yield bytes(1 << 20).replace(b"\0", b"a")
        yield b'"]}'

    told = {"error": f"the request has more than {64 << 20} bytes"}
    whole = b"".join(body(65))
    for content, headers in ((body(65), {}), (whole, {}),
                             (gzip.compress(whole, 1), {"Content-Encoding": "gzip"})):
        answer = http.post(PREDICT, content=content, headers=headers)
        assert (answer.status_code, answer.json()) == (413, told)
        assert http.get("/v1/models/small").status_code == 200


def test_clients_that_go_in_the_middle_of_a_request(http):
    for part in (b"POST /v1/mo", b"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\n"
                 b"Content-Length: 100\r\n\r\n{\"instances\""):
        with socket.create_connection((http.base_url.host, http.base_url.port)) as connection:
            connection.sendall(part)
    assert http.post(PREDICT, json={"instances": TEXTS}).json() == {
        "predictions": EMBEDDINGS}


def test_deadline(base_path):
    with serving(base_path, settings=RestSettings(timeout_ms=1)) as served:
        answer = httpx.post(served.address + PREDICT, timeout=PATIENCE, json={
            "signature_name": "slow", "instances": [300_000]})  # loops in the graph
        assert answer.status_code == 504
        assert list(answer.json()) == ["error"]


def test_a_failure_inside_is_told_and_does_not_end_the_server(served, http, monkeypatch):
    async def fail(*arguments, **words):
        raise RuntimeError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(served.core, "predict", fail)
        answer = http.post(PREDICT, json={"instances": TEXTS})
        assert (answer.status_code, answer.json()) == (
            500, {"error": "The server failed; its log says why"})
    assert http.post(PREDICT, json={"instances": TEXTS}).status_code == 200


def test_requests_are_counted_of_models_that_are_there(base_path):
    with serving(base_path) as served, httpx.Client(
            base_url=served.address, timeout=PATIENCE) as client:
        client.post(PREDICT, json={"instances": TEXTS})
        client.post(PREDICT, json={"instances": []})
        client.post("/v1/models/small:classify", json={
            "signature_name": "classify", "examples": [{"text": "a"}]})
        client.post("/v1/models/other:predict", json={"instances": TEXTS})
        # The parser ends the name of every counter in _total.
        counted = {(sample.name.rsplit(":")[-1].removesuffix("_total"),
                    *sorted(sample.labels.items())): sample.value
                   for family in text_string_to_metric_families(
                       served.core.metrics.text().decode()) for sample in family.samples}
    assert {key: value for key, value in counted.items() if key[0] == "request_count"} == {
        ("request_count", ("model_name", "small"), ("status", "OK")): 2,
        ("request_count", ("model_name", "small"), ("status", "INVALID_ARGUMENT")): 1}
    for api in ("predict", "classify"):
        assert counted["request_latency_count", ("API", api), ("entrypoint", "REST"),
                       ("model_name", "small")] == 1
    assert counted["request_example_count", ("model", "small")] == 1
    assert counted["request_example_counts_sum", ("model", "small")] == 1


def test_pages_of_other_origins(base_path, http):
    assert "access-control-allow-origin" not in http.get("/v1/models/small").headers
    with serving(base_path, settings=RestSettings(cors=True)) as (address, _):
        asked = httpx.options(address + PREDICT, headers={"Origin": "https://example.org"},
                              timeout=PATIENCE)
        assert asked.status_code == 200
        for answer in (asked, httpx.get(address + "/v1/models/small", timeout=PATIENCE)):
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.headers["access-control-allow-methods"] == "POST, GET"
            assert answer.headers["access-control-allow-headers"] == "Authorization, *"


def test_many_clients_at_once(http):
    async def ask(client, number):
        answer = await client.post(PREDICT, json={"instances": [TEXTS[number % 3]]})
        return answer.json()["predictions"][0]

    async def all_at_once():
        async with httpx.AsyncClient(base_url=http.base_url, timeout=PATIENCE) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(96)))

    assert asyncio.run(all_at_once()) == [EMBEDDINGS[number % 3] for number in range(96)]


def test_a_path_forges_no_line_of_the_log(caplog):
    async def send(_):
        pass

    scope = {"type": "http", "method": "GET", "path": "/v1/a\nERROR b", "headers": []}
    asyncio.run(RestApi(None, None, RestSettings())(scope, None, send))
    assert [record.getMessage() for record in caplog.records] == [r"GET '/v1/a\nERROR b'"]
