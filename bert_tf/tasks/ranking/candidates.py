"""The passages that a query is compared with: those of its file, else some of other queries."""

import collections
import zlib

import numpy as np

from bert_tf.data.text_copies import normal_form
from bert_tf.errors import BertTfError, explain


class Candidates:
    """Negatives of queries.

    No positive of a query is ever its negative, also where it stands beside the same query in
    another example, nor is its own text, where that is a passage of another: nothing is as similar.
    Queries that differ in case, width or blanks alone are one query, and a passage that differs
    from one of these only so is not drawn.
    What is drawn depends on the query, the seed and all passages.

    Args:
        examples: list of `QueryExample`.
        seed: integer.
    """

    def __init__(self, examples, seed):
        self.seed = seed
        self.relevant = collections.defaultdict(set)  # by the query's normal form
        for example in examples:
            self.relevant[normal_form(example.query)].update((example.query, *example.positives))
        self.pool = list(dict.fromkeys(text for example in examples
                                       for text in (*example.positives, *example.negatives)))
        alike, self.not_drawn = collections.defaultdict(set), {}
        for text in self.pool:
            alike[normal_form(text)].add(text)
        for query, texts in self.relevant.items():
            self.not_drawn[query] = set().union(
                *(alike.get(normal_form(text), ()) for text in texts))

    def negatives(self, example, count):
        """Return the negatives of an example in its file, or else `count` drawn from the others.

        Raises:
            BertTfError: there are no others.
        """
        query = normal_form(example.query)
        relevant = self.relevant[query]
        own = [text for text in example.negatives if text not in relevant]
        if own:
            return own
        not_drawn = self.not_drawn[query]
        drawn = self._random(example).choice(
            len(self.pool), min(len(self.pool), count + len(not_drawn)), replace=False)
        found = [self.pool[place] for place in drawn if self.pool[place] not in not_drawn][:count]
        if not found:
            raise BertTfError(explain(
                f"{example.where}: a query without negatives, and no passage of other queries to "
                "take in their place", "negatives, or several passages"))
        return found

    def lists(self, example, count):
        """Yield `[positive, negative …]` for each positive, with `count` negatives or fewer."""
        negatives = self.negatives(example, count)
        random = self._random(example)
        for positive in example.positives:
            chosen = negatives if len(negatives) <= count else [
                negatives[place] for place in random.choice(len(negatives), count, replace=False)]
            yield [positive, *chosen]

    def _random(self, example):
        return np.random.default_rng([self.seed, zlib.crc32(example.query.encode())])
