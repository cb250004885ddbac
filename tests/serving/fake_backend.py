"""Models without TensorFlow behind the protocols of other servers, on a socket of this process."""

import asyncio
import contextlib
import threading

import httpx
import numpy as np
from server_harness import PATIENCE

from bert_tf.serving.apis.app import Apis
from bert_tf.serving.apis.backend import About
from bert_tf.serving.apis.body import Bodies
from bert_tf.serving.apis.keys import KeyGuard
from bert_tf.serving.apis.settings import HEALTH, ApiSettings
from bert_tf.serving.server.codec import Decoder
from bert_tf.serving.server.http_server import HttpServer
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import Limits

LIMITS = Limits(100, 1 << 20, 1000)
WINDOW = 8
_LETTERS = "abe"
_TEXT, _IDS = ("text",), ("input_word_ids", "input_mask", "input_type_ids")
_EVERY = {"describe": _TEXT, "count_tokens": _TEXT, "embed": _TEXT, "embed_ids": _IDS}


def model(name, signatures=(), **description):
    """An `About` of a model with vectors and further signatures."""
    return About(name, 1, {**_EVERY, **dict(signatures)},
                 {"seq_length": WINDOW, "pair_tokens": 3, "embedding": {"pooling": "mean"},
                  **description})


EMBEDDER = model("embedder", task="embedder", prompts={"query": "query: "})
RANKER = model("ranker", {"rank": ("query", "passage"), "predict": ("text_a", "text_b")},
               pair=True, problem="regression", labels=["relevance"])
LATE = model("late", {"rank": ("query", "passage"), "query_vectors": _TEXT}, roles={
    "query": {"seq_length": 6, "prompt": "q ", "special_tokens": 2},
    "passage": {"seq_length": WINDOW, "prompt": "", "special_tokens": 3}})
# A published model of one number: nothing says whether it reads pairs.
NUMBER = model("number", {"rank": ("query", "passage"), "predict": _TEXT}, pair=False,
               problem="regression", labels=["quality"])
MOODS = model("moods", {"predict": _TEXT}, labels=["sad", "glad", "calm"], problem="single_label")
PAIRS = model("pairs", {"predict": ("text_a", "text_b")}, labels=["no", "yes"], pair=True,
              problem="multi_label")
TERMS = model("terms", {"sparse": _TEXT, "sparse_ids": _IDS}, prompts={"query": "query: "})


class FakeBackend:
    """A `Backend` whose vectors, scores and tokens are those of words that anybody can count.

    Attributes:
        asked: `(model, signatures, inputs)` of every request to a model.
        counted: `(model, api, status)` of every request.
        problem: what a model raises, or None.
        loading: names of models that cannot be asked yet.
    """

    def __init__(self, *models):
        self._models = {about.name: about for about in models}
        self._decoder = Decoder()
        self.asked, self.counted, self.loading = [], [], ()
        self.problem = None

    def names(self):
        return sorted(self._models)

    async def is_ready(self, name=None):
        return bool(self._models) and name not in self.loading

    async def about(self, name, deadline):
        if name not in self._models:
            raise error("not_found", request=f"Latest({name})")
        return self._models[name]

    async def run(self, about, signatures, inputs, deadline):
        self.asked.append((about.name, signatures, inputs))
        if self.problem:
            raise self.problem
        return {output: values for signature in signatures
                for output, values in answer(
                    "score" if signature == "predict" and about.is_regression else signature,
                    **inputs).items()}

    async def decode(self, function, data, *arguments, deadline=None):
        return await self._decoder.run(function, data, *arguments, LIMITS, deadline=deadline)

    def count(self, name, api, status, seconds):
        self.counted.append((name, api, status))

    def close(self):
        self._decoder.close()


def vector(text):
    """Not of length 1, and another for every text."""
    return np.float32([len(text), text.count("a"), text.count("e"), 1])


def unit(vectors):
    """`[…, width]` scaled to length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def answer(signature, **inputs):
    """What a signature answers to lists of str, or to ids."""
    if signature == "count_tokens":
        return {"num_tokens": np.int32([len(text.split()) + 2 for text in inputs["text"]])}
    if signature == "query_vectors":
        return {"num_vectors": np.int32([len(text.split()) for text in inputs["text"]])}
    if signature == "embed":
        return {"embedding": np.stack([vector(text) for text in inputs["text"]])}
    if signature == "embed_ids":
        sums = (inputs["input_word_ids"] * inputs["input_mask"]).sum(axis=1)
        return {"embedding": np.stack([sums, np.ones_like(sums)], axis=1).astype(np.float32)}
    if signature.startswith("sparse"):  # the letters that a text has the most of, two at most
        rows = inputs.get("text") or [bytes(row).decode() for row in inputs["input_word_ids"]]
        counts = np.float32([[row.count(letter) for letter in _LETTERS] for row in rows])
        ids = np.argsort(-counts, axis=1, kind="stable")[:, :2].astype(np.int32)
        weights = np.take_along_axis(counts, ids, 1)
        return {"terms": np.array(list(_LETTERS), "S")[ids], "term_ids": ids, "weights": weights,
                "num_terms": (weights > 0).sum(axis=1, dtype=np.int32)}
    if signature == "rank":
        return {"score": np.float32([len(set(query.split()) & set(passage.split())) for query,
                                     passage in zip(inputs["query"], inputs["passage"],
                                                    strict=True)])}
    texts = inputs.get("text") or inputs["text_a"]
    if signature == "score":  # `predict` of a regression
        return {"score": np.float32([len(text) for text in texts])}
    columns = 3 if "text" in inputs else 2
    return {"probabilities": np.stack([np.float32([0.25, 0.5, 0.25][:columns])] * len(texts))}


@contextlib.contextmanager
def serving(backend, keys=None, **settings):
    """An `httpx.Client` of the protocols in front of a backend, and the address."""
    async def nothing(scope, receive, send):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"not theirs"})

    settings = ApiSettings(**{"apis": ("openai", "tei"), "limits": LIMITS, **settings})
    app = apis = Apis(nothing, backend, settings, Bodies(LIMITS.body_bytes))
    if keys:
        app = KeyGuard(app, keys, HEALTH, apis.refuse)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    server = HttpServer(app, "127.0.0.1", 0, "port", 100, LIMITS.body_bytes)
    try:
        run(server.start())
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE) as client:
            yield client
    finally:
        run(server.stop())
        if asyncio.iscoroutinefunction(backend.close):  # else what is under way meets a closed loop
            run(backend.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
