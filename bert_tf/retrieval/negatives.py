"""Which of the passages found for a query are its hard negatives."""

import dataclasses

import numpy as np

from bert_tf.errors import UsageError, check_choice, explain

SAMPLINGS = ("first", "random")


@dataclasses.dataclass(frozen=True)
class NegativeRule:
    """Which passages count, and which of them are taken.

    Attributes:
        number: negatives of a positive.
        first_rank, last_rank: of the passages found, the query's positives left out, counted
            from 1.
        margin: how much lower than the positive's a score must be (ANCE and others), or None.
        relative_margin: the same as a fraction of the positive's score (Moreira et al. 2024,
            "NV-Retriever": 0.05 is its `TopK-PercPos` of 95 %), or None.
        sampling: `first`: the best ranked; `random`: any.

    Raises:
        UsageError: the ranks are in the wrong order.
    """

    number: int = 5
    first_rank: int = 1
    last_rank: int = 100
    margin: float | None = None
    relative_margin: float | None = None
    sampling: str = "first"

    def __post_init__(self):
        check_choice("sampling", self.sampling, SAMPLINGS)
        if self.first_rank > self.last_rank:
            raise UsageError(explain(f"ranks {self.first_rank} to {self.last_rank}",
                                     "the lower one first"))

    @property
    def has_margin(self):
        """Whether the positive's score counts."""
        return self.margin is not None or self.relative_margin is not None

    def choose(self, scores, positive_score, generator):
        """Return the places of the negatives, ascending.

        Args:
            scores: float `[n]`, of the passages found, the query's positives left out, in their
                order.
            positive_score: float.
            generator: a `numpy.random.Generator`.
        """
        bound = np.inf
        if self.margin is not None:
            bound = positive_score - self.margin
        if self.relative_margin is not None:
            bound = min(bound, positive_score - abs(positive_score) * self.relative_margin)
        places = np.arange(len(scores))[self.first_rank - 1:self.last_rank]
        places = places[scores[places] <= bound]
        if self.sampling == "random" and len(places) > self.number:
            places = generator.choice(places, self.number, replace=False)
        return np.sort(places[:self.number])
