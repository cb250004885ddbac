"""The API of text-embeddings-inference: `/embed`, `/embed_sparse`, `/similarity`, `/rerank`,
`/predict`, `/info`, `/health`.

Facts: its `docs/openapi.json` and `router/src/http`. That server has one model; here a path may
name one, `/models/NAME/embed`, and one that does not means the only model that it can mean. A POST
to `/models/NAME` or `/`, as `huggingface_hub.InferenceClient` sends it, does what the model is for.
"""

import time
from typing import NamedTuple

import numpy as np

from bert_tf import __version__
from bert_tf.serving.apis import tasks
from bert_tf.serving.apis.backend import CLASSIFIES, EMBEDS, RANKS, WEIGHS
from bert_tf.serving.apis.fields import Fields
from bert_tf.serving.apis.refusal import Kind, kind_of, refusal
from bert_tf.serving.apis.route import Answer, Route, View
from bert_tf.serving.apis.settings import HEALTH
from bert_tf.serving.wire.request import TooLargeError
from bert_tf.serving.wire.rest_text import dump

_LABEL = "LABEL_0"  # of a model with one number, as transformers calls it
_DICT_BYTES = 256  # of one with a number or two
_SIDES = ("Right", "right")
# What of ours is which status and type of theirs; another code has its HTTP status and Backend.
_BY_KIND = {Kind.EMPTY: (400, "Empty"), Kind.TOO_MANY: (413, "Validation"),
            Kind.FIELD: (422, "Validation"), Kind.TOO_LONG: (422, "Validation"),
            Kind.UNFIT: (424, "Backend"), Kind.NO_MODEL: (404, "Validation"),
            Kind.NO_KEY: (401, "Validation"), Kind.UNHEALTHY: (503, "Unhealthy")}
_BY_CODE = {"RESOURCE_EXHAUSTED": (429, "Overloaded"), "UNAVAILABLE": (429, "Overloaded"),
            "INTERNAL": (424, "Backend"), "FAILED_PRECONDITION": (424, "Backend"),
            "UNKNOWN": (424, "Backend")}


class Embed(NamedTuple):
    """A request for vectors, of `/embed`; `inputs` a list of str or of lists of int."""

    inputs: list
    truncate: bool
    prompt_name: str | None
    normalize: bool
    dimensions: int | None
    model = None


class Weigh(NamedTuple):
    """A request for weights of tokens, of `/embed_sparse`; `inputs` as of `Embed`."""

    inputs: list
    truncate: bool
    prompt_name: str | None
    model = None


class Similarity(NamedTuple):
    """A request for cosines, of `/similarity`."""

    source: str
    sentences: list
    truncate: bool
    prompt_name: str | None
    model = None


class Rerank(NamedTuple):
    """A request for ranks, of `/rerank`."""

    query: str
    texts: list
    truncate: bool
    raw_scores: bool
    return_text: bool
    model = None


class Predict(NamedTuple):
    """A request for labels, of `/predict`: tuples of one or two texts.

    `is_single` where it is one text or pair that came without a list around it; `top_k`,
    `function` and `as_hub` where `InferenceClient` asks, which takes a list for each text.
    """

    rows: list
    is_single: bool
    truncate: bool
    raw_scores: bool
    top_k: int | None = None
    function: str | None = None
    as_hub: bool = False
    model = None


def _truncate(fields):
    fields.choice("truncation_direction", _SIDES, "Right")
    return fields.flag("truncate", True)


def read_embed(body, packed, limits):
    """The `Embed` of a body."""
    return _embed(Fields(body, packed, limits))


def _embed(fields):
    inputs, _ = fields.texts_or_ids("inputs")
    fields.choice("encoding_format", ("float",), "float")  # which InferenceClient may send
    return Embed(inputs, _truncate(fields), fields.text("prompt_name", None),
                 fields.flag("normalize", True), fields.number("dimensions"))


async def embed(call, asked):
    """Answer `Embed`: a vector for each input."""
    started = time.monotonic()
    vectors, tokens = await tasks.embed(call, asked.inputs, truncate=asked.truncate,
                                        prompt=asked.prompt_name)
    vectors = (tasks.scaled if asked.normalize else tasks.shortened)(vectors, asked.dimensions)
    return Answer(np.ascontiguousarray(vectors, np.float32),
                  _counts(started, asked.inputs, tokens), vectors.nbytes)


def read_weigh(body, packed, limits):
    """The `Weigh` of a body."""
    fields = Fields(body, packed, limits)
    inputs, _ = fields.texts_or_ids("inputs")
    return Weigh(inputs, _truncate(fields), fields.text("prompt_name", None))


