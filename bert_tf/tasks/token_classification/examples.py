"""Words or characters, each with a tag."""

import dataclasses

from bert_tf.tasks.base.examples import Example

OUTSIDE = "O"


@dataclasses.dataclass(frozen=True)
class TagExample(Example):
    """Words (or single characters), each with a tag: `O`, `B-type` or `I-type`.

    `spaces` tells after which words there is a blank; an `I-` always continues an entity of its
    type. `unit` is what the words are: `word` or `character`. `original` is the text as the file
    has it, where it has one, with whatever blanks.
    """

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    spaces: tuple[bool, ...]
    group: str | None = None
    where: str = ""
    unit: str = "word"
    original: str | None = None

    @property
    def text(self):
        """The text that consists of the words, as the file has it."""
        if self.original is not None:
            return self.original
        return "".join(word + " " * space
                       for word, space in zip(self.words, self.spaces, strict=True))

    @property
    def starts(self):
        """The first character of each word in `text`, a list of int."""
        text, starts, end = self.text, [], 0
        for word in self.words:
            starts.append(text.index(word, end))
            end = starts[-1] + len(word)
        return starts

    @property
    def content(self):
        """See `Example.content`."""
        return self.words

    @property
    def texts(self):
        """See `Example.texts`."""
        return [self.text]

    def without_text(self):
        """See `Example.without_text`."""
        return dataclasses.replace(self, words=(), spaces=(), original=None, group=None)

    @property
    def label_names(self):
        """See `Example.label_names`: the type of each entity, or `no entity`."""
        return [tag[2:] for tag in self.tags if tag.startswith("B-")] or ["no entity"]

    @property
    def stratum(self):
        """See `Example.stratum`."""
        return str(any(tag != OUTSIDE for tag in self.tags))

    @property
    def described_labels(self):
        """See `Example.described_labels`."""
        return {f"entity {tag[2:]!r}" for tag in self.tags if tag != OUTSIDE}

    def given(self):
        """See `Example.given`; `gold` has the tag of each word."""
        return {"text": self.text, "words": list(self.words), "gold": list(self.tags)}
