"""What the protocols have in common: vectors, ranks and labels of texts, and counts of tokens."""

import asyncio
from typing import NamedTuple

import numpy as np

from bert_tf.retrieval.codes import VectorCode
from bert_tf.serving.apis.backend import (
    CLASSIFIES,
    EMBEDS,
    QUERY_VECTORS,
    RANKS,
    WEIGHS,
    About,
    Backend,
)
from bert_tf.serving.apis.morphemes import analysed
from bert_tf.serving.apis.refusal import Kind, refusal
from bert_tf.serving.wire.messages import error
from bert_tf.serving.wire.request import ServingError

_COUNTS = "count_tokens"  # the signature that counts
_ID_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
_SIGNATURES = {EMBEDS: "embed", RANKS: "rank", CLASSIFIES: "predict", WEIGHS: "sparse"}
_CANNOT = {EMBEDS: "no_vectors", RANKS: "no_ranks", CLASSIFIES: "no_labels",
           WEIGHS: "no_weights"}


class Call(NamedTuple):
    """A request on its way.

    Attributes:
        backend: `Backend`.
        about: `About` of the model that is asked.
        deadline: a value of `time.monotonic()`, or None.
        max_tokens: of a request.
    """

    backend: Backend
    about: About
    deadline: float | None
    max_tokens: int

    async def run(self, *signatures, **inputs):
        """Ask signatures of the model, as of `Backend.run`."""
        outputs = await self.backend.run(self.about, signatures, inputs, self.deadline)
        if not all(np.isfinite(each).all() for each in outputs.values() if each.dtype.kind == "f"):
            raise error("not_finite")  # JSON has no such numbers
        return outputs

    def need(self, task):
        """Refuse a model that cannot do a task."""
        if task not in self.about.tasks:
            raise refusal(_CANNOT[task], Kind.UNFIT, "model", name=self.about.name)


async def find(backend, name, deadline):
    """The `About` of a model that a request names."""
    try:
        return await backend.about(name, deadline)
    except ServingError as problem:
        if problem.code != "NOT_FOUND":
            raise
        raise refusal("no_model", Kind.NO_MODEL, "model", name=name) from problem


async def only(backend, task, deadline, of_model=True):
    """The `About` of the one model that a request which names none can mean.

    That is the only one made for the task, else the only one that can do it.

    Args:
        task: `EMBEDS`, `RANKS`, `CLASSIFIES` or `WEIGHS`; None for any.
        of_model: whether the path may name a model, as of a protocol's `OF_MODEL`; else a field.
    """
    found = []
    for name in backend.names():
        try:
            found.append(await backend.about(name, deadline))
        except ServingError as problem:
            if problem.code != "NOT_FOUND":  # that one is loading
                raise
    able = [about for about in found if task is None or task in about.tasks]
    for fit in ([about for about in able if about.tasks[:1] == (task,)], able):
        if len(fit) == 1:
            return fit[0]
    if able:
        raise refusal("several_models", Kind.NO_MODEL, "model",
                      names=", ".join(about.name for about in able),
                      way="/models/NAME before the path" if of_model else "the field model")
    if found and task is not None:
        raise refusal(_CANNOT[task], Kind.UNFIT, "model", name=" or ".join(
            about.name for about in found))
    raise refusal("no_models", Kind.NO_MODEL, "model")


async def embed(call, texts, *, truncate=True, prompt=None):
    """Vectors of texts.

    Args:
        texts: list of str, or rows of token ids, special ones among them.
        truncate: whether longer texts lose their ends; else they are refused.
        prompt: name of one of the model's prompts, which comes before each text.

    Returns: float32 `[N, W]`, and the number of tokens that were read.
    """
    outputs, tokens = await _of_texts(call, EMBEDS, texts, truncate, prompt)
    return _vectors(call, outputs), tokens


async def weigh(call, texts, *, truncate=True, prompt=None):
    """The tokens that weigh most in texts; arguments as of `embed`.

    Returns: token ids int32 and weights float32 `[N, terms]`, heaviest first; int32 `[N]`, how many
        of them each text has; and the number of tokens that were read.
    """
    outputs, tokens = await _of_texts(call, WEIGHS, texts, truncate, prompt)
    if "term_ids" not in outputs:  # an export of before
        raise refusal("no_weights", Kind.UNFIT, "model", name=call.about.name)
    return outputs["term_ids"], outputs["weights"], outputs["num_terms"], tokens


