"""A query and texts that match it, or do not."""

import dataclasses

from bert_tf.tasks.base.examples import Example


@dataclasses.dataclass(frozen=True)
class QueryExample(Example):
    """A query, its positives and its hard negatives, all of them str.

    `scores` are of `positives` and then `negatives`, one each, where the file has them: how similar
    the texts of a labelled pair are, or what a teacher gave. A text alone has no positives.
    """

    id: str
    query: str
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    group: str | None = None
    where: str = ""

    @property
    def is_labelled_pair(self):
        """Whether it is two texts and a number."""
        return self.scores is not None and len(self.scores) == 1

    @property
    def content(self):
        """See `Example.content`."""
        return [self.query, *self.positives, *self.negatives]

    @property
    def groups(self):
        """See `Example.groups`: of a query its positives, too; a labelled pair's text is none."""
        return super().groups + (() if self.is_labelled_pair else self.positives)

    @property
    def known_by(self):
        """See `Example.known_by`: the query beside each positive, whatever is mined to them."""
        return [[self.query, positive] for positive in self.positives] or [[self.query]]

    @property
    def mirrored(self):
        """See `Example.mirrored`: the query as the positive of each of its positives."""
        return [[positive, self.query] for positive in self.positives]

    @property
    def label(self):
        """The number of a labelled pair, else None."""
        return self.scores[0] if self.is_labelled_pair else None

    @property
    def label_names(self):
        """See `Example.label_names`: what the texts beside the query are."""
        if self.is_labelled_pair:
            return []
        return ["positive"] * len(self.positives) + ["negative"] * len(self.negatives)

    @property
    def described_labels(self):
        """See `Example.described_labels`: none is predicted."""
        return set()

    @property
    def stratum(self):
        """See `Example.stratum`."""
        return "" if self.label is None else self.label

    def given(self):
        """See `Example.given`; `gold` is the number of a labelled pair, else the positives."""
        if self.is_labelled_pair:
            return {"query": self.query, "text": self.positives[0], "gold": self.scores[0]}
        negatives = {"negatives": list(self.negatives)} if self.negatives else {}
        return {"query": self.query, **negatives, "gold": list(self.positives)}
