"""OpenAI's embeddings and list of models.

Facts: https://platform.openai.com/docs/api-reference/embeddings and …/models. Beyond them a request
may say `truncate`, as in text-embeddings-inference.
"""

import base64
from typing import NamedTuple

import numpy as np

from bert_tf.serving.apis import tasks
from bert_tf.serving.apis.fields import Fields
from bert_tf.serving.apis.refusal import Kind, kind_of
from bert_tf.serving.apis.route import Answer, Route, View
from bert_tf.serving.wire.rest_text import dump

_KNOWN = ("input", "model", "encoding_format", "dimensions", "user", "truncate")
_CODES = {Kind.NO_MODEL: "model_not_found", Kind.NO_KEY: "invalid_api_key",
          Kind.TOO_LONG: "context_length_exceeded"}


class Embeddings(NamedTuple):
    """A request to `/v1/embeddings`; fields as of the protocol, inputs a list of either kind."""

    model: str
    inputs: list
    encoding_format: str
    dimensions: int | None
    truncate: bool


def read_embeddings(body, packed, limits):
    """The `Embeddings` of a body."""
    fields = Fields(body, packed, limits, _KNOWN)
    fields.text("user", None, empty=True)
    inputs, _ = fields.texts_or_ids("input")
    return Embeddings(fields.text("model"), inputs,
                      fields.choice("encoding_format", ("float", "base64"), "float"),
                      fields.number("dimensions"), fields.flag("truncate", True))


async def embeddings(call, asked):
    """Answer `Embeddings`: vectors of length 1."""
    vectors, tokens = await tasks.embed(call, asked.inputs, truncate=asked.truncate)
    vectors = tasks.scaled(vectors, asked.dimensions)
    data = [{"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(_written(vectors, asked.encoding_format))]
    return Answer({"object": "list", "data": data, "model": call.about.name,
                   "usage": {"prompt_tokens": tokens, "total_tokens": tokens}},
                  size=vectors.nbytes)


def _written(vectors, encoding_format):
    if encoding_format == "float":
        return vectors
    rows = np.ascontiguousarray(vectors, "<f4")
    return [base64.b64encode(row).decode() for row in rows]


async def models(apis, *_):
    """Answer the list of models."""
    return Answer({"object": "list", "data": [
        {"id": name, "object": "model", "created": apis.started, "owned_by": "bert_tf"}
        for name in apis.backend.names()]})


def refused(problem):
    """The status and the body for a `ServingError`."""
    status = problem.http_status
    return status, dump({"error": {
        "message": problem.message,
        "type": "server_error" if status >= 500 else "invalid_request_error",
        "param": getattr(problem, "field", None), "code": _CODES.get(kind_of(problem))}})


OF_MODEL = False
ROUTES = {("POST", "/v1/embeddings"): Route("embeddings", read_embeddings, embeddings),
          ("GET", "/v1/models"): View(models)}