async def _of_texts(call, task, texts, truncate, prompt):
    """What the signature of a task answers, of ids the one that takes them, and the tokens read."""
    if type(texts[0]) is not str:
        if prompt is not None:
            raise refusal("field", Kind.FIELD, "prompt_name", value=prompt,
                          wanted="none beside token ids, whose text is not known")
        return await _of_ids(call, f"{_SIGNATURES[task]}_ids", texts, truncate)
    call.need(task)
    if prompt is not None:
        if prompt not in call.about.prompts:
            raise refusal("no_prompt", Kind.FIELD, "prompt_name", value=prompt,
                          wanted=", ".join(call.about.prompts) or "none: the model has no prompts")
        texts = [call.about.prompts[prompt] + text for text in texts]
    return await _counted(call, task, {"text": texts}, truncate)


async def _of_ids(call, signature, rows, truncate):
    if not call.about.answers(signature, *_ID_INPUTS):
        raise refusal("no_ids", Kind.UNFIT, "input", name=call.about.name)
    window = call.about.description.get("seq_length")
    sizes = [len(row) for row in rows]
    if not truncate:
        _check_long(sizes, window)
    tokens = _check_all(call, _read([sizes], [window]))
    # Rows of one length, whatever is asked for at the same time: batches are made of them.
    longest = window or max(sizes)
    if window is None:
        _check_all(call, longest * len(rows))
    ids, mask = np.zeros([2, len(rows), longest], np.int32)
    for place, row in enumerate(rows):
        row = row[:longest]
        ids[place, :len(row)] = row
        mask[place, :len(row)] = 1
    return await call.run(signature, input_word_ids=ids, input_mask=mask,
                          input_type_ids=np.zeros_like(ids)), tokens


def _vectors(call, outputs):
    vectors = outputs["embedding"]
    if vectors.ndim != 2:
        raise refusal("no_vectors", Kind.UNFIT, "model", name=call.about.name)
    return call.about.code.decode(vectors)


def shortened(vectors, dimensions):
    """The first components of vectors (Matryoshka), of None all."""
    width = vectors.shape[-1]
    if dimensions is not None and dimensions > width:
        raise refusal("field", Kind.FIELD, "dimensions", value=dimensions,
                      wanted=f"at most {width}, the width of the model's vectors")
    return vectors[:, :dimensions]


def scaled(vectors, dimensions=None):
    """As `shortened`, at length 1."""
    if shortened(vectors, dimensions).shape != vectors.shape:
        return VectorCode(dimensions=dimensions).encode(vectors)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


async def rank(call, query, documents, *, truncate=True):
    """How relevant documents are to a query.

    Returns: float `[N]`, logits or MaxSim, and the number of tokens that were read.
    """
    call.need(RANKS)
    outputs, tokens = await _counted(
        call, RANKS, {"query": [query] * len(documents), "passage": documents}, truncate)
    return outputs["score"].astype(np.float64), tokens


async def classify(call, rows, *, truncate=True):
    """Labels of texts or pairs of texts.

    Args:
        rows: list of tuples of one or two str, as the model takes them.

    Returns: float `[N, labels]`: probabilities, of one label logits or MaxSim; and the tokens read.
    """
    about = call.about
    # A published model of one number does not say whether it reads pairs, and has both.
    one_text = about.answers("predict", "text") and all(len(row) == 1 for row in rows)
    if about.tasks[:1] == (RANKS,) and not (one_text and CLASSIFIES in about.tasks):
        names, task = ("query", "passage"), RANKS
    else:
        call.need(CLASSIFIES)
        names, task = about.texts, CLASSIFIES
    for row in rows:
        if len(row) != len(names):
            raise refusal("texts_of_row", Kind.FIELD, "inputs", given=len(row),
                          wanted=len(names), name=about.name)
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    outputs, tokens = await _counted(call, task, columns, truncate)
    found = outputs.get("probabilities")
    return (outputs["score"][:, np.newaxis] if found is None else found).astype(np.float64), tokens


