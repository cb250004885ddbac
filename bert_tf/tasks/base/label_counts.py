"""Counts of the labels of examples, and names that look like one label."""

import collections
import statistics
import unicodedata

_SHOWN = 20


def label_counts(examples):
    """Return `{label: number of examples}`, most frequent first; of a regression nothing.

    See `Example.label_names` for what is counted.
    """
    counts = collections.Counter(name for example in examples for name in example.label_names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def describe_labels(examples):
    """Return the labels and their counts in one line, empty without labels; of numbers their range
    and mean."""
    counts = label_counts(examples)
    if not counts:
        numbers = [example.stratum for example in examples if isinstance(example.stratum, float)]
        return f"{min(numbers):g} to {max(numbers):g}, mean {statistics.fmean(numbers):.4g}" if (
            numbers) else ""
    listed = [f"{name!r} {count:,}" for name, count in list(counts.items())[:_SHOWN]]
    return ", ".join(listed + [f"and {len(counts) - _SHOWN} more"] * (len(counts) > _SHOWN))


def similar_label_notes(examples):
    """Return warnings about labels that differ by case, by blanks, by characters of one meaning
    (full-width A) or as a number is written."""
    counts, similar = label_counts(examples), collections.defaultdict(list)
    for name in counts:
        similar[_meant(name)].append(name)
    return ["labels that differ by case, blanks, the width of characters or the form of a "
            "number only, and count as different ones: " + ", ".join(
                f"{name!r} ({counts[name]})" for name in names)
            for names in similar.values() if len(names) > 1]


def _meant(name):
    try:
        return float(name)
    except ValueError:
        return "".join(unicodedata.normalize("NFKC", name).split()).casefold()
