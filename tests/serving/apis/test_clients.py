"""Clients that we did not write, unmodified: `openai`, `cohere`, `huggingface_hub`.

They ask the server's protocols, and the gateway's in front of the same server's gRPC.
"""

import subprocess
import sys

import httpx
import numpy as np
import pytest
from server_harness import BINARY, PATIENCE, free_ports, wait_until

TEXTS = ["The quick brown fox", "안녕하세요 fox", "a"]


@pytest.fixture(scope="module")
def gateway(task_models):
    """The address of `python -m bert_tf.gateway` in front of the server, without TensorFlow."""
    port, = free_ports(1)
    # What would be imported of TensorFlow fails.
    code = ("import sys; sys.modules.update(dict.fromkeys(('tensorflow', 'keras'))); "
            "from bert_tf import gateway; gateway.main(sys.argv[1:])")
    process = subprocess.Popen([
        sys.executable, "-c", code, f"--address={task_models.server.address}", f"--port={port}",
        "--models=bert,ranker,classifier,several,sparse,multi_vector"],
        stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith(
            "openai,tei of bert classifier multi_vector ranker several sparse")
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()


@pytest.fixture(params=["server", "gateway"])
def address(request, task_models):
    if request.param == "gateway":
        return request.getfixturevalue("gateway")
    if BINARY:
        pytest.skip("tensorflow_model_server has these protocols by the gateway alone")
    return task_models.server.rest


@pytest.fixture
def vectors(task_models):
    """What the SavedModel itself gives for `TEXTS`, at length 1."""
    found = task_models.call["bert"]("embed", text=TEXTS)["embedding"]
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_openai(address, vectors, task_models):
    openai = pytest.importorskip("openai", reason="openai is not installed")
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        assert {"bert", "ranker"} <= {model.id for model in client.models.list()}
        response = client.embeddings.create(model="bert", input=TEXTS)  # asks for base64
        np.testing.assert_allclose([row.embedding for row in response.data], vectors, atol=1e-5)
        counts = task_models.call["bert"]("encode", text=TEXTS)["num_tokens"]
        assert response.usage.prompt_tokens == counts.sum()
        response = client.embeddings.create(model="bert", input=TEXTS[0], encoding_format="float",
                                            dimensions=8)
        short = vectors[0, :8] / np.linalg.norm(vectors[0, :8])
        np.testing.assert_allclose(response.data[0].embedding, short, atol=1e-5)
        response = client.embeddings.create(model="bert", input=[[2, 5, 3], [2, 3]])
        ids = task_models.call["bert"](
            "embed_ids", input_word_ids=[[2, 5, 3], [2, 3, 0]], input_mask=[[1, 1, 1], [1, 1, 0]],
            input_type_ids=np.zeros([2, 3]))["embedding"]
        np.testing.assert_allclose([row.embedding for row in response.data],
                                   ids / np.linalg.norm(ids, axis=1, keepdims=True), atol=1e-5)
        # More than a batch may have go to the model part by part.
        response = client.embeddings.create(model="bert", input=TEXTS * 100)
        np.testing.assert_allclose([row.embedding for row in response.data[-3:]], vectors,
                                   atol=1e-5)
        with pytest.raises(openai.NotFoundError) as raised:
            client.embeddings.create(model="none", input="a")
        assert raised.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as raised:
            client.embeddings.create(model="bert", input=[[10 ** 6]])  # beyond the vocabulary
        assert "vocabulary" in raised.value.message


def test_cohere(address, task_models):
    cohere = pytest.importorskip("cohere", reason="cohere is not installed")
    query, documents = "the quick fox", ["brown fox", "the quick", "네"]
    logits = task_models.call["ranker"](
        "rank", query=[query] * 3, passage=documents)["score"].astype(np.float64)
    order, scores = np.argsort(-logits), 1 / (1 + np.exp(-logits))
    for kind, options in ((cohere.ClientV2, {}), (cohere.Client, {"return_documents": True})):
        client = kind(api_key="none", base_url=address)
        response = client.rerank(model="ranker", query=query, documents=documents, top_n=2,
                                 **options)
        assert [row.index for row in response.results] == order[:2].tolist()
        np.testing.assert_allclose([row.relevance_score for row in response.results],
                                   scores[order[:2]], atol=1e-5)
        assert response.meta.billed_units.search_units == 1
    assert response.results[0].document.text == documents[order[0]]
    with pytest.raises(cohere.NotFoundError):
        client.rerank(model="none", query=query, documents=documents)


def test_huggingface_hub(address, vectors, task_models):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    client = hub.InferenceClient(f"{address}/models/bert")
    np.testing.assert_allclose(client.feature_extraction(TEXTS), vectors, atol=1e-5)
    np.testing.assert_allclose(client.feature_extraction(TEXTS[0]), vectors[:1], atol=1e-5)
    plain = client.feature_extraction(TEXTS, normalize=False, truncate=True)
    np.testing.assert_allclose(plain, task_models.call["bert"]("embed", text=TEXTS)["embedding"],
                               atol=1e-5)
    np.testing.assert_allclose(client.sentence_similarity(TEXTS[0], TEXTS[1:]),
                               vectors[1:] @ vectors[0], atol=1e-5)
    client = hub.InferenceClient(f"{address}/models/classifier")
    expected = task_models.call["classifier"]("predict", text=TEXTS[:1])
    found = client.text_classification(TEXTS[0])
    assert [row.label for row in found[:1]] == [expected["label"][0].decode()]
    np.testing.assert_allclose([row.score for row in found],
                               np.sort(expected["probabilities"][0])[::-1], atol=1e-5)
    assert client.text_classification(TEXTS[0], top_k=1) == found[:1]
    with pytest.raises(hub.errors.HfHubHTTPError, match="gives scores of softmax"):
        client.text_classification(TEXTS[0], function_to_apply="sigmoid")


def test_pairs_and_their_tokens(address, task_models):
    pair = TEXTS[:2]
    response = httpx.post(f"{address}/models/several/predict", json={"inputs": pair}, timeout=60)
    expected = task_models.call["several"]("predict", text_a=pair[:1], text_b=pair[1:])
    np.testing.assert_allclose([row["score"] for row in response.json()],
                               np.sort(expected["probabilities"][0])[::-1], atol=1e-5)
    counts = task_models.call["several"]("count_tokens", text=pair)["num_tokens"]
    assert response.headers["x-compute-tokens"] == str(counts.sum() - 1)  # one [CLS] less


def test_late_interaction(address, task_models):
    fields = {"query": "the quick fox", "texts": ["brown fox", "the quick"]}
    ranks = httpx.post(f"{address}/models/multi_vector/rerank", json=fields, timeout=60).json()
    call = task_models.call["multi_vector"]
    [count] = call("query_vectors", text=["the quick fox"])["num_vectors"]
    sums = call("rank", query=["the quick fox"] * 2, passage=fields["texts"])["score"]
    np.testing.assert_allclose([row["score"] for row in sorted(
        ranks, key=lambda row: row["index"])], np.clip(sums / count, 0, 1), atol=1e-5)


def test_weights_of_tokens(address, task_models):
    response = httpx.post(f"{address}/models/sparse/embed_sparse", json={"inputs": TEXTS},
                          timeout=60)
    assert response.status_code == 200, response.text
    expected = task_models.call["sparse"]("sparse", text=TEXTS)
    for row, ids, weights in zip(response.json(), expected["term_ids"], expected["weights"],
                                 strict=True):
        assert [term["index"] for term in row] == ids[weights > 0].tolist()
        np.testing.assert_allclose([term["value"] for term in row], weights[weights > 0],
                                   atol=1e-5)


def test_a_gateway_s_metrics_and_health(gateway):
    def get(path):
        return httpx.get(gateway + path, timeout=PATIENCE)

    wait_until(lambda: get("/health").status_code == 200, "the models are ready")
    httpx.post(f"{gateway}/models/bert/embed", json={"inputs": "a"}, timeout=PATIENCE)
    counted = ':tensorflow:serving:request_count{model_name="bert",status="OK"}'
    wait_until(lambda: counted in get("/monitoring/prometheus/metrics").text, "it is counted")
    assert get("/none").json() == {"error": "no such path: /none"}
