"""A vector for a text: the signature `embed`, and how a served model pools its tokens."""

from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.signature import IDS, TEXT, Signature, result
from bert_tf.tasks.embedding.model import (
    SentenceEmbedder,
    embed_tokens,
    make_pooling,
    special_ids_of,
)

_RESULTS = {"embedding": result("vector", value="embedding")}


def signatures(served):
    """Return `{name: Signature}`: every served model has vectors."""
    by_ids = {"embed_ids": Signature(embed, IDS, results=_RESULTS, main=True)}
    if served.tokenizer is None:
        return by_ids
    return {"embed": Signature(embed, TEXT, results=_RESULTS, main=True), **by_ids}


def embed(served, **inputs):
    """Return `embedding [B, W]`, pooled as the export says; with `--pooling none` `[B, S, W]`.

    The default is the mean of `sequence_output` over the real tokens, `[CLS]`, `[SEP]` too. Not
    `pooled_output`: that is trained to tell whether a sentence follows, if at all.
    """
    model = served.model
    by_preprocessor = "text" in inputs and isinstance(model,
                                                      SentenceEmbedder) and model.preprocessor
    inputs = model.read(inputs) if by_preprocessor else served.read(inputs)
    return {"embedding": embed_tokens(served.encoder, served.pooling, inputs)}


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
        if own is not None and own.dense is not None:
            pooling.dense.set_weights(own.dense.get_weights())
    else:
        pooling = own
    if pooling.term_weights is None:
        if term_weights is not None:
            raise UsageError(explain("term weights for a plain mean", "weighting='idf' or 'bm25'"))
        return pooling
    if term_weights is not None:
        pooling.term_weights.assign(term_weights.idf, term_weights.average_length)
    elif own is not None and own.term_weights is not None and own is not pooling:
        pooling.term_weights.set_weights(own.term_weights.get_weights())
    if not pooling.term_weights.is_learned:
        raise UsageError(explain(f"weighting={pooling.weighting!r} without the statistics of a "
                                 "corpus", attempt="--corpus with texts like those to be served"))
    return pooling
