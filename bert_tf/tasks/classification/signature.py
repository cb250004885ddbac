"""Labels or a number for a text: `predict`, and `classify` and `regress` on `tf.Example`s; `rank`.

The last two have the inputs and outputs that TF Serving's Classify and Regress APIs look for:
`servables/tensorflow/classifier.cc` and `regressor.cc`, names in `tf.saved_model`.
"""

import numpy as np
import tensorflow as tf

from bert_tf.tasks.base.examples import CHOSEN_FROM
from bert_tf.tasks.base.ranks import rank_signature
from bert_tf.tasks.base.signature import EXAMPLES, PAIR, TEXT, Signature, result
from bert_tf.tasks.classification.model import Classifier

_OBJECTIVE = "classifier"
_LABELS = {"label": "label", "score": "score", "labels": "labels",
           "probabilities": "probabilities"}


def signatures(served):
    """Return `{name: Signature}` of a served `Classifier` that takes text."""
    if not isinstance(served.model, Classifier) or served.tokenizer is None:
        return {}
    inputs = PAIR if served.pair else TEXT
    if served.model.problem == "regression":
        score = {"score": result("number", value="score")}
        # A published cross-encoder does not say that it reads pairs.
        preprocessor = served.model.preprocessor
        ranks = preprocessor is None or preprocessor.pair is not False
        return {"predict": Signature(predict, inputs, _OBJECTIVE, score, main=True),
                "regress": Signature(regress, EXAMPLES, _OBJECTIVE),
                **({"rank": rank_signature(_OBJECTIVE)} if ranks else {})}
    chosen = {"chosen": "chosen"} if served.model.problem == "multi_label" else {}
    return {"predict": Signature(predict, inputs, _OBJECTIVE, {"label": result(
        "label", **_LABELS, **chosen)}, main=True, compared=_compared),
            "classify": Signature(classify, EXAMPLES, _OBJECTIVE)}


def predict(served, **inputs):
    """Return what a classifier predicts for each text or pair: dict of

    `label` string `[B]`, the likeliest, and its probability `score` float32 `[B]`; `probabilities`
    float32 `[B, L]` of the `labels` string `[B, L]`: they sum to 1, unless a text may have several
    labels, each with its own probability; then also `chosen` bool `[B, L]`, which of them it
    has.

    Of a regression, `score` float32 `[B]` alone, the number itself. How text is read, the model's
    `preprocessor` reads them where it has one.
    """
    model = served.model
    predicted = _predicted(served, inputs)
    if model.problem == "regression":
        return {"score": predicted[:, 0]}
    labels = tf.constant(model.labels)
    several = {"chosen": predicted >= CHOSEN_FROM} if model.problem == "multi_label" else {}
    return {"label": tf.gather(labels, tf.argmax(predicted, axis=1)),
            "score": tf.reduce_max(predicted, axis=1), "probabilities": predicted,
            "labels": tf.broadcast_to(labels, tf.shape(predicted)), **several}


def classify(served, inputs):
    """Return `scores` float32 and `classes` string, `[B, L]`, of serialized `tf.Example`s `[B]`."""
    predicted = _predicted(served, _parse(served, inputs))
    return {tf.saved_model.CLASSIFY_OUTPUT_CLASSES:
                tf.broadcast_to(tf.constant(served.model.labels), tf.shape(predicted)),
            tf.saved_model.CLASSIFY_OUTPUT_SCORES: predicted}


def regress(served, inputs):
    """Return `outputs` float32 `[B]`, the numbers for serialized `tf.Example`s `[B]`."""
    return {tf.saved_model.REGRESS_OUTPUTS: _predicted(served, _parse(served, inputs))[:, 0]}


def _compared(served, inputs, actual, expected, tolerance):
    """See `Signature.compared`."""
    probabilities = expected["probabilities"]
    best = np.sort(probabilities, axis=-1)[:, -2:]
    return actual, expected, {
        "label": best[:, -1] - best[:, 0] > 2 * tolerance if best.shape[1] > 1
        else np.ones(len(best), bool),
        "chosen": np.abs(probabilities - CHOSEN_FROM) > 2 * tolerance}


def _predicted(served, inputs):
    model = served.model
    inputs = model.read(inputs) if model.preprocessor is not None else served.read(inputs)
    return model.probabilities(model(inputs, training=False))


def _parse(served, examples):
    """Parse the features `text`, or `text_a` and `text_b`, each one string."""
    return tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([], tf.string)
                                          for name in served.text_names})
