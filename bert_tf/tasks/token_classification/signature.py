"""Entities in a text: the signature `tag`."""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.token_classification.entities import tag_text
from bert_tf.tasks.token_classification.preprocessor import WordReader


def tag(served, text):
    """The entities that the labels of the text's words or characters make, in their order.

    `entities [B, E]`, what is written there, and their types, `labels [B, E]`; `starts` and `ends
    [B, E]`, the characters of the text, as Python counts them, from which and up to which an entity
    goes; `scores [B, E]`, the mean probability of the labels in it; `num_entities [B]`.
    """
    found = tag_text(served.model, _reader(served), text)
    return {"num_entities": tf.cast(found["entities"].row_lengths(), tf.int32),
            **{name: found[name].to_tensor()
               for name in ("entities", "labels", "starts", "ends", "scores")}}


def clear_texts(served, text, tolerance):
    """Bool `[B]`: every unit's likeliest label is ahead by more than twice the tolerance."""
    read = _reader(served)(text)
    probabilities = tf.nn.softmax(served.model.unit_logits(read))
    best = tf.math.top_k(probabilities, 2).values
    clear = tf.RaggedTensor.from_row_lengths(best[:, 0] - best[:, 1] > 2 * tolerance,
                                             read["num_units"])
    return tf.reduce_all(clear, axis=1).numpy()


def only(answer, rows):
    """What `tag` answers, as arrays, for some `rows`, bool `[B]`, of its batch."""
    answer = {name: values[rows] for name, values in answer.items()}
    most = np.max(answer["num_entities"], initial=0)
    return {name: values if values.ndim == 1 else values[:, :most]
            for name, values in answer.items()}


def _reader(served):
    return served.model.reader or WordReader(served.tokenizer, served.seq_length)
