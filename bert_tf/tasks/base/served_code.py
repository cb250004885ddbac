"""How a SavedModel stores the vectors that its signature `embed` gives."""

import json

import tensorflow as tf

from bert_tf.retrieval.codes import VectorCode


def served_code(signatures):
    """Return the `VectorCode` of what a SavedModel's signature `embed` gives."""
    if "describe" not in signatures:  # written by an early version, or by others
        return VectorCode()
    answer = signatures["describe"](text=tf.constant([""]))["description"].numpy()
    return VectorCode.from_options(json.loads(answer[0]).get("embedding", {}))
