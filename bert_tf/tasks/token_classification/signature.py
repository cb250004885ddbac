"""Entities in a text: the signature `tag`."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base.signature import TEXT, Signature, result
from bert_tf.tasks.token_classification.entities import tag_text
from bert_tf.tasks.token_classification.model import TokenClassifier
from bert_tf.tasks.token_classification.preprocessor import WordPreprocessor


def signatures(served):
    """Return `{name: Signature}` of a served `TokenClassifier` that takes text."""
    if not isinstance(served.model, TokenClassifier) or served.tokenizer is None:
        return {}
    return {"tag": Signature(tag, TEXT, "tagger", {"entities": result(
        "spans", of="text", text="entities", label="labels", score="scores", start="starts",
        end="ends", count="num_entities")}, main=True, compared=_compared)}


def tag(served, text):
    """Return the entities that the labels of the text's words or characters make, in their order.

    `entities [B, E]`, what is written there, and their types, `labels [B, E]`; `starts` and `ends
    [B, E]`, the characters of the text, as Python counts them, from which and up to which an entity
    goes; `scores [B, E]`, the mean probability of the labels in it; `num_entities [B]`.
    """
    found = tag_text(served.model, _preprocessor(served), text)
    return {"num_entities": tf.cast(found["entities"].row_lengths(), tf.int32),
            **{name: found[name].to_tensor()
               for name in ("entities", "labels", "starts", "ends", "scores")}}


def _compared(served, inputs, actual, expected, tolerance):
    """See `Signature.compared`: of labels as likely as each other another may be predicted."""
    clear = clear_texts(served, inputs["text"], tolerance)
    return *(only(answer, clear) for answer in (actual, expected)), {}


def clear_texts(served, text, tolerance):
    """Return bool `[B]`: every unit's likeliest label leads by more than twice the tolerance."""
    read = _preprocessor(served)(text)
    probabilities = tf.nn.softmax(served.model.unit_logits(read))
    best = tf.math.top_k(probabilities, 2).values
    clear = tf.RaggedTensor.from_row_lengths(best[:, 0] - best[:, 1] > 2 * tolerance,
                                             read["num_units"])
    return tf.reduce_all(clear, axis=1).numpy()


def only(answer, rows):
    """Return what `tag` answers, as arrays, for some `rows`, bool `[B]`, of its batch."""
    answer = {name: values[rows] for name, values in answer.items()}
    most = np.max(answer["num_entities"], initial=0)
    return {name: values if values.ndim == 1 else values[:, :most]
            for name, values in answer.items()}


def _preprocessor(served):
    return served.model.preprocessor or WordPreprocessor(served.tokenizer, served.seq_length)
