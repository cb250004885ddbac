"""The API of text-embeddings-inference in front of fake models."""

import asyncio
import threading
import types

import numpy as np
import pytest
from fake_backend import (
    EMBEDDER,
    LATE,
    MOODS,
    NUMBER,
    RANKER,
    FakeBackend,
    serving,
    unit,
    vector,
)

from bert_tf.serving.apis import app, tasks
from bert_tf.serving.apis.backend import About
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError


def test_vectors(served, post, backend):
    response = served[0].post("/embed", json={"inputs": ["a tree", "나무"]})
    expected = np.stack([vector("a tree"), vector("나무")])
    np.testing.assert_allclose(response.json(), unit(expected), rtol=1e-6)
    assert response.headers["x-compute-tokens"] == "7"
    assert response.headers["x-compute-characters"] == "8"
    assert post("/embed", inputs="나무", normalize=False)[1] == [expected[1].tolist()]
    assert post("/embed", inputs="나무", normalize=False, dimensions=2)[1] == [
        expected[1, :2].tolist()]
    np.testing.assert_allclose(post("/embed", inputs="나무", dimensions=2)[1],
                               unit(expected[1:, :2]), rtol=1e-6)
    assert backend.counted == [("embedder", "embed", "OK")] * 4
    assert response.headers["x-total-time"].isdigit()
    assert post("/embed", inputs="나무", normalize=False, unheard_of=1)[1] == [expected[1].tolist()]
    # The model made for vectors is meant, unless the path names another.
    assert post("/models/moods/embed", inputs="나무")[0] == 200
    assert backend.asked[-1][0] == "moods"
    assert post("/models/m%6Fods/embed", inputs="나무")[0] == 200
    status, body = post("/models/org%2Fmoods/embed", inputs="나무")  # a name with a slash
    assert status == 404 and "org/moods" in body["error"]


def test_a_prompt_comes_before_each_text(post):
    assert post("/embed", inputs=["a"], prompt_name="query", normalize=False)[1] == [
        vector("query: a").tolist()]
    status, body = post("/embed", inputs=["a"], prompt_name="none")
    assert (status, body) == (422, {"error": "prompt_name is none; expected query",
                                    "error_type": "Validation"})


def test_weights_of_tokens(post):
    rows = [[{"index": 2, "value": 2.0}, {"index": 0, "value": 1.0}], []]
    assert post("/embed_sparse", inputs=["a tree", "나무"]) == (200, rows)
    assert post("/embed_sparse", inputs="tree", prompt_name="query")[1] == [
        [{"index": 2, "value": 3.0}]]
    assert post("/embed_sparse", inputs=[list(b"baa"), list(b"e")])[1] == [
        [{"index": 0, "value": 2.0}, {"index": 1, "value": 1.0}], [{"index": 2, "value": 1.0}]]
    assert post("/models/terms", inputs=["나무"]) == (200, [[]])  # what it is for
    # The one made for vectors is meant, though both can give them.
    assert post("/embed", inputs=["나무"], normalize=False)[1] == [vector("나무").tolist()]
    assert post("/models/embedder/embed_sparse", inputs="a") == (424, {
        "error": "model embedder gives no weights of tokens", "error_type": "Backend"})


@pytest.mark.parametrize(("path", "text"), [
    ("/embed_sparse", "a tree"), ("/models/moods/predict", ["a tree"])])
def test_an_answer_of_many_parts_is_written_beside_the_event_loop(post, monkeypatch, path, text):
    threads, dump = [], app.dump
    monkeypatch.setattr(app, "_AT_ONCE", 5_000)
    monkeypatch.setattr(app, "dump", lambda document: threads.append(
        threading.current_thread().name) or dump(document))
    for count in (2, 50):
        assert len(post(path, inputs=[text] * count)[1]) == count
    assert [name.startswith("asyncio_") for name in threads] == [False, True]


def test_similarity(post):
    _, cosines = post("/similarity", inputs={
        "source_sentence": "a tree", "sentences": ["a tree", "나무"]})
    vectors = unit(np.stack([vector("a tree"), vector("나무")]))
    np.testing.assert_allclose(cosines, vectors @ vectors[0], rtol=1e-6)
    status, body = post("/similarity", inputs={"source_sentence": "a", "sentences": []})
    assert (status, body) == (400, {
        "error": "inputs.sentences is empty; expected a list of strings", "error_type": "Empty"})


def test_ranks(post):
    texts = ["a cat", "the black cat"]
    assert post("/rerank", query="black cat", texts=texts, raw_scores=True, return_text=True)[1] \
        == [{"index": 1, "text": texts[1], "score": 2.0},
            {"index": 0, "text": texts[0], "score": 1.0}]
    _, ranks = post("/rerank", query="black cat", texts=texts)
    np.testing.assert_allclose([row["score"] for row in ranks],
                               1 / (1 + np.exp([-2.0, -1.0])))
    assert "text" not in ranks[0]


