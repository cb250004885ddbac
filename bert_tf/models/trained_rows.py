"""Training some rows of a table of tokens, and no others.

Those that the examples contain: a vocabulary has tens or hundreds of thousands of rows, the
examples of a task a few thousands of them. The others have no gradient in any step, so that an
update of AdamW, which goes through the whole table and both its moments, would only decay them.

Or those of new pieces, under an encoder that stays as it is (Artetxe et al. 2020, "On the
Cross-lingual Transferability of Monolingual Representations", section 2): what it knows of text of
before stays, too.
"""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from bert_tf.layers.gather import gather_rows
from bert_tf.layers.substitutes import Substitutes, computed_with


class TrainedRows(Substitutes):
    """Rows of an encoder's table, as a variable that is trained in its place.

    What is trained is updated as AdamW updates the whole table. Other rows stay as they are, where
    AdamW would shrink them by `learning_rate * weight_decay` a step. To be made in the scope of the
    model's strategy.

    Args:
        embeddings: the `Embeddings` layer.
        ids: integers of any shape, of the rows.
        others: whether the model is trained on texts with other ids, too, and may compute with the
            whole table.

    Attributes:
        variable: the rows, a Keras variable float32 `[K, width]` with the table's path.
    """

    def __init__(self, embeddings, ids, others=False):
        self._table = embeddings.word_embeddings
        self._layer = embeddings
        self._ids = np.unique(ids)
        self._others = others
        # Another id is none of a row: without `others` looking it up fails.
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
        """Return the Keras variables that are trained, with the rows instead of the table."""
        if not any(each is self._table for each in variables):  # it is frozen
            return [*variables, self.variable]
        return [self.variable if each is self._table else each for each in variables]

    def in_place(self):
        """Return a context in which the encoder looks up the rows instead of the table."""
        return computed_with(self)

    def take(self):
        """Set the rows to those of the table."""
        self.variable.assign(self._rows())

    def of_rows(self, variables, tensors):
        """Return `{path: array}` of a run with what was saved of the whole table cut to the rows:
        moments of a version that trained all of it.

        Args:
            variables: Keras variables that the run gets back.
            tensors: `{path: array}` as saved.
        """
        whole, own = tuple(self._table.shape), tuple(self.variable.shape)
        found = {variable.path: tensors[variable.path] for variable in variables
                 if tuple(variable.shape) == own and variable.path in tensors}
        return {**tensors, **{path: array[self._ids] for path, array in found.items()
                              if tuple(array.shape) == whole}}

    def put(self):
        """Set the table's rows to what they have become."""
        self._table.assign(tf.tensor_scatter_nd_update(
            tf.convert_to_tensor(self._table.value), self._ids[:, np.newaxis],
            tf.convert_to_tensor(self.variable.value)))

    def rows(self, layer, ids):
        """See `Substitutes`; without `others` TensorFlow's error for an id of another row."""
        if layer is not self._layer:
            return None
        numbers = tf.gather(self._numbers, ids)
        trained = tf.convert_to_tensor(self.variable)
        if not self._others:
            return gather_rows(trained, numbers)
        last = len(self._ids) - 1
        return tf.where((numbers <= last)[..., tf.newaxis],
                        gather_rows(trained, tf.minimum(numbers, last)),
                        tf.gather(self._still(), ids))

    def table(self, layer):
        """See `Substitutes`.

        Raises:
            ValueError: without `others`: there is a gradient for every row.
        """
        if layer is not self._layer:
            return None
        if not self._others:
            raise ValueError(f"{self._table.path} as a whole, of which only rows are trained")
        return tf.tensor_scatter_nd_update(self._still(), self._ids[:, np.newaxis],
                                           tf.convert_to_tensor(self.variable))

    def _still(self):
        return tf.stop_gradient(tf.convert_to_tensor(self._table))


def occurring_rows(model, ids):
    """Return the `TrainedRows` of a task's model, or None where its table is not trained, or all
    of it is: a model says `whole_table` then.

    Args:
        model: with `encoder`.
        ids: integers of any shape, all that the model is going to be trained on.
    """
    embeddings = model.encoder.backbone.embeddings
    trained = any(each is embeddings.word_embeddings for each in model.trainable_variables)
    return TrainedRows(embeddings, ids) if trained and not getattr(
        model, "whole_table", False) else None


def rows_alone(model, ids):
    """Freeze the encoder of a pre-training model but for rows of its table.

    Args:
        model: with `encoder`, whose heads go on training.
        ids: integers of any shape, of the rows.

    Returns: the `TrainedRows`.
    """
    model.encoder.trainable = False
    return TrainedRows(model.encoder.backbone.embeddings, ids, others=True)
