"""English prose that every Python carries: the language reference behind `help()`.

`pydoc_data.topics` holds about 80 topics. The prose paragraphs are kept, code, grammar and
headings skipped; topics repeat each other's paragraphs, so each is kept where it first occurs:
a held-out topic then shares no paragraph with a training topic.
"""

import re

_RULE = re.compile(r"^[*=\-~^\"'#+]{3,}$")
_BULLET = re.compile(r"^(?:\*|\d+\.|-)\s+")


def _paragraphs(topic):
    """Yield the prose paragraphs of one topic, each on one line."""
    for block in re.split(r"\n\s*\n", topic):
        lines = [line.strip() for line in block.strip("\n").split("\n")]
        if any(_RULE.match(line) for line in lines) or "::=" in block or ">>>" in block:
            continue
        text = _BULLET.sub("", " ".join(" ".join(lines).split()))
        words = text.split()
        plain = sum(word.strip("\"'*().,:;").isalpha() for word in words)
        # An indented block is prose too (what a method does) if it reads like a sentence.
        if len(words) >= 5 and plain > 0.7 * len(words) and text[-1] in ".:!?)":
            yield text


def documents():
    """Yield `(topic, paragraphs)`, topics in alphabetical order, repeated paragraphs dropped."""
    from pydoc_data.topics import topics

    seen = set()
    for name in sorted(topics):
        paragraphs = [text for text in _paragraphs(topics[name]) if text not in seen]
        seen.update(paragraphs)
        if len(paragraphs) >= 3:
            yield name, paragraphs


def text():
    """Return the prose as input text: a paragraph a line, a blank line between topics."""
    return "\n\n".join("\n".join(paragraphs) for _, paragraphs in documents()) + "\n"
