"""Which labels examples have, how many of each, and which names look like one label."""

import collections
import statistics
import unicodedata

from bert_tf.tasks.base.examples import SpanExample, TextExample

_SHOWN = 20


def label_counts(examples):
    """`{label: number of examples}`, most frequent first; of a regression nothing.

    Of questions there are `answer` and `no answer`, of tags the types, each as many times as there
    are entities of it, and `no entity`, sentences without any.
    """
    counts = collections.Counter()
    for example in examples:
        if isinstance(example, SpanExample):
            counts["no answer" if example.is_impossible else "answer"] += 1
        elif not isinstance(example, TextExample):
            types = [tag[2:] for tag in example.tags if tag.startswith("B-")]
            counts.update(types or ["no entity"])
        elif isinstance(example.label, tuple):
            counts.update(example.label or ["no label"])
        elif isinstance(example.label, str):
            counts[example.label] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def labels_said(examples):
    """The labels and their counts in one line; of numbers their range and mean."""
    counts = label_counts(examples)
    if not counts:
        numbers = [example.label for example in examples if example.label is not None]
        return f"{min(numbers):g} to {max(numbers):g}, mean {statistics.fmean(numbers):.4g}" if (
            numbers) else "no labels"
    listed = [f"{name!r} {count:,}" for name, count in list(counts.items())[:_SHOWN]]
    return ", ".join(listed + [f"and {len(counts) - _SHOWN} more"] * (len(counts) > _SHOWN))


def likeness_notes(examples):
    """Warnings about labels that differ by case, by blanks or as a number is written."""
    counts, alike = label_counts(examples), collections.defaultdict(list)
    for name in counts:
        alike[_meant(name)].append(name)
    return ["labels that differ by case, blanks or the form of a number only, and are learned as "
            "different ones: " + ", ".join(f"{name!r} ({counts[name]})" for name in names)
            for names in alike.values() if len(names) > 1]


def _meant(name):
    try:
        return float(name)
    except ValueError:
        return "".join(unicodedata.normalize("NFKC", name).split()).casefold()
