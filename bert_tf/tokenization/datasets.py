"""Text of a `tf.data.Dataset` cut into morphemes, once."""

import numpy as np
import tensorflow as tf

from bert_tf.tokenization.morphemes import analyse

_ANALYSED = "_bert_tf_analysed"  # attribute of a dataset whose text is


def as_analysed(dataset):
    """Mark the dataset as one whose text needs no analysis, nor what is made from it alone."""
    setattr(dataset, _ANALYSED, True)
    return dataset


def _is_analysed(dataset):
    """Return whether a dataset is marked, or made from none but such, as by `take` or `map`."""
    sources = dataset._inputs()
    return getattr(dataset, _ANALYSED, False) or bool(sources) and all(map(_is_analysed, sources))


def analysed_batches(dataset, tokenizer):
    """A dataset of texts, or of `(texts, …)`, as `tokenizer` was trained to see the texts.

    What `as_analysed` marked is that already.

    Args:
        dataset: tf.data.Dataset, its texts string tensors, a dict or a tuple of such.
        tokenizer: as of `pretokenize`.
    """
    spec = dataset.element_spec
    texts = spec[0] if isinstance(spec, tuple) else spec
    if (not getattr(tokenizer, "pretokenize", None) or _is_analysed(dataset)
            or not any(part.dtype == tf.string for part in tf.nest.flatten(texts))):
        return dataset

    def cut(part):
        if part.dtype != tf.string:
            return part
        found = tf.numpy_function(
            lambda texts: np.array([text.encode() for text in analyse(texts.reshape(-1))], object)
            .reshape(texts.shape), [part], tf.string)
        return tf.ensure_shape(found, part.shape)

    def batch(*parts):
        texts = tf.nest.map_structure(cut, parts[0])
        return (texts, *parts[1:]) if isinstance(spec, tuple) else texts

    return dataset.map(tf.autograph.experimental.do_not_convert(batch)).prefetch(4)