async def weigh(call, asked):
    """Answer `Weigh`: for each input tokens with their weights, heaviest first."""
    started = time.monotonic()
    ids, weights, counts, tokens = await tasks.weigh(call, asked.inputs, truncate=asked.truncate,
                                                     prompt=asked.prompt_name)

    def document():
        return [[{"index": token, "value": weight}
                 for token, weight in zip(row[:count], values[:count], strict=True)]
                for row, values, count in zip(ids.tolist(), weights.tolist(), counts.tolist(),
                                              strict=True)]

    return Answer(document, _counts(started, asked.inputs, tokens), _DICT_BYTES * ids.size)


def read_similarity(body, packed, limits):
    """The `Similarity` of a body."""
    return _similarity(Fields(body, packed, limits))


def _similarity(fields):
    inputs, parameters = fields.part("inputs"), fields.part("parameters")
    return Similarity(inputs.text("source_sentence"), inputs.texts("sentences"),
                      _truncate(parameters), parameters.text("prompt_name", None))


async def similarity(call, asked):
    """Answer `Similarity`: the cosine of each sentence and the source."""
    started = time.monotonic()
    texts = [asked.source, *asked.sentences]
    vectors, tokens = await tasks.embed(call, texts, truncate=asked.truncate,
                                        prompt=asked.prompt_name)
    vectors = tasks.scaled(vectors)
    return Answer(vectors[1:] @ vectors[0], _counts(started, texts, tokens))


def read_rerank(body, packed, limits):
    """The `Rerank` of a body."""
    return _rerank(Fields(body, packed, limits))


def _rerank(fields):
    texts = fields.texts("texts", empty=True)
    return Rerank(fields.beside("query", texts), texts, _truncate(fields),
                  fields.flag("raw_scores", False), fields.flag("return_text", False))


async def rerank(call, asked):
    """Answer `Rerank`: indices and scores, highest first; of equal ones the earlier first."""
    started = time.monotonic()
    logits, tokens = await tasks.rank(call, asked.query, asked.texts, truncate=asked.truncate)
    scores = logits if asked.raw_scores else await tasks.from_0_to_1(call, logits, [asked.query])
    scores = scores.tolist()
    ranks = [{"index": index, **({"text": asked.texts[index]} if asked.return_text else {}),
              "score": scores[index]} for index in np.argsort(-logits, kind="stable").tolist()]
    return Answer(ranks, _counts(started, [asked.query, *asked.texts], tokens))


def read_predict(body, packed, limits):
    """The `Predict` of a body."""
    return _predict(Fields(body, packed, limits))


def _predict(fields):
    wanted = "a string, a pair of strings, or a list of lists of one or two strings"
    value = fields.get("inputs", None, wanted)
    is_single = type(value) is str or type(value) is list and value[:1] != [] and (
        type(value[0]) is str)
    if is_single:
        rows = [[value] if type(value) is str else value]
    else:
        rows = fields.rows("inputs", wanted)
    for row in rows:
        if type(row) is not list or len(row) not in (1, 2):
            raise refusal("field", Kind.FIELD, "inputs", value="something else", wanted=wanted)
    return Predict([tuple(fields.checked("inputs", text) for text in row) for row in rows],
                   is_single, _truncate(fields), fields.flag("raw_scores", False))


async def predict(call, asked):
    """Answer `Predict`: labels with their scores, highest first, for each row a list."""
    started = time.monotonic()
    found, tokens = await tasks.classify(call, asked.rows, truncate=asked.truncate)
    labels = call.about.labels if found.shape[1] == len(call.about.labels) else [_LABEL]
    function = asked.function or ("none" if asked.raw_scores else None)
    if _is_number(call.about):
        own = "none", "sigmoid"
        if function != "none":
            found = await tasks.from_0_to_1(call, found, [row[0] for row in asked.rows])
    else:
        own = ("sigmoid",) if call.about.description.get("problem") == "multi_label" else (
            "softmax",)
    if function not in (None, *own):
        raise refusal("other_scores", Kind.FIELD, "function_to_apply" if asked.as_hub else
                      "raw_scores", name=call.about.name, value=function, wanted=" or ".join(own))

    def document():
        answers = [[{"label": labels[place], "score": row[place]}
                    for place in np.argsort(-np.array(row), kind="stable")[:asked.top_k].tolist()]
                   for row in found.tolist()]
        return answers[0] if asked.is_single and not asked.as_hub else answers

    return Answer(document, _counts(started, [text for row in asked.rows for text in row], tokens),
                  _DICT_BYTES * found.size)


def _is_number(about):
    """Whether `predict` gives one number, a logit, and no probabilities."""
    return about.is_regression or about.tasks[:1] == (RANKS,)


