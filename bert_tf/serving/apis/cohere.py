"""Cohere's rerank: `/v2/rerank`, and `/v1/rerank`, whose documents may be objects.

Facts: https://docs.cohere.com/reference/rerank and …/v1/reference/rerank. Scores are
from 0 to 1 as there.
"""

import uuid
from typing import NamedTuple

import numpy as np

from bert_tf.serving.apis import tasks
from bert_tf.serving.apis.backend import RANKS
from bert_tf.serving.apis.fields import Fields
from bert_tf.serving.apis.refusal import Kind, refusal
from bert_tf.serving.apis.route import Answer, Route
from bert_tf.serving.wire.rest_text import dump

# `return_documents` is of version 1; LiteLLM sends it to both.
_KNOWN = ("model", "query", "documents", "top_n", "max_tokens_per_doc", "priority",
          "return_documents", "truncate")
_KNOWN_V1 = ("model", "query", "documents", "top_n", "max_chunks_per_doc", "rank_fields",
             "return_documents", "truncate")
_UNIT = 100  # documents of a search unit


class Rerank(NamedTuple):
    """A request; fields as of the protocol, documents as texts."""

    model: str | None
    query: str
    documents: list
    top_n: int | None
    return_documents: bool
    max_tokens: int | None
    truncate: bool
    version: str


def read_v2(body, packed, limits):
    """The `Rerank` of a body of version 2."""
    fields = Fields(body, packed, limits, _KNOWN)
    fields.get("priority", int, "a whole number", None)
    documents = fields.texts("documents", empty=True)
    return Rerank(fields.text("model"), fields.beside("query", documents), documents,
                  fields.number("top_n"), fields.flag("return_documents", False),
                  fields.number("max_tokens_per_doc"), fields.flag("truncate", True), "2")


def read_v1(body, packed, limits):
    """The `Rerank` of a body of version 1."""
    fields = Fields(body, packed, limits, _KNOWN_V1)
    fields.number("max_chunks_per_doc")
    names = fields.get("rank_fields", list, 'a list of names, ["text"]', None)
    if names not in (None, ["text"]):
        raise refusal("field", Kind.FIELD, "rank_fields", value="other names", wanted='["text"]')
    documents = [fields.checked("documents", _text(document), empty=True)
                 for document in fields.rows("documents", "a list of strings or of {\"text\": …}")]
    return Rerank(fields.text("model", None), fields.beside("query", documents), documents,
                  fields.number("top_n"), fields.flag("return_documents", False), None,
                  fields.flag("truncate", True), "1")


def _text(document):
    return document.get("text") if type(document) is dict else document


async def rerank(call, asked):
    """Answer `Rerank`."""
    window = call.about.window(RANKS)
    if asked.max_tokens is not None and window is not None and asked.max_tokens < window:
        raise refusal("field", Kind.FIELD, "max_tokens_per_doc", value=asked.max_tokens,
                      wanted=f"at least {window}, the model's window, to which documents are "
                             "truncated, with the query where both are read as one")
    logits, tokens = await tasks.rank(call, asked.query, asked.documents, truncate=asked.truncate)
    scores = await tasks.from_0_to_1(call, logits, [asked.query])
    results = []
    for index in np.argsort(-logits, kind="stable")[:asked.top_n].tolist():
        result = {"index": index, "relevance_score": float(scores[index])}
        if asked.return_documents:
            result["document"] = {"text": asked.documents[index]}
        results.append(result)
    return Answer({"id": str(uuid.uuid4()), "results": results, "meta": {
        "api_version": {"version": asked.version},
        "billed_units": {"search_units": -(-len(asked.documents) // _UNIT)},
        "tokens": {"input_tokens": tokens}}})


def refused(problem):
    """The status and the body for a `ServingError`."""
    return problem.http_status, dump({"message": problem.message})


OF_MODEL = False
ROUTES = {("POST", "/v1/rerank"): Route("rerank", read_v1, rerank, RANKS),
          ("POST", "/v2/rerank"): Route("rerank", read_v2, rerank, RANKS)}
