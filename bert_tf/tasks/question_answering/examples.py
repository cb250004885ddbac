"""A question about a text, and its answers."""

import dataclasses

from bert_tf.tasks.base.examples import Example


@dataclasses.dataclass(frozen=True)
class SpanExample(Example):
    """A question on a context, and its answers: `(text, first character)`, none if impossible.

    `context[first:first + len(text)] == text` for every answer; characters are code points.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()
    is_impossible: bool = False
    group: str | None = None
    where: str = ""

    @property
    def content(self):
        """See `Example.content`."""
        return [self.question, self.context]

    @property
    def label_names(self):
        """See `Example.label_names`."""
        return ["no answer" if self.is_impossible else "answer"]

    @property
    def stratum(self):
        """See `Example.stratum`."""
        return str(self.is_impossible)

    @property
    def described_labels(self):
        """See `Example.described_labels`."""
        return {f"a question with{'out' * self.is_impossible} an answer"}

    def without_text(self):
        """See `Example.without_text`."""
        return dataclasses.replace(self, question="", context="", group=None)

    def given(self):
        """See `Example.given`; `gold` has all labelled answers, none where there is none."""
        return {"question": self.question, "context": self.context,
                "gold": [text for text, _ in self.answers]}