def test_scores_of_late_interaction_are_means():
    """MaxSim is a sum over the query's vectors, of which the logistic function is always 1."""
    backend = FakeBackend(LATE)
    with serving(backend) as client:
        def post(path, **fields):
            return client.post(path, json=fields).json()

        fields = {"query": "black cat", "texts": ["a cat", "the black cat"]}
        assert [row["score"] for row in post("/rerank", **fields)] == [1.0, 0.5]
        assert [row["score"] for row in post("/rerank", **fields, raw_scores=True)] == [2.0, 1.0]
        found = post("/v2/rerank", model="late", query="black cat", documents=fields["texts"])
        assert [row["relevance_score"] for row in found["results"]] == [1.0, 0.5]
        pairs = [["black cat", "a cat"], ["one black cat here", "a cat"]]
        assert [row["score"] for [row] in post("/models/late/predict", inputs=pairs)] == [0.5, 0.25]
    backend.close()


def test_labels(post):
    expected = [{"label": "glad", "score": 0.5}, {"label": "sad", "score": 0.25},
                {"label": "calm", "score": 0.25}]
    assert post("/models/moods/predict", inputs="a")[1] == expected
    assert post("/models/moods/predict", inputs=[["a"], ["b"]])[1] == [expected] * 2
    pair = [{"label": "yes", "score": 0.5}, {"label": "no", "score": 0.25}]
    assert post("/models/pairs/predict", inputs=["a", "b"])[1] == pair
    assert post("/models/pairs/predict", inputs=[["a", "b"]])[1] == [pair]
    assert post("/models/ranker/predict", inputs=["a", "a b"], raw_scores=True)[1] == [
        {"label": "relevance", "score": 1.0}]


def test_a_published_model_of_one_number_reads_single_texts_and_pairs():
    backend = FakeBackend(NUMBER)
    with serving(backend) as client:
        def post(path, **fields):
            return client.post(path, json=fields).json()

        quality = [{"label": "quality", "score": 3.0}]
        assert post("/predict", inputs="abc", raw_scores=True) == quality
        assert post("/predict", inputs=[["abc"], ["abc"]], raw_scores=True) == [quality] * 2
        # As `InferenceClient.text_classification` asks.
        hub = {"inputs": "abc", "parameters": {"function_to_apply": "none"}}
        assert post("/models/number", **hub) == [quality]
        assert post("/predict", inputs=["a b", "a b"], raw_scores=True)[0]["score"] == 2.0
        assert post("/", query="a b", texts=["b"], raw_scores=True) == [{"index": 0, "score": 1.0}]
        assert "a row of 1 texts" in post("/predict", inputs=[["abc"], ["a", "b"]])["error"]
        assert "query is missing" in post("/", texts=["b"])["error"]
    backend.close()


@pytest.mark.parametrize(("path", "fields", "status", "kind", "message"), [
    ("/embed", {"inputs": []}, 400, "Empty", "inputs is empty"),
    ("/embed", {"inputs": ""}, 400, "Empty", "inputs is empty"),
    ("/embed", {"inputs": ["a"] * 101}, 413, "Validation", "inputs holds 101 inputs"),
    ("/embed", {"inputs": 5}, 422, "Validation", "inputs is 5"),
    ("/embed", {}, 422, "Validation", "inputs is missing"),
    ("/embed", {"inputs": "word " * 20, "truncate": False}, 422, "Validation", "has 22 tokens"),
    ("/embed", {"inputs": [1, 2], "prompt_name": "query"}, 422, "Validation",
     "prompt_name is query; expected none beside token ids"),
    ("/embed", {"inputs": "a", "truncation_direction": "Left"}, 422, "Validation",
     "truncation_direction is 'Left'; expected Right"),
    ("/embed", {"inputs": "a", "dimensions": 9}, 422, "Validation", "dimensions is 9"),
    ("/models/none/embed", {"inputs": "a"}, 404, "Validation", "no model none"),
    ("/models/embedder/rerank", {"query": "a", "texts": ["b"]}, 424, "Backend",
     "embedder is no reranker"),
    ("/models/embedder/predict", {"inputs": "a"}, 424, "Backend", "embedder gives no labels"),
    ("/predict", {"inputs": "a"}, 404, "Validation", "several models can be meant: moods, pairs, "
     "ranker; try /models/NAME before the path"),
    ("/models/moods/predict", {"inputs": ["a", "b"]}, 422, "Validation", "reads 1"),
    ("/models/moods/predict", {"inputs": ["a", "b", "c"]}, 422, "Validation", "a pair of strings"),
    ("/models/moods/predict", {"inputs": []}, 400, "Empty", "inputs is empty"),
    ("/models/moods/predict", {"inputs": [[]]}, 422, "Validation", "a pair of strings"),
    ("/models/moods/predict", {"inputs": "a", "raw_scores": True}, 422, "Validation",
     "model moods gives scores of softmax"),
    ("/rerank", {"query": "a", "texts": []}, 400, "Empty", "texts is empty"),
])
def test_what_is_refused(post, path, fields, status, kind, message):
    found, body = post(path, **fields)
    assert (found, body["error_type"]) == (status, kind) and message in body["error"]


