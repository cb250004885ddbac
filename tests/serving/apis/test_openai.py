"""OpenAI's embeddings in front of fake models: what is asked of them, and what is refused."""

import base64
import gzip
import json

import numpy as np
import pytest
from fake_backend import LIMITS, WINDOW, unit, vector

from bert_tf.retrieval.codes import VectorCode
from bert_tf.serving.wire.messages import error


def test_vectors_of_length_1_in_either_format(post, backend):
    texts = ["a tree", "ein Baum", "나무"]
    status, body = post("/v1/embeddings", model="embedder", input=texts, user="somebody")
    assert status == 200 and body["object"] == "list" and body["model"] == "embedder"
    assert [(row["index"], row["object"]) for row in body["data"]] == [
        (place, "embedding") for place in range(3)]
    expected = unit(np.stack([vector(text) for text in texts]))
    np.testing.assert_allclose([row["embedding"] for row in body["data"]], expected, rtol=1e-6)
    assert body["usage"] == {"prompt_tokens": 11, "total_tokens": 11}
    _, body = post("/v1/embeddings", model="embedder", input=texts, encoding_format="base64")
    rows = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in body["data"]]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    assert backend.counted == [("embedder", "embeddings", "OK")] * 2


def test_dimensions_are_the_first_ones_at_length_1_again(post):
    _, body = post("/v1/embeddings", model="embedder", input="a pear", dimensions=2)
    expected = unit(vector("a pear")[:2])
    np.testing.assert_allclose(body["data"][0]["embedding"], expected, rtol=1e-6)
    status, body = post("/v1/embeddings", model="embedder", input="a pear", dimensions=5)
    assert (status, body["error"]["param"]) == (400, "dimensions")
    assert body["error"]["message"] == ("dimensions is 5; expected at most 4, the width of the "
                                        "model's vectors")


def test_vectors_that_are_stored_small_are_decoded(served, backend, monkeypatch):
    code = VectorCode(precision="int8", scale=10.0)
    about = backend._models["embedder"]
    monkeypatch.setitem(about.description, "embedding", {"pooling": "mean", **code.options()})
    monkeypatch.delitem(vars(about), "code", raising=False)
    body = served[0].post("/v1/embeddings", json={"model": "embedder", "input": "a pear"}).json()
    vars(about).pop("code", None)
    # Vectors of other scales are the same once they have length 1.
    np.testing.assert_allclose(body["data"][0]["embedding"], unit(vector("a pear")), rtol=1e-6)


def test_token_ids_go_to_the_signature_of_ids(post, backend):
    status, body = post("/v1/embeddings", model="embedder", input=[[2, 5, 3], [2, 3]])
    assert status == 200 and body["usage"]["prompt_tokens"] == 5
    (_, signatures, inputs), = backend.asked
    assert signatures == ("embed_ids",)
    # All rows are of the model's window, so that requests of several clients make a batch.
    padding = [0] * (WINDOW - 3)
    assert inputs["input_word_ids"].tolist() == [[2, 5, 3, *padding], [2, 3, 0, *padding]]
    assert inputs["input_mask"].tolist() == [[1, 1, 1, *padding], [1, 1, 0, *padding]]
    assert not inputs["input_type_ids"].any()
    backend.asked.clear()
    status, body = post("/v1/embeddings", model="embedder", input=list(range(20)))
    assert backend.asked[0][2]["input_word_ids"].shape == (1, WINDOW)
    assert body["usage"]["prompt_tokens"] == WINDOW


