"""Labels or a number for a text: `predict`, and `classify` and `regress` on `tf.Example`s.

The last two have the inputs and outputs that TF Serving's Classify and Regress APIs look for:
`servables/tensorflow/classifier.cc` and `regressor.cc`, names in `tf.saved_model`.
"""

import tensorflow as tf

from bert_tf.tasks.classification.model import CHOSEN_FROM


def predict(served, **inputs):
    """What a classifier says of each text or pair: dict of

    `label` string `[B]`, the likeliest, and its probability `score` float32 `[B]`;
    `probabilities` float32 `[B, L]` of the `labels` string `[B, L]`: they sum to 1, unless a text
    may have several labels, each with a probability of its own; then also
    `chosen` bool `[B, L]`, which of them it has.

    Of a regression, `score` float32 `[B]` alone, the number itself. How text is read, the model's
    `reader` says where it has one.
    """
    model = served.model
    told = _told(served, inputs)
    if model.problem == "regression":
        return {"score": told[:, 0]}
    labels = tf.constant(model.labels)
    several = {"chosen": told >= CHOSEN_FROM} if model.problem == "multi_label" else {}
    return {"label": tf.gather(labels, tf.argmax(told, axis=1)),
            "score": tf.reduce_max(told, axis=1), "probabilities": told,
            "labels": tf.broadcast_to(labels, tf.shape(told)), **several}


def classify(served, inputs):
    """`scores` float32 `[B, L]` and `classes` string `[B, L]` of serialized `tf.Example`s `[B]`."""
    told = _told(served, _parse(served, inputs))
    return {tf.saved_model.CLASSIFY_OUTPUT_CLASSES:
                tf.broadcast_to(tf.constant(served.model.labels), tf.shape(told)),
            tf.saved_model.CLASSIFY_OUTPUT_SCORES: told}


def regress(served, inputs):
    """`outputs` float32 `[B]`, the numbers for serialized `tf.Example`s `[B]`."""
    return {tf.saved_model.REGRESS_OUTPUTS: _told(served, _parse(served, inputs))[:, 0]}


def _told(served, inputs):
    model = served.model
    inputs = model.read(inputs) if model.reader is not None else served.read(inputs)
    return model.probabilities(model(inputs, training=False))


def _parse(served, examples):
    """The features `text`, or `text_a` and `text_b`, each one string."""
    return tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([], tf.string)
                                          for name in served.text_names})
