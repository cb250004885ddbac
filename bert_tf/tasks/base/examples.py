"""What one labelled example is, whatever file it came from."""

import dataclasses

from bert_tf.errors import BertTfError, UsageError, check_choice


@dataclasses.dataclass(frozen=True)
class TextExample:
    """A text, or a pair of texts, and what is to be said of it.

    `label` is a name, for a regression a number, for several labels a tuple of names; None where
    it is not known. `where` names file and line for messages. Examples of one `group` (an
    article, a document) belong on one side of a split.
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None
    group: str | None = None
    where: str = ""


@dataclasses.dataclass(frozen=True)
class SpanExample:
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


@dataclasses.dataclass(frozen=True)
class TagExample:
    """Words (or single characters), each with a tag: `O`, `B-type` or `I-type`.

    `spaces` says after which words there is a blank; an `I-` always goes on with an entity of
    its type.
    """

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    spaces: tuple[bool, ...]
    group: str | None = None
    where: str = ""

    @property
    def text(self):
        """The text that the words stand in."""
        return "".join(word + " " * space
                       for word, space in zip(self.words, self.spaces, strict=True))

    @property
    def starts(self):
        """The first character of each word in `text`, a list of int."""
        starts, end = [], 0
        for word, space in zip(self.words, self.spaces, strict=True):
            starts.append(end)
            end += len(word) + space
        return starts


def number_of(name, numbers, example, what="label"):
    """`numbers[name]`; BertTfError with the example's place where there is no such label or tag."""
    if name not in numbers:
        try:
            check_choice(what, name, numbers)
        except UsageError as error:
            raise BertTfError(f"{example.where}: {error}") from None
    return numbers[name]
