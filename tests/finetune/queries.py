"""Queries whose passage has the mark of the query, and a tiny model for them."""

import functools
import random

from sentiment import config, draw_text, tokenizer

from bert_tf.tasks.base.query_examples import QueryExample
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.ranking.model import Ranker


def queries(count, negatives=2, seed=0):
    """List of `QueryExample`; a passage with `fine` is relevant to all, one with `dull` to none."""
    text = functools.partial(draw_text, random.Random(seed))
    return [QueryExample(str(number), f"{text()} {number}", (text("fine", "great"),),
                         tuple({text("dull"): None for _ in range(negatives)}),
                         where=f"line {number + 1}") for number in range(count)]


def ranker(**options):
    """A `Ranker` that takes text."""
    return Ranker(config(**options.pop("config", {})), seed=4,
                  preprocessor=TextPreprocessor(tokenizer(), 24, pair=True), **options)
