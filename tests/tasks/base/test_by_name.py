"""What `fit` and the like are given by position."""

import inspect

import keras
import numpy as np
import pytest
from text_models import classifier, pack_words


def test_options_by_position_are_those_by_name(eager):
    """Weights were left out, and lists and callbacks not understood."""
    texts, labels = ["a good b", "c bad", "good", "bad a"], [0, 1, 0, 1]
    batch, weights = {**pack_words([text.split() for text in texts]), "label_ids": labels}, [1, 5]
    found = []
    for by_name in (False, True):
        model = classifier()
        model.compile("sgd")

        def call(method, *given, by_name=by_name):
            names = list(inspect.signature(getattr(keras.Model, method.__name__)).parameters)[1:]
            return method(**dict(zip(names, given, strict=False))) if by_name else method(*given)

        stop = keras.callbacks.EarlyStopping("val_classifier_accuracy")
        history = call(model.fit, texts, labels, 2, 1, 0, [stop], 0.0, (texts, labels), False,
                       {0: 1.0, 1: 5.0}).history
        call(model.fit, batch, None, 4, 1, 0, None, 0.0, None, False, None, 2 * weights)
        call(model.train_on_batch, batch, None, None, {0: 1.0, 1: 5.0})
        weighed = call(model.evaluate, batch, None, 4, 0, 2 * weights)
        assert weighed == pytest.approx(model.evaluate(texts, labels, sample_weight=2 * weights,
                                                       verbose=0))
        assert stop.mode == "max" and len(history) == 4
        found.append((history, weighed, model.head.get_weights()))
    keras.tree.map_structure(np.testing.assert_array_equal, *found)
