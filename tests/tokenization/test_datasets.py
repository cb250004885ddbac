"""Text of a dataset is analysed once."""

import types

import tensorflow as tf

from bert_tf.tokenization.datasets import analysed_batches, as_analysed


def test_what_is_made_from_analysed_text_is_analysed():
    tokenizer = types.SimpleNamespace(pretokenize="morphemes")
    raw = tf.data.Dataset.from_tensor_slices(["영화를", "봤다"])
    marked = as_analysed(raw.batch(1))
    for made in (marked, marked.take(1), marked.skip(1).repeat(2), marked.shuffle(2).prefetch(1),
                 marked.with_options(tf.data.Options()), marked.unbatch().batch(2),
                 marked.map(lambda text: (text, 0)), marked.concatenate(marked)):
        assert analysed_batches(made, tokenizer) is made
    for made in (raw.batch(1), marked.concatenate(raw.batch(1)),
                 tf.data.Dataset.zip((raw.batch(1), marked))):
        assert analysed_batches(made, tokenizer) is not made
