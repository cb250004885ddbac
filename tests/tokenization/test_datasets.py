"""Text of a dataset is analysed once, and a tokenizer is traced once."""

import copy
import types

import tensorflow as tf

from bert_tf.tokenization.datasets import analysed_batches, as_analysed
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


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


def test_graphs_share_one_graph_of_the_tokenizer():
    traced = []

    class Counted(Tokenizer):
        def _tokenize(self, text):
            traced.append(text)
            return super()._tokenize(text)

    tokenizer = Counted(Vocabulary([*SPECIAL_TOKENS, "a", "b"]))
    for texts in (["a b", "b"], ["b"], ["a a"]):
        found = tf.function(lambda text: tokenizer.tokenize(text))(tf.constant(texts))
        assert found.to_list() == tokenizer.tokenize(texts).to_list()
    assert sum(not hasattr(text, "numpy") for text in traced) == 1
    assert copy.deepcopy(tokenizer).tokenize(["a b"]).to_list() == [[5, 6]]
