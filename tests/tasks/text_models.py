"""Tiny models that take text, and words as ids worked out by hand."""

import functools

import numpy as np
import tensorflow as tf

from bert_tf.config import ModelConfig
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = "abcdefgh"
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *WORDS, "good", "bad"])
CONFIG = ModelConfig(vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1,
                     num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
                     initializer_range=0.2, hidden_dropout_prob=0.0,
                     attention_probs_dropout_prob=0.0)

TINY = ModelConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=32, max_position_embeddings=12, initializer_range=0.2,
                   hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@functools.cache
def make_preprocessor(*options, **named):
    """A `TextPreprocessor`; not made when a module is loaded, before TensorFlow's devices are."""
    return TextPreprocessor(Tokenizer(VOCABULARY), *options, **named)


def classifier(labels=("no", "yes"), problem="single_label", preprocessor=(16,), **options):
    """A `Classifier` that takes text, the same weights every time."""
    return Classifier(CONFIG, list(labels), problem, seed=2,
                      preprocessor=preprocessor and make_preprocessor(*preprocessor), **options)


def texts_of_words(rows):
    """Lists of words as texts `[n]`."""
    return tf.constant([" ".join(row) for row in rows])


def pack_words(rows):
    """`[CLS] words [SEP]` of each list of words, padded to the longest."""
    ids = [[VOCABULARY.cls_id, *map(VOCABULARY.id, row), VOCABULARY.sep_id] for row in rows]
    longest = max(map(len, ids))
    padded = np.array([row + [VOCABULARY.pad_id] * (longest - len(row)) for row in ids])
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
    return {"input_word_ids": padded, "input_mask": mask, "input_type_ids": np.zeros_like(mask)}