def read_for_embedder(body, packed, limits):
    """What `InferenceClient` asks an embedder: an `Embed`, or a `Similarity` of a body with those
    inputs."""
    fields = Fields(body, packed, limits)
    is_object = type(fields.get("inputs", None, "text")) is dict
    return (_similarity if is_object else _embed)(fields)


async def for_embedder(call, asked):
    """Answer what `read_for_embedder` gave."""
    return await (embed if type(asked) is Embed else similarity)(call, asked)


def read_for_reranker(body, packed, limits):
    """What a reranker is asked: a `Rerank`, or, of a model that gives single texts a number too, a
    `Predict` of a body with `inputs` alone."""
    fields = Fields(body, packed, limits)
    given = {name for name in ("query", "texts", "inputs")
             if fields.get(name, None, "", None) is not None}
    return (_for_classifier if given == {"inputs"} else _rerank)(fields)


async def for_reranker(call, asked):
    """Answer what `read_for_reranker` gave."""
    return await (rerank if type(asked) is Rerank else predict)(call, asked)


def read_for_classifier(body, packed, limits):
    """What `InferenceClient` asks a classifier: a `Predict` with its parameters."""
    return _for_classifier(Fields(body, packed, limits))


def _for_classifier(fields):
    parameters = fields.part("parameters")
    function = parameters.choice("function_to_apply", (None, "softmax", "sigmoid", "none"), None)
    return _predict(fields)._replace(top_k=parameters.number("top_k"), function=function,
                                     as_hub=True)


def _counts(started, inputs, tokens):
    """What a request took, in header fields."""
    taken = b"%d" % (1000 * (time.monotonic() - started))
    return ((b"x-compute-type", b"cpu"), (b"x-compute-time", taken), (b"x-total-time", taken),
            (b"x-compute-characters", b"%d" % sum(map(len, inputs))),
            (b"x-compute-tokens", b"%d" % tokens))


async def info(apis, name, deadline):
    """Answer what is known of a model, with numbers and strings wherever clients want them."""
    about, settings = await apis.about(name, deadline), apis.settings
    labels = {str(place): label for place, label in enumerate(about.labels)} or {"0": _LABEL}
    classifier = {"id2label": labels, "label2id": {
        label: int(place) for place, label in labels.items()}}
    kind = (about.tasks or (EMBEDS,))[0]
    shown = ({EMBEDS: {"pooling": "splade"}} if kind == WEIGHS else
             {kind: {"pooling": about.pooling} if kind == EMBEDS else classifier})
    return Answer({
        "model_id": about.name, "model_sha": None, "served_model_name": about.name,
        "model_dtype": about.description.get("dtype") or "float32",
        "model_type": shown,
        "max_concurrent_requests": settings.max_connections,
        "max_input_length": about.window(kind) or settings.max_tokens,
        "max_batch_tokens": settings.max_tokens, "max_batch_requests": None,
        "max_client_batch_size": settings.limits.rows, "auto_truncate": True,
        "tokenization_workers": 1,
        "version": __version__, "sha": None, "docker_label": None})


async def health(apis, name, _):
    """Answer whether a model, without a name any, can be asked."""
    if name is not None and name not in apis.backend.names():
        raise refusal("no_model", Kind.NO_MODEL, "model", name=name)
    if not await apis.backend.is_ready(name):
        raise refusal("unhealthy", Kind.UNHEALTHY)
    return Answer({})


def refused(problem):
    """The status and the body for a `ServingError`."""
    kind = kind_of(problem)
    status, name = _BY_KIND[kind]
    if isinstance(problem, TooLargeError):
        status, name = _BY_KIND[Kind.TOO_MANY]
    elif kind is Kind.FIELD and problem.code != "INVALID_ARGUMENT":
        status, name = _BY_CODE.get(problem.code, (problem.http_status, "Backend"))
    return status, dump({"error": problem.message, "error_type": name})


_WEIGH = Route("embed_sparse", read_weigh, weigh, WEIGHS)
OF_MODEL = True
ROUTES = {
    ("POST", "/embed"): Route("embed", read_embed, embed, EMBEDS),
    ("POST", "/embed_sparse"): _WEIGH,
    ("POST", "/rerank"): Route("rerank", read_rerank, rerank, RANKS),
    ("POST", "/similarity"): Route("similarity", read_similarity, similarity, EMBEDS),
    ("POST", "/predict"): Route("predict", read_predict, predict, CLASSIFIES),
    ("POST", "/"): {EMBEDS: Route("embed", read_for_embedder, for_embedder),
                    RANKS: Route("rerank", read_for_reranker, for_reranker), WEIGHS: _WEIGH,
                    CLASSIFIES: Route("predict", read_for_classifier, predict)},
    ("GET", "/info"): View(info), **{("GET", path): View(health) for path in HEALTH}}
