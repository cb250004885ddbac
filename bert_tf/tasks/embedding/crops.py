"""Pairs of random spans of a text: what an embedder learns from where nothing matches the texts."""

import zlib

import numpy as np

SHORTEST, LONGEST = 0.05, 0.5  # of a text, as in the paper
_LONG_WORD = 25  # characters; text of longer ones on average has no blanks between words


class RandomCrops:
    """Draws pairs of spans of a text, which are to find each other among those of other texts.

    Independent cropping (Izacard et al. 2022, "Unsupervised Dense Information Retrieval with
    Contrastive Learning", section 3.1): each span has 5 % to 50 % of the text's words, whatever the
    other one has. Text without blanks is cut between any two characters.

    Args:
        count: pairs of a text.
        seed: the same seed gives the same spans of a text, wherever it stands.
    """

    def __init__(self, count, seed):
        self.count = count
        self.seed = seed

    def __call__(self, text):
        """Return a list of `count` pairs of str."""
        parts, between = text.split(), " "
        if len(text) > _LONG_WORD * len(parts):
            parts, between = list(text), ""
        draw = np.random.default_rng([self.seed, zlib.crc32(text.encode())])
        return [tuple(between.join(_span(parts, draw)) or text for _ in range(2))
                for _ in range(self.count)]


def _span(parts, draw):
    length = max(1, round(draw.uniform(SHORTEST, LONGEST) * len(parts)))
    start = draw.integers(max(1, len(parts) - length + 1))
    return parts[start:start + length]
