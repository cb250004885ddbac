"""What a SavedModel of the toy task answers."""

import tensorflow as tf

from bert_tf.tasks.base.signature import TEXT, Signature, result
from toy_task.model import ToneModel


def signatures(served):
    """`{"tone": Signature}` of a served `ToneModel`."""
    if not isinstance(served.model, ToneModel) or served.tokenizer is None:
        return {}
    return {"tone": Signature(tone, TEXT, "tone", {
        "tone": result("label", label="tone", score="sureness", labels="tones",
                       probabilities="each")}, main=True)}


def tone(served, text):
    """The likeliest tone, how sure it is, and all tones."""
    probabilities = tf.nn.softmax(served.model(served.model.read({"text": text})))
    labels = tf.constant(served.model.labels)
    return {"tone": tf.gather(labels, tf.argmax(probabilities, 1)),
            "sureness": tf.reduce_max(probabilities, 1), "each": probabilities,
            "tones": tf.broadcast_to(labels, tf.shape(probabilities))}