@pytest.mark.parametrize(("name", "status", "kind"), [
    ("queue_full", 429, "Overloaded"), ("failed", 424, "Backend"), ("deadline", 504, "Backend")])
def test_what_a_server_in_trouble_says(post, backend, name, status, kind):
    backend.problem = error(name)
    found, body = post("/embed", inputs="a")
    assert (found, body["error_type"]) == (status, kind)


def test_info_and_health(served):
    client = served[0]
    assert client.get("/models/moods/info").json()["model_type"] == {"classifier": {
        "id2label": {"0": "sad", "1": "glad", "2": "calm"},
        "label2id": {"sad": 0, "glad": 1, "calm": 2}}}
    about = client.get("/models/embedder/info").json()
    assert about["model_type"] == {"embedding": {"pooling": "mean"}}
    about = client.get("/models/terms/info").json()
    assert about["model_type"] == {"embedding": {"pooling": "splade"}}
    assert (about["max_input_length"], about["max_client_batch_size"]) == (8, 100)
    assert client.get("/info").status_code == 404  # of which one?
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("description", [{"seq_length": 8, "long": "windows"}, {}])
def test_info_has_numbers_and_strings_where_the_protocol_requires_them(description):
    backend = FakeBackend(About("m", 1, {"embed": ("text",)}, description))
    with serving(backend, max_connections=7) as client:
        about = client.get("/info").json()
    backend.close()
    # `Info` of its OpenAPI, by what is `required` there.
    for name in ("max_concurrent_requests", "max_input_length", "max_batch_tokens",
                 "max_client_batch_size", "tokenization_workers"):
        assert type(about[name]) is int, name
    assert type(about["model_dtype"]) is type(about["model_id"]) is str
    assert about["max_concurrent_requests"] == 7
    assert about["max_input_length"] == 300_000  # no window is known, or longer texts are read


def test_the_health_of_a_model(served, backend, monkeypatch):
    client = served[0]
    monkeypatch.setattr(backend, "loading", ("moods",))
    for method in ("GET", "HEAD"):
        for path, status in (("/health", 200), ("/models/embedder/health", 200),
                             ("/models/moods/health", 503), ("/models/nope/health", 404)):
            response = client.request(method, path)
            assert response.status_code == status and bool(response.content) == (method == "GET")
    assert client.get("/models/nope/health").json() == client.get("/models/nope/info").json()


def test_a_server_of_one_model_needs_no_names():
    for about, fields in ((EMBEDDER, {"inputs": "a"}), (RANKER, {"query": "a", "texts": ["a"]}),
                          (MOODS, {"inputs": "a"})):
        backend = FakeBackend(about)
        with serving(backend) as client:
            assert client.get("/info").json()["model_id"] == about.name
            assert client.post("/", json=fields).status_code == 200
        backend.close()
    backend = FakeBackend()
    with serving(backend) as client:
        assert client.get("/health").json() == {
            "error": "no model can be asked", "error_type": "Unhealthy"}
        assert client.post("/embed", json={"inputs": "a"}).status_code == 404
    backend.close()


@pytest.mark.parametrize("count, fits", [(10, True), (11, False)])
def test_rows_of_ids_of_a_model_whose_window_is_unknown(count, fits):
    """The longest row counts for all, and none is cut."""
    asked = []

    async def run(signature, **inputs):
        asked.append(inputs["input_word_ids"].shape)

    about = About("m", 1, {"embed_ids": ("input_word_ids", "input_mask", "input_type_ids")}, {})
    call = types.SimpleNamespace(about=about, max_tokens=1000, run=run)
    rows = [[1]] * (count - 1) + [[1] * 100]
    if fits:
        asyncio.run(tasks._of_ids(call, "embed_ids", rows, truncate=False))
        assert asked == [(10, 100)]
    else:
        with pytest.raises(ServingError, match="1100"):
            asyncio.run(tasks._of_ids(call, "embed_ids", rows, truncate=False))
