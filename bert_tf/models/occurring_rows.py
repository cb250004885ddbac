"""Training the rows of a table of tokens that the examples contain, and no others.

A vocabulary has tens or hundreds of thousands of rows, the examples of a task a few thousands of
them. The others have no gradient in any step, so that an update of AdamW, which goes through the
whole table and both its moments, would only decay them.
"""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from bert_tf.layers.gather import gather_rows
from bert_tf.layers.substitutes import Substitutes, computed_with


class OccurringRows(Substitutes):
    """The rows of an encoder's table that occur, as a variable that is trained in its place.

    What is trained is updated as AdamW updates the whole table. Other rows stay as they are, where
    AdamW would shrink them by `learning_rate * weight_decay` a step. To be made in the scope of the
    model's strategy.

    Args:
        embeddings: the `Embeddings` layer.
        ids: integers of any shape, all that the model is going to be trained on.

    Attributes:
        variable: the rows, a Keras variable float32 `[K, width]` with the table's path.
    """

    def __init__(self, embeddings, ids):
        self._table = embeddings.word_embeddings
        self._layer = embeddings
        self._ids = np.unique(ids)
        # An id that does not occur is none of a row: looking it up fails.
        numbers = np.full(self._table.shape[0], len(self._ids), np.int32)
        numbers[self._ids] = np.arange(len(self._ids))
        self._numbers = tf.constant(numbers)
        *scopes, name = self._table.path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            self.variable = keras.Variable(self._rows(), name=name, autocast=False)

    def _rows(self):
        return self._table.numpy()[self._ids]

    def trained(self, variables):
        """Return Keras variables with the rows instead of the table."""
        return [self.variable if each is self._table else each for each in variables]

    def in_place(self):
        """Return a context in which the encoder looks up the rows instead of the table."""
        return computed_with(self)

    def take(self):
        """Set the rows to those of the table."""
        self.variable.assign(self._rows())

    def put(self):
        """Set the table's rows to what they have become."""
        self._table.assign(tf.tensor_scatter_nd_update(
            tf.convert_to_tensor(self._table.value), self._ids[:, np.newaxis],
            tf.convert_to_tensor(self.variable.value)))

    def rows(self, layer, ids):
        """See `Substitutes`; TensorFlow's error for an id that does not occur."""
        if layer is not self._layer:
            return None
        return gather_rows(tf.convert_to_tensor(self.variable), tf.gather(self._numbers, ids))

    def table(self, layer):
        """Fail: who computes with the whole table has a gradient for every row."""
        raise ValueError(f"{self._table.path} as a whole, of which only rows are trained")


def occurring_rows(model, ids):
    """Return the `OccurringRows` of a task's model, or None where its table is not trained.

    Args:
        model: with `encoder`.
        ids: integers of any shape, all that the model is going to be trained on.
    """
    embeddings = model.encoder.backbone.embeddings
    trained = any(each is embeddings.word_embeddings for each in model.trainable_variables)
    return OccurringRows(embeddings, ids) if trained else None
