"""Warnings about the train examples beside the dev or test examples."""

from bert_tf.tasks.base.split import content_digests

_SHOWN = 5


def split_notes(train, held_out, name="dev"):
    """Return warnings, a list of lines, empty where there are none.

    They name labels that only one of the two lists has, and count texts that both have.

    Args:
        train, held_out: lists of `Example` of one task.
        name: what the examples held out are called: `dev` or `test`.
    """
    notes = []
    trained, measured = (set().union(*(example.described_labels for example in examples))
                         for examples in (train, held_out))
    if trained - measured:
        notes.append(f"no {name} example has {_listed(trained - measured)}: the score does not "
                     "cover that")
    if measured - trained:
        notes.append(f"no train example has {_listed(measured - trained)}: it cannot be predicted")
    known = {digest for example in train for digest in content_digests(example)}
    both = [example for example in held_out
            if not known.isdisjoint(content_digests(example, mirrored=True))]
    if both:
        notes.append(f"{len(both)} of {len(held_out)} {name} examples are also train examples; the "
                     f"first: {both[0].where}")
    return notes


def _listed(names):
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
