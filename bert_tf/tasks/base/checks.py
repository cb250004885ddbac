"""Checks that every metric makes of its input."""

from bert_tf.errors import BertTfError, explain


def check_pairs(gold, predicted):
    """Raise BertTfError unless there is a prediction for each of one or more examples."""
    if len(gold) != len(predicted):
        raise BertTfError(explain(f"{len(predicted)} predictions for {len(gold)} examples",
                                  "one for each example"))
    check_some(gold)


def check_some(examples):
    """Raise BertTfError unless there is an example."""
    if not len(examples):
        raise BertTfError(explain("no example to evaluate on", "at least one"))


def check_labels(names, labels):
    """Raise BertTfError if `names` holds one that is not in `labels`."""
    unknown = sorted(set(names) - set(labels))
    if unknown:
        raise BertTfError(explain(f"label {unknown[0]!r} is unknown",
                                  f"one of {', '.join(map(str, labels))}"))
