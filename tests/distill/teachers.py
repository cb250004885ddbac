"""A teacher of vectors and one of labels."""

from sentiment import config, tokenizer

from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.classification.model import Classifier
from bert_tf.tasks.embedding.model import SentenceEmbedder


def embedder(depth=3, **options):
    """A `SentenceEmbedder` with initial weights."""
    return SentenceEmbedder(config(num_hidden_layers=depth), seed=2, normalize=True,
                            preprocessor=TextPreprocessor(tokenizer(), 16), **options)


def classifier(depth=4, **options):
    """A `Classifier` with initial weights."""
    return Classifier(config(num_hidden_layers=depth), labels=["bad", "good"], seed=1,
                      preprocessor=TextPreprocessor(tokenizer(), 16), **options)
