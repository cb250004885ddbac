"""The tokens that weigh most in a text: the signature `sparse`."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base.signature import IDS, TEXT, Signature, clear_ranks, result
from bert_tf.tasks.embedding.sparse.model import SparseEmbedder

_RESULTS = {"terms": result("terms", text="terms", id="term_ids", score="weights",
                            count="num_terms")}


def signatures(served):
    """Return `{name: Signature}` of a served `SparseEmbedder`, whose tokens have to be known."""
    if not isinstance(served.model, SparseEmbedder) or served.tokenizer is None:
        return {}
    [objective] = served.model.objectives
    known = {"objective": objective, "results": _RESULTS, "main": True, "compared": _compared}
    found = {"sparse": Signature(sparse, TEXT, **known),
             "sparse_ids": Signature(sparse, IDS, **known)}
    if served.model.query_table is not None:
        found["sparse_queries"] = Signature(sparse_queries, TEXT, **known)
    return found


def sparse_queries(served, text):
    """Return what `sparse` does, of queries, which the model weighs by a table."""
    return _heaviest(served, served.model.query_weights(_read(served, {"text": text})))


def sparse(served, **inputs):
    """Return `terms [B, K]`, tokens of the vocabulary, heaviest first, their `term_ids [B, K]` and
    `weights [B, K]`; `num_terms [B]`. K is the most terms of a text in the batch, at most the
    export's `max_terms`.
    """
    return _heaviest(served, served.model(_read(served, inputs), training=False))


def _read(served, inputs):
    by_preprocessor = "text" in inputs and served.model.preprocessor is not None
    return (served.model if by_preprocessor else served).read(inputs)


def _heaviest(served, weights):
    weights = weights[:, :len(served.tokenizer.vocabulary)]  # further rows are no tokens'
    # A table of queries may have weights below 0, which come before what is not there.
    nothing = weights.dtype.min
    weights, ids = tf.math.top_k(tf.where(weights != 0, weights, nothing), served.max_terms)
    weights = tf.where(weights != nothing, weights, 0.0)
    num_terms = tf.reduce_sum(tf.cast(weights != 0, tf.int32), axis=1)
    longest = tf.reduce_max(tf.concat([[0], num_terms], 0))  # of a batch of no rows 0
    weights, ids = weights[:, :longest], ids[:, :longest]
    return {"terms": served.tokens(ids, weights != 0)["tokens"], "weights": weights,
            "term_ids": tf.where(weights != 0, ids, 0), "num_terms": num_terms}


def _compared(served, inputs, actual, expected, tolerance):
    """See `Signature.compared`: weights by their ranks, and which tokens have those that are no
    near tie. What is near 0 may be there or not."""
    actual, expected = (_padded(outputs, served.max_terms) for outputs in (actual, expected))
    size = np.maximum(np.linalg.norm(expected["weights"], axis=1, keepdims=True), 1)
    return actual, expected, {"terms": clear_ranks(expected["weights"] / size, tolerance)}


def _padded(outputs, width):
    """Return terms and weights alone, of so many columns."""
    return {name: np.pad(outputs[name], [(0, 0), (0, width - outputs[name].shape[1])],
                         constant_values=fill) for name, fill in (("terms", b""), ("weights", 0))}
