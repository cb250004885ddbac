"""What a user should know of the examples to learn from beside those to measure by."""

from bert_tf.tasks.base.examples import SpanExample, TextExample
from bert_tf.tasks.base.split import content_digest

_SHOWN = 5


def split_notes(train, dev, use="measure"):
    """Warnings, a list of lines, empty where there is nothing to say.

    They tell labels (of tags: types of entities; of questions: answered or not) that only one of
    the two has, and texts that both have.

    Args:
        train, dev: lists of examples of one kind.
        use: what `dev` is to be used for, a verb.
    """
    notes = []
    learned, measured = _labels(train), _labels(dev)
    if learned - measured:
        notes.append(f"no example to {use} by has {_listed(learned - measured)}: the score says "
                     "nothing of that")
    if measured - learned:
        notes.append(f"no example to learn from has {_listed(measured - learned)}: it cannot be "
                     "told")
    known = {content_digest(example) for example in train}
    both = [example for example in dev if content_digest(example) in known]
    if both:
        notes.append(f"{len(both)} of {len(dev)} examples to {use} by are also among those to "
                     f"learn from; the first: {both[0].where}")
    return notes


def _labels(examples):
    """What kinds of labels there are, a set of words to say them with."""
    found = set()
    for example in examples:
        if isinstance(example, SpanExample):
            found.add("a question without an answer" if example.is_impossible
                      else "a question with an answer")
        elif not isinstance(example, TextExample):
            found.update(f"entity {tag[2:]!r}" for tag in example.tags if tag != "O")
        elif isinstance(example.label, str):
            found.add(f"label {example.label!r}")
        elif isinstance(example.label, tuple):
            found.update(f"label {name!r}" for name in example.label)
    return found


def _listed(names):
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
