"""A vector for a text: the signature `embed`, and how a served model pools its tokens."""

import types

import numpy as np
import tensorflow as tf

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.signature import IDS, TEXT, Signature, result
from bert_tf.tasks.embedding.model import (
    SentenceEmbedder,
    embed_tokens,
    make_pooling,
    special_ids_of,
)

_RESULTS = {"embedding": result("vector", value="embedding")}
_BATCH = 32  # texts by whose vectors int8 is calibrated, at a time
# What `VectorCode.encode` needs, in a graph.
OPERATIONS = types.SimpleNamespace(cast=tf.cast, sqrt=tf.sqrt, rint=tf.math.rint, where=tf.where,
                                    clip=tf.clip_by_value)


def signatures(served):
    """Return `{name: Signature}`: every served model has vectors."""
    known = {"results": _RESULTS, "main": True, "compared": _compared}
    by_ids = {"embed_ids": Signature(embed, IDS, **known)}
    if served.tokenizer is None:
        return by_ids
    return {"embed": Signature(embed, TEXT, **known), **by_ids}


def embed(served, **inputs):
    """Return `embedding [B, W]`, pooled and stored as the export says; with `--pooling none`
    `[B, S, W]`.

    The default is the mean of `sequence_output` over the real tokens, `[CLS]`, `[SEP]` too. Not
    `pooled_output`: that is trained to tell whether a sentence follows, if at all.
    """
    return {"embedding": served.code.encode(vectors_of(served, inputs), OPERATIONS)}


def vectors_of(served, inputs):
    model = served.model
    by_preprocessor = "text" in inputs and isinstance(model,
                                                      SentenceEmbedder) and model.preprocessor
    inputs = model.read(inputs) if by_preprocessor else served.read(inputs)
    return embed_tokens(served.encoder, served.pooling, inputs)


def _compared(served, inputs, actual, expected, tolerance):
    """Compare codes where rounding the vectors otherwise would not change them; see
    `Signature.compared`."""
    if served.code.precision == "float32":
        return actual, expected, {}
    vectors = vectors_of(served, inputs).numpy()
    return actual, expected, {"embedding": served.code.is_clear(vectors, tolerance)}


def calibrated(served, texts):
    """Return the `VectorCode` of a served model, with the scale that vectors of some texts give.

    Args:
        served: a `ServedModel`.
        texts: list of str like those to be served, or None.

    Raises:
        UsageError: int8 without texts, the model takes none, or its vectors cannot be stored so.
    """
    code, pooling = served.code, served.pooling
    if not code.options():
        return code
    if pooling.pooling == "none":
        raise UsageError(explain("vectors stored small of pooling='none'", "one vector a text"))
    code.check_width(pooling.width(served.encoder.output["sequence_output"].shape[-1]))
    if code.precision != "int8" or code.scale is not None:
        return code
    if not texts or served.tokenizer is None:
        found = "texts" if served.tokenizer is not None else "a model that takes text"
        raise UsageError(explain(f"int8 without {found} to calibrate it by",
                                 attempt="--corpus with texts like those to be served"))
    return code.calibrated(np.concatenate(
        [vectors_of(served, {"text": tf.constant(texts[start:start + _BATCH])}).numpy()
         for start in range(0, len(texts), _BATCH)]))


def served_pooling(model, tokenizer, options=None, term_weights=None):
    """Return the `VectorPooling` of a served model.

    Args:
        model: of any task; of an embedder, its pooling holds as far as `options` do not.
        tokenizer: has the special ids; None where there is none.
        options: arguments of `VectorPooling` that were requested.
        term_weights: `TermWeights` of a corpus, needed by a `weighting` that the model has not.

    Raises:
        UsageError: the options do not fit each other or the model.
    """
    options = options or {}
    own = model.pooling if isinstance(model, SentenceEmbedder) else None
    if own is None or options:
        given = {"special_ids": special_ids_of(tokenizer)} | (own.options() if own else {})
        pooling = make_pooling(model.config, **{**given, **options})
        if own is not None:
            if own.dense and pooling.width_factor != own.width_factor:
                raise UsageError(explain(
                    "other --pooling, --layers or --combine with a model whose dense layer takes "
                    f"vectors of {own.width_factor * model.config.hidden_size} numbers",
                    "those of the model, or some of the same width"))
            for dense, given in zip(pooling.dense, own.dense, strict=True):
                dense.set_weights(given.get_weights())
    else:
        pooling = own
    if pooling.term_weights is None:
        if term_weights is not None:
            raise UsageError(explain("term weights for a plain mean", "weighting='idf' or 'bm25'"))
        return pooling
    if term_weights is not None:
        pooling.term_weights.assign(term_weights.of_rows(model.config.vocab_size),
                                    term_weights.average_length)
    elif own is not None and own.term_weights is not None and own is not pooling:
        pooling.term_weights.set_weights(own.term_weights.get_weights())
    if not pooling.term_weights.is_learned:
        raise UsageError(explain(f"weighting={pooling.weighting!r} without the statistics of a "
                                 "corpus", attempt="--corpus with texts like those to be served"))
    return pooling
