"""Texts and labels as a `tf.data.Dataset` for `model.fit`, by length."""

import numpy as np
import tensorflow as tf

from bert_tf.data.made_ahead import made_ahead
from bert_tf.data.task_input import batch_rows
from bert_tf.errors import UsageError, explain
from bert_tf.tasks.base.numbers_of import numbers_of
from bert_tf.tasks.base.text_features import read_texts
from bert_tf.tokenization.datasets import as_analysed
from bert_tf.tokenization.morphemes import pretokenize
from bert_tf.tokenization.texts import check_batch_size


def text_batches(texts, labels, preprocessor, batch_size, seed, epochs=1):
    """Return batches of texts of similar length, so that hardly anything of a batch is padding.

        data = bert_tf.text_batches(texts, labels, model.preprocessor, 32, seed=1, epochs=3)
        model.fit(data)

    Args:
        texts: strings, as of `text_list`, or of pairs a dict of two such, `text_a` and `text_b`.
            They come out split into morphemes where the preprocessor's tokenizer was trained so.
        labels: list or array `[n, …]`, as the model takes them.
        preprocessor: that of the model, which counts the tokens of a text.
        batch_size: texts of a batch, over all replicas.
        seed: of the order.
        epochs: passes over the texts, each in a different order. The dataset holds all of them,
            so `fit` on it counts one epoch; with `steps_per_epoch=len(data) // epochs` it counts
            each.

    Returns:
        tf.data.Dataset of `(texts, labels)`, string `[b]` or a dict of such, and `[b, …]`. The
        last batch of a pass may be smaller.

    Raises:
        UsageError: there are no texts, not as many labels, or labels by name.
    """
    columns = texts if isinstance(texts, dict) else {"text": texts}
    columns = {name: np.array(pretokenize(preprocessor.tokenizer, column, name=name), object)
               for name, column in columns.items()}
    labels = np.asarray(numbers_of(labels))
    sizes = {name: len(column) for name, column in columns.items()} | {"labels": len(labels)}
    if len(set(sizes.values())) > 1 or not len(labels):
        raise UsageError(explain(", ".join(f"{name}: {size}" for name, size in sizes.items()),
                                 "as many labels as texts, at least one"))
    lengths = read_texts(columns, preprocessor)["input_word_ids"].lengths
    values = {name: tf.constant(column, tf.string) for name, column in columns.items()}
    label_values = tf.constant(labels)

    rows = np.concatenate([batch_rows(lengths, check_batch_size(batch_size), [seed, epoch])
                           for epoch in range(epochs)])

    def batch(rows):
        rows = tf.boolean_mask(rows, rows >= 0)
        read = {name: tf.gather(column, rows) for name, column in values.items()}
        return read if isinstance(texts, dict) else read["text"], tf.gather(label_values, rows)

    return as_analysed(made_ahead(tf.data.Dataset.from_tensor_slices(rows), batch, 4))


def check_batched(dataset):
    """Raise UsageError where a `tf.data.Dataset` of `(inputs, labels, …)` gives single labels."""
    spec = dataset.element_spec
    if isinstance(spec, tuple) and any(
            tf.TensorShape(part.shape).rank == 0 for part in tf.nest.flatten(spec[1:])):
        raise UsageError(explain("the dataset is not batched", attempt=".batch(32)"))