def test_long_texts_are_truncated_unless_that_is_not_wanted(post, backend):
    long = "word " * 20
    status, body = post("/v1/embeddings", model="embedder", input=["a", long])
    assert status == 200 and body["usage"]["prompt_tokens"] == 3 + WINDOW
    backend.asked.clear()
    status, body = post("/v1/embeddings", model="embedder", input=["a", long], truncate=False)
    assert status == 400 and body["error"] == {
        "message": "input 1 has 22 tokens; the model reads 8; try truncate: true",
        "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    assert [asked[1] for asked in backend.asked] == [("count_tokens",)]  # nothing was computed
    status, _ = post("/v1/embeddings", model="embedder", input=["a"], truncate=False)
    assert status == 200


@pytest.mark.parametrize(("model", "read"), [("moods", WINDOW), ("embedder", 22)])
def test_windows_are_read_for_what_the_model_was_trained_for(post, backend, monkeypatch, model,
                                                             read):
    monkeypatch.setitem(backend._models[model].description, "long", "windows")
    long, ids = "word " * 20, list(range(20))
    for given, expected in ((long, read), (ids, WINDOW)):
        _, body = post("/v1/embeddings", model=model, input=given)
        assert body["usage"]["prompt_tokens"] == expected
    assert post("/v1/embeddings", model=model, input=long, truncate=False)[0] == (
        400 if read == WINDOW else 200)
    assert post("/v1/embeddings", model=model, input=ids, truncate=False)[0] == 400
    if model == "moods":
        assert post("/models/moods/predict", inputs=long, truncate=False)[0] == 200


def test_a_model_that_cannot_count(post, backend, monkeypatch):
    monkeypatch.delitem(backend._models["moods"].signatures, "count_tokens")
    status, body = post("/v1/embeddings", model="moods", input="word " * 20)
    assert status == 200 and body["usage"] == {"prompt_tokens": 0, "total_tokens": 0}
    status, body = post("/v1/embeddings", model="moods", input="a", truncate=False)
    assert status == 400 and "cannot count tokens; try exporting it again" in body["error"][
        "message"]


def test_a_request_of_too_many_tokens_is_refused_before_it_is_computed(post, backend):
    status, body = post("/v1/embeddings", model="embedder", input=["word " * 6] * 40)
    assert (status, body["error"]["message"]) == (
        400, "a request of 320 tokens; expected at most 200")
    assert [asked[1] for asked in backend.asked] == [("count_tokens",)]
    assert post("/v1/embeddings", model="embedder", input=["a"] * 40)[0] == 200  # 120 tokens


_TEXT_WANTED = "expected a string, a list of strings, of token ids or of lists of them"


@pytest.mark.parametrize(("fields", "param", "message"), [
    ({}, "input", f"input is missing; {_TEXT_WANTED}"),
    ({"input": None}, "input", f"input is missing; {_TEXT_WANTED}"),
    ({"input": 5}, "input", f"input is 5; {_TEXT_WANTED}"),
    ({"input": {"text": "a"}}, "input", f"input is {{'text': 'a'}}; {_TEXT_WANTED}"),
    ({"input": ""}, "input", "input is empty; expected text with something in it"),
    ({"input": ["a", ""]}, "input", "input is empty; expected text with something in it"),
    ({"input": []}, "input", "input is empty; expected a string, a list of strings, of token ids "
                             "or of lists of them"),
    ({"input": [[]]}, "input", "input is empty; expected token ids"),
    ({"input": ["a", 5]}, "input", "input is 5; expected a string"),
    ({"input": [True]}, "input", "input is True; expected a string"),
    ({"input": [1, "a"]}, "input", "input is [1, 'a']; expected token ids, whole numbers from 0 "
                                   "on"),
    ({"input": [1.5]}, "input", "input is 1.5; expected a string"),
    ({"input": [-1]}, "input", "input is [-1]; expected token ids, whole numbers from 0 on"),
    ({"input": [2 ** 31]}, "input", "input is [2147483648]; expected token ids, whole numbers "
                                    "from 0 on"),
    ({"input": [[1], "a"]}, "input", "input is 'a'; expected a list of token ids"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format",
     "encoding_format is 'hex'; expected float or base64"),
    ({"input": "a", "dimensions": 0}, "dimensions", "dimensions is 0; expected at least 1"),
    ({"input": "a", "dimensions": True}, "dimensions",
     "dimensions is True; expected a whole number"),
    ({"input": "a", "truncate": "no"}, "truncate", "truncate is 'no'; expected true or false"),
    ({"input": "a", "dimension": 2}, "dimension",
     "there is no field dimension; expected input, model, encoding_format, dimensions, user, "
     "truncate"),
    ({"input": "a", "model": 5}, "model", "model is 5; expected a string"),
    ({"input": "x" * 1001}, "input", "input holds a text of 1001 bytes; expected at most 1000"),
    ({"input": ["a"] * 101}, "input", "input holds 101 inputs; expected at most 100"),
    ({"input": ["a"] * 100_000}, "input", "input holds 100000 inputs; expected at most 100"),
])
def test_wrong_fields(post, backend, fields, param, message):
    status, body = post("/v1/embeddings", **{"model": "embedder", **fields})
    assert status == 400
    assert body["error"] == {"message": message, "type": "invalid_request_error", "param": param,
                             "code": None}
    assert not backend.asked


@pytest.mark.parametrize(("body", "message"), [
    (b"", "the body is not JSON"), (b"[]", "expected an object"), (b"{", "the body is not JSON"),
    (b'{"model": "embedder", "input": "\\ud800"}', "half of a surrogate pair"),
    (b'{"model": "embedder", "input": "\xff"}', "input is no Unicode text; expected UTF-8"),
    (b'{"model": "embedder", "input": NaN}', "input is nan"),
    (b"[" * 100_000, "nested deeper"),
])
def test_bodies_that_are_no_request(served, body, message):
    response = served[0].post("/v1/embeddings", content=body)
    assert response.status_code == 400 and message in response.json()["error"]["message"]


def test_bodies_that_are_too_large(served):
    text = json.dumps({"model": "embedder", "input": "x" * LIMITS.body_bytes}).encode()
    for headers, body in (({}, text), ({"content-encoding": "gzip"}, gzip.compress(text)),
                          ({}, iter([text]))):
        response = served[0].post("/v1/embeddings", content=body, headers=headers)
        assert response.status_code == 413
        assert "more than 1048576 bytes" in response.json()["error"]["message"]


def test_a_model_that_is_not_there_or_has_no_vectors(post, backend, monkeypatch):
    status, body = post("/v1/embeddings", model="other" * 100, input="a")
    assert status == 404 and body["error"]["code"] == "model_not_found"
    assert len(body["error"]["message"]) < 400
    assert backend.counted == []  # a client's names would fill the memory
    about = backend._models["moods"]
    monkeypatch.setitem(about.description, "embedding", {"pooling": "none"})
    vars(about).pop("tasks", None)
    status, body = post("/v1/embeddings", model="moods", input="a")
    vars(about).pop("tasks", None)
    assert (status, body["error"]["message"]) == (400, "model moods gives no vector of a text")


@pytest.mark.parametrize(("name", "status", "kind"), [
    ("queue_full", 503, "server_error"), ("failed", 500, "server_error"),
    ("deadline", 504, "server_error"), ("queue_deadline", 429, "invalid_request_error")])
def test_what_a_server_in_trouble_says(post, backend, name, status, kind):
    backend.problem = error(name)
    found, body = post("/v1/embeddings", model="embedder", input="a")
    assert (found, body["error"]["type"]) == (status, kind)
    assert backend.counted == [("embedder", "embeddings", backend.problem.code)]


def test_what_nobody_foresaw_is_told_to_nobody(post, backend):
    backend.problem = ZeroDivisionError("/srv/secret")
    status, body = post("/v1/embeddings", model="embedder", input="a")
    assert status == 500 and "secret" not in json.dumps(body)


def test_the_list_of_models_and_paths_of_others(served):
    body = served[0].get("/v1/models").json()
    assert [row["id"] for row in body["data"]] == ["embedder", "moods", "pairs", "ranker", "terms"]
    assert body["object"] == "list" and {row["object"] for row in body["data"]} == {"model"}
    for method, path in (("GET", "/v1/other"), ("GET", "/"), ("GET", "/models/moods"),
                         ("OPTIONS", "/v1/models")):
        assert served[0].request(method, path).text == "not theirs"


@pytest.mark.parametrize(("method", "path", "message"), [
    ("GET", "/v1/embeddings", lambda body: body["error"]["message"]),
    ("POST", "/v1/models", lambda body: body["error"]["message"]),
    ("GET", "/v2/rerank", lambda body: body["message"]),
    ("PUT", "/models/moods/embed", lambda body: body["error_type"] and body["error"])])
def test_another_method_is_refused_in_the_protocol_s_form(served, method, path, message):
    response = served[0].request(method, path)
    assert response.status_code == 405
    expected = "GET" if path == "/v1/models" else "POST"
    assert message(response.json()) == (
        f"the path is asked by another method; expected {expected}")
    assert response.headers["allow"] == {"GET": "GET, HEAD", "POST": "POST"}[expected]