async def from_0_to_1(call, scores, queries):
    """Return scores as others have them: the logistic function of logits; of MaxSim, a sum over the
    query's vectors, their mean, which below 0 is 0.

    Args:
        scores: float `[N, …]`.
        queries: N str, or one for all.
    """
    if not call.about.reads_apart:
        return 0.5 * (1 + np.tanh(0.5 * scores))
    texts = list(dict.fromkeys(queries))
    outputs = await call.run(QUERY_VECTORS, **await analysed(
        call.about, {"text": texts}, call.deadline))
    counts = dict(zip(texts, outputs["num_vectors"].tolist(), strict=True))
    return np.clip((scores.T / np.maximum(1, [counts[query] for query in queries])).T, 0, 1)


async def _counted(call, task, columns, truncate):
    """What the signature of a task answers to columns of texts, and how many tokens it read.

    They are counted before it runs where the request may be refused for them, else beside it. An
    export that cannot count them gives 0.
    """
    about, signature, rows = call.about, _SIGNATURES[task], len(next(iter(columns.values())))
    can_count = about.answers(_COUNTS, "text")
    known = can_count and (len(columns) == 1 or about.roles or not about.reads_apart)
    if not (known or truncate):
        raise refusal("cannot_count", Kind.FIELD, "truncate", name=about.name)
    columns = await analysed(about, columns, call.deadline)
    if not can_count:
        return await call.run(signature, **columns), 0
    sequences = _sequences(about, task, columns)
    windows = [each.window for each in sequences]
    if not truncate or None in windows or rows * sum(windows) > call.max_tokens:
        sizes = await _token_counts(call, sequences)
        if not truncate:
            for each, of_each in zip(sequences, sizes, strict=True):
                _check_long(of_each, each.window, each.name)
        tokens = _check_all(call, _read(sizes, windows))
        return await call.run(signature, **columns), tokens
    if len(columns) == 1:
        outputs = await call.run(signature, _COUNTS, **columns)
        return outputs, _read([outputs["num_tokens"].tolist()], windows)
    outputs, sizes = await asyncio.gather(call.run(signature, **columns),
                                          _token_counts(call, sequences))
    return outputs, _read(sizes, windows)


class _Sequence(NamedTuple):
    """What a model reads as one of each row: `columns` of N texts with so many `special` tokens."""

    name: str
    window: int | None
    columns: list
    special: int


def _sequences(about, task, columns):
    """The `_Sequence`s of a task, one unless query and passage are read apart."""
    window = about.window(task)
    if len(columns) == 2 and about.reads_apart:
        usual = {"seq_length": window, "special_tokens": about.special(1), "prompt": ""}
        roles = {name: about.roles.get(name, usual) for name in columns}
        return [_Sequence("query" if name == "query" else "input", role["seq_length"],
                          [[type(text)(role["prompt"] + text) for text in columns[name]]],
                          role["special_tokens"]) for name, role in roles.items()]
    return [_Sequence("input", window, [*columns.values()], about.special(len(columns)))]


async def _token_counts(call, sequences):
    """The tokens of each row of each sequence, none truncated, with the special ones."""
    texts = list(dict.fromkeys(text for each in sequences for column in each.columns
                               for text in column))
    found = (await call.run(_COUNTS, text=texts))["num_tokens"] - call.about.special(1)
    counts = dict(zip(texts, found.tolist(), strict=True))
    return [[sum(map(counts.get, row)) + each.special for row in zip(*each.columns, strict=True)]
            for each in sequences]


def _read(sizes, windows):
    """The tokens that are read of sequences, the sizes of whose rows are lists."""
    return sum(size if window is None else min(size, window)
               for of_each, window in zip(sizes, windows, strict=True) for size in of_each)


def _check_long(sizes, window, name="input"):
    for place, size in enumerate(sizes):
        if window is not None and size > window:
            raise refusal("too_long", Kind.TOO_LONG, "input", text=f"{name} {place}", given=size,
                          wanted=window)


def _check_all(call, tokens):
    """The number of tokens that are read of a request; too many are refused."""
    if tokens > call.max_tokens:
        raise refusal("too_many_tokens", Kind.TOO_LONG, "input", given=tokens,
                      wanted=call.max_tokens)
    return tokens
