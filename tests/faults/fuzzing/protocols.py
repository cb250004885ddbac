"""Requests in protocols of other servers, to models that are there in name only."""

import asyncio
import json

from fuzzing.target import Bytes, Target
from fuzzing.wire import refused_by, request_body

ASKED = (
    ("/v1/embeddings", {"model": "m", "input": ["a", "b"], "dimensions": 2, "truncate": False}),
    ("/v1/embeddings", {"model": "m", "input": [[1, 2], [3]], "encoding_format": "base64"}),
    ("/v1/rerank", {"query": "a", "documents": ["b", {"text": "c"}], "return_documents": True}),
    ("/v2/rerank", {"model": "m", "query": "a", "documents": ["b"], "top_n": 1}),
    ("/embed", {"inputs": "a", "normalize": False, "prompt_name": "q"}),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "parameters": {}}),
    ("/rerank", {"query": "a", "texts": ["b"], "raw_scores": True, "return_text": True}),
    ("/predict", {"inputs": [["a", "b"], ["c", "d"]], "truncation_direction": "Right"}),
    ("/models/m", {"inputs": "a", "parameters": {"top_k": 1}}))


class Models:
    """A backend of the protocols of other servers, with one model that can do everything."""

    def names(self):
        return ["m"]

    async def about(self, name, deadline):
        from bert_tf.serving.apis.backend import About
        from bert_tf.serving.wire.messages import error

        if name != "m":
            raise error("not_found", request=name)
        ids = ("input_word_ids", "input_mask", "input_type_ids")
        return About("m", 1, {"embed": ("text",), "embed_ids": ids, "count_tokens": ("text",),
                              "predict": ("text",), "rank": ("query", "passage")},
                     {"seq_length": 8, "labels": ["a", "b"], "prompts": {"q": "q: "}})

    async def run(self, name, signatures, inputs, deadline):
        import numpy as np

        for values in inputs.values():
            for value in values:
                assert type(value) is not str or value.encode() is not None
        rows = len(next(iter(inputs.values())))
        return {"num_tokens": np.full(rows, 3, np.int32), "score": np.zeros(rows, np.float32),
                "embedding": np.ones([rows, 4], np.float32)}

    async def decode(self, function, data, *arguments, deadline=None):
        from bert_tf.serving.wire.request import Limits

        return function(data, *arguments, Limits(64, 4096, 1024))

    def count(self, name, *facts):
        assert name == "m" and len(facts) == 3


def _protocols():
    """Whole requests in protocols of other servers get a JSON answer, which is no 500."""
    from bert_tf.serving.apis.app import Apis
    from bert_tf.serving.apis.body import Bodies
    from bert_tf.serving.apis.settings import NAMES, ApiSettings

    apis = Apis(None, Models(), ApiSettings(NAMES, max_tokens=100), Bodies(4096))
    loop = asyncio.new_event_loop()

    def check(data):
        data = Bytes(data)
        path = data.pick(ASKED)[0]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
                 "headers": []}
        body = request_body([document for _, document in ASKED], data)
        sent = []

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(message):
            sent.append(message)

        loop.run_until_complete(apis(scope, receive, send))
        start, answer = sent
        assert start["status"] in (200, 400, 404, 413, 422), (start, answer)
        json.loads(answer["body"])

    return check


TARGETS = (
    Target("protocols", _protocols, tuple(bytes([path, path]) + seed for path in range(len(ASKED))
                                          for seed in (b"", b"\0\0\4", b"\1\0\5\7")), 300_000,
           refused=refused_by()),
)
