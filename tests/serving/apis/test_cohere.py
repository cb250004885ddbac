"""Cohere's rerank in front of fake models."""

import dataclasses
import json

import numpy as np
import pytest
from fake_backend import LATE, RANKER, FakeBackend, serving
from scipy import special

from bert_tf.serving.apis import cohere, tei
from bert_tf.serving.wire.request import Limits, ServingError

DOCUMENTS = ["a cat", "two black cats", "the black cat", ""]  # 1, 1, 2, 0 words of `QUERY`
QUERY = "black cat"


def test_version_2(post, backend):
    status, body = post("/v2/rerank", model="ranker", query=QUERY, documents=DOCUMENTS)
    assert status == 200
    assert [row["index"] for row in body["results"]] == [2, 0, 1, 3]  # of equal ones the earlier
    np.testing.assert_allclose([row["relevance_score"] for row in body["results"]],
                               special.expit([2, 1, 1, 0]))
    assert body["meta"] == {
        "api_version": {"version": "2"}, "billed_units": {"search_units": 1},
        # [CLS] query [SEP] document [SEP], in words of which the window has eight.
        "tokens": {"input_tokens": 7 + 8 + 8 + 5}}
    _, body = post("/v2/rerank", model="ranker", query=QUERY, documents=DOCUMENTS, top_n=1)
    assert [row["index"] for row in body["results"]] == [2] and "document" not in body["results"][0]
    _, body = post("/v2/rerank", model="ranker", query=QUERY, documents=DOCUMENTS, top_n=1,
                   return_documents=True)  # as LiteLLM asks
    assert body["results"][0]["document"] == {"text": DOCUMENTS[2]}
    assert backend.counted == [("ranker", "rerank", "OK")] * 3


def test_a_query_and_a_document_that_are_read_apart_are_counted_apart():
    old = dataclasses.replace(LATE, name="old", description={"seq_length": 8})
    backend = FakeBackend(LATE, old)
    with serving(backend) as client:
        def ask(query, document, model="late", **options):
            answer = client.post("/v2/rerank", json={
                "model": model, "query": " ".join("a" * query),
                "documents": ["b", " ".join("b" * document)], **options})
            body = answer.json()
            return body["meta"]["tokens"]["input_tokens"] if answer.is_success else body["message"]

        # Of a query three further tokens, a prompt's among them; of a document a marker's.
        assert ask(3, 5, truncate=False) == ask(3, 5) == 6 + 4 + 6 + 8
        assert ask(9, 9) == 6 + 4 + 6 + 8
        assert ask(4, 5, truncate=False).startswith("query 0 has 7 tokens; the model reads 6")
        assert ask(3, 6, truncate=False).startswith("input 1 has 9 tokens; the model reads 8")
        assert "cannot count" in ask(3, 5, "old", truncate=False) and ask(3, 5, "old") > 0
    backend.close()


def test_version_1(post):
    documents = [*DOCUMENTS[:1], *({"text": text} for text in DOCUMENTS[1:])]
    status, body = post("/v1/rerank", query=QUERY, documents=documents, return_documents=True,
                        rank_fields=["text"], max_chunks_per_doc=10)
    assert status == 200 and body["meta"]["api_version"] == {"version": "1"}
    assert [row["document"]["text"] for row in body["results"]] == [
        DOCUMENTS[place] for place in (2, 0, 1, 3)]


@pytest.mark.parametrize(("fields", "message"), [
    ({"model": "embedder"}, "model embedder is no reranker"),
    ({"query": ""}, "query is empty; expected text with something in it"),
    ({"documents": []}, "documents is empty; expected a list of strings"),
    ({"documents": [5]}, "documents is 5; expected a string"),
    ({"documents": "a"}, "documents is 'a'; expected a list of strings"),
    ({"documents": ["a"] * 101}, "documents holds 101 inputs; expected at most 100"),
    ({"top_n": 0}, "top_n is 0; expected at least 1"),
    ({"max_tokens_per_doc": 7}, "max_tokens_per_doc is 7; expected at least 8, the model's window, "
                                "to which documents are truncated, with the query where both "
                                "are read as one"),
    ({"relevant_spans": {}}, "there is no field relevant_spans; expected model, query, documents, "
                             "top_n, max_tokens_per_doc, priority, return_documents, truncate"),
    ({"documents": ["word " * 20], "truncate": False},
     "input 0 has 25 tokens; the model reads 8; try truncate: true"),
])
def test_wrong_fields(post, fields, message):
    status, body = post("/v2/rerank", **{
        "model": "ranker", "query": QUERY, "documents": ["a"], **fields})
    assert (status, body) == (400, {"message": message})


@pytest.mark.parametrize(("read", "documents"), [
    (cohere.read_v1, "documents"), (cohere.read_v2, "documents"), (tei.read_rerank, "texts")])
def test_a_query_counts_once_for_each_document(read, documents):
    limits = Limits(10, 1000, 1000)
    for count, fits in ((3, True), (4, False)):
        body = json.dumps({"model": "m", "query": "한" * 100, documents: ["a"] * count}).encode()
        if fits:
            read(body, False, limits)
        else:
            with pytest.raises(ServingError, match="query, read once for each of 4 texts, makes "
                                                   "1200 bytes; expected at most 1000"):
                read(body, False, limits)


def test_a_document_without_text_and_a_model_that_is_not_there(post):
    status, body = post("/v1/rerank", query=QUERY, documents=[{"title": "a"}])
    assert (status, body) == (400, {"message": "documents is None; expected a string"})
    status, body = post("/v1/rerank", query=QUERY, documents=["a"], rank_fields=["title"])
    assert status == 400 and body["message"].startswith("rank_fields is other names")
    status, body = post("/v2/rerank", model="none", query=QUERY, documents=["a"])
    assert (status, body) == (404, {"message": "there is no model none"})


def test_a_request_that_may_mean_several_rerankers():
    backend = FakeBackend(RANKER, dataclasses.replace(RANKER, name="other"))
    with serving(backend) as client:
        answer = client.post("/v1/rerank", json={"query": QUERY, "documents": ["a"]})
    backend.close()
    assert answer.status_code == 404 and answer.json() == {
        "message": "several models can be meant: other, ranker; try the field model"}
