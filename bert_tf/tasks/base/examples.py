"""Labelled examples: what splitting, counting and writing need to know of one of any task."""

import abc
import dataclasses
import json

from bert_tf.data.tables import composed
from bert_tf.errors import BertTfError, UsageError, check_choice

CHOSEN_FROM = 0.5  # probability from which on a text has one of several labels


class Example(abc.ABC):
    """Base of the examples; each has an `id`, a `group` and `where`, file and line for messages.

    Examples of one `group` (an article, a document) belong on one side of a split.
    """

    @property
    def groups(self):
        """What it is of: all examples with one of these belong together; a list or tuple of str."""
        return () if self.group is None else (self.group,)

    @property
    @abc.abstractmethod
    def content(self):
        """What a model reads of it, without labels: a list or tuple of str or None."""

    @property
    def known_by(self):
        """What it is recognized by among other examples: a list of lists of str or None, each of
        which suffices.
        """
        return [self.content]

    @property
    def mirrored(self):
        """The same as `known_by` with its texts in the other order, where that says the same."""
        return []

    @property
    def texts(self):
        """Its texts, a list of str, which a vocabulary may be learned from."""
        return [text for text in self.content if text is not None]

    @property
    @abc.abstractmethod
    def label_names(self):
        """Its labels, a list of str with repetitions, as they are counted; empty of a number."""

    @property
    def stratum(self):
        """Its stratum, within each of which examples are split in proportion: a str, or the number
        to be predicted.
        """
        return json.dumps(sorted(self.label_names))

    @property
    def described_labels(self):
        """Its labels as a sentence names them, a set of str."""
        return {f"label {name!r}" for name in self.label_names}

    def without_text(self):
        """Return the same with its labels alone, for metrics."""
        return self

    @abc.abstractmethod
    def given(self):
        """Return what `predictions.jsonl` holds of it: a dict with its text and `gold`, its label.
        """


@dataclasses.dataclass(frozen=True)
class TextExample(Example):
    """A text, or a pair of texts, and its label.

    `label` is a name, for a regression a number, for several labels a tuple of names; None where
    it is not known. Where labels are soft, `probabilities` by name are what is learned, and `label`
    is what they make likeliest.
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None
    group: str | None = None
    where: str = ""
    probabilities: dict[str, float] | None = None

    @property
    def content(self):
        """See `Example.content`."""
        return [self.text_a, self.text_b]

    def without_text(self):
        """See `Example.without_text`."""
        return TextExample(self.id, "", label=self.label)

    @property
    def label_names(self):
        """See `Example.label_names`; `no label` of an empty tuple."""
        if isinstance(self.label, tuple):
            return list(self.label) or ["no label"]
        return [self.label] if isinstance(self.label, str) else []

    @property
    def label_probabilities(self):
        """The probability of each of its labels by name; of a label that is certain, 1."""
        if self.probabilities is not None:
            return self.probabilities
        names = self.label if isinstance(self.label, tuple) else (self.label,)
        return {name: 1.0 for name in names if isinstance(name, str)}

    @property
    def stratum(self):
        """See `Example.stratum`."""
        if isinstance(self.label, float):
            return self.label
        return json.dumps(sorted(self.label) if isinstance(self.label, tuple) else self.label)

    @property
    def described_labels(self):
        """See `Example.described_labels`."""
        return {f"label {name!r}" for name in self.label_names if self.label}

    def given(self):
        """See `Example.given`; of a pair also `text_b`."""
        second = {} if self.text_b is None else {"text_b": self.text_b}
        return {"text": self.text_a, **second, "gold": self.label}


def label_numbers(labels):
    """Return `{label: its place}`, by composed names: a published model may have 긍정 in jamo."""
    return {composed(name): number for number, name in enumerate(labels)}


def number_of(name, numbers, example, what="label"):
    """Return the number that `label_numbers` gives a label; BertTfError with the example's file and
    line for an unknown one."""
    name = composed(name)
    if name not in numbers:
        try:
            check_choice(what, name, numbers)
        except UsageError as error:
            raise BertTfError(f"{example.where}: {error}") from None
    return numbers[name]
