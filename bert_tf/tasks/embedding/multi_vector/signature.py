"""The vectors of a text's tokens, as a query or as a passage, and MaxSim of both."""

import functools

import tensorflow as tf

from bert_tf.layers.max_sim import pair_max_sim
from bert_tf.tasks.base.ranks import rank_signature
from bert_tf.tasks.base.signature import TEXT, Signature, result
from bert_tf.tasks.embedding.multi_vector.model import MultiVectorEmbedder
from bert_tf.tasks.embedding.multi_vector.reading import PASSAGE, QUERY

_RESULTS = {"vectors": result("vectors", value="vectors", count="num_vectors")}


def signatures(served):
    """Return `{name: Signature}` of a served `MultiVectorEmbedder` that takes text."""
    model = served.model
    if not isinstance(model, MultiVectorEmbedder) or model.preprocessor is None:
        return {}
    [objective] = model.objectives
    return {**{f"{role}_vectors": Signature(functools.partial(vectors, role=role), TEXT, objective,
                                            _RESULTS, main=role == PASSAGE)
               for role in (PASSAGE, QUERY)},
            "rank": rank_signature(objective, rank, main=False)}


def vectors(served, text, role):
    """Return `vectors [B, L, dim]`, those that a text of a role has side by side, 0 after them, and
    their number `num_vectors [B]`. L is the most of a text in the batch."""
    found, mask = _vectors(served, role, text)
    rows = tf.ragged.boolean_mask(found, mask > 0)
    return {"vectors": rows.to_tensor(shape=[None, None, served.model.width]),
            "num_vectors": tf.cast(rows.row_lengths(), tf.int32)}


def rank(served, query, passage):
    """Return `score` float32 `[B]`: MaxSim of each query and the passage beside it."""
    return {"score": pair_max_sim(*_vectors(served, QUERY, query),
                                  *_vectors(served, PASSAGE, passage))}


def _vectors(served, role, text):
    inputs = served.model.read({role: text})
    return served.model(inputs, training=False), inputs["vector_mask"]
