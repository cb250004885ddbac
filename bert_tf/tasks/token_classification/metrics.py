"""Metrics of found entities, by seqeval with the rules of CoNLL's `conlleval`, and of tags.

An entity counts only whole: same type, same first and last tag. A tag `I-X` that follows no `B-X`
or `I-X` begins an entity, which is also how the taggers here repair such a tag.
"""

import re

from bert_tf.errors import BertTfError, explain
from bert_tf.tasks.base.checks import check_pairs

_TAG = re.compile("O|[BIES]-.+", re.DOTALL)  # E- and S- of models by others: end, single


def _check(gold, predicted):
    check_pairs(gold, predicted)
    for number, (labels, tags) in enumerate(zip(gold, predicted, strict=True)):
        if len(labels) != len(tags):
            raise BertTfError(explain(f"{len(tags)} predicted tags in sequence {number}",
                                      f"{len(labels)}, one for each label"))
        for tag in (*labels, *tags):
            if not _TAG.fullmatch(tag):
                raise BertTfError(explain(f"tag {tag!r} in sequence {number}",
                                          "O, B-type or I-type"))
    return list(map(list, gold)), list(map(list, predicted))


def tagging_metrics(gold, predicted):
    """Compute the metrics of tag sequences (IOB2: `B-X` begins an entity, `I-X` continues it, `O`
    is none).

    Args:
        gold: the labels, a list of lists of str.
        predicted: as many lists of the same lengths.

    Returns:
        `{"f1", "precision", "recall", "macro_f1", "accuracy"}`, floats: of whole entities of all
        types together, `macro_f1` the mean F1 of the types that occur, `accuracy` of single tags. A
        fraction whose denominator is 0, as without any entity, is 0.

    Raises:
        BertTfError: nothing to evaluate, lengths differ, or a tag that is none of these.
    """
    from seqeval.metrics import sequence_labeling as metrics

    gold, predicted = _check(gold, predicted)
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        gold, predicted, average="micro", zero_division=0)
    types = entity_report(gold, predicted).values()
    tags = sum(map(len, gold))
    return {"f1": float(f1), "precision": float(precision), "recall": float(recall),
            "macro_f1": sum(each["f1"] for each in types) / max(len(types), 1),
            "accuracy": float(metrics.accuracy_score(gold, predicted)) if tags else 0.0}


def entity_report(gold, predicted):
    """Return precision, recall, F1 and number of entities of every type.

    Args:
        gold, predicted: as of `tagging_metrics`.

    Returns:
        `{type: {"precision", "recall", "f1", "entities"}}` of the types that occur, by name.
    """
    from seqeval.metrics import sequence_labeling as metrics

    gold, predicted = _check(gold, predicted)
    types = sorted({kind for tags in (*gold, *predicted) for kind, _, _ in entities_of(tags)})
    columns = metrics.precision_recall_fscore_support(gold, predicted, zero_division=0)
    return {kind: {"precision": float(precision), "recall": float(recall), "f1": float(f1),
                   "entities": int(count)}
            for kind, precision, recall, f1, count in zip(types, *columns, strict=True)}


def tag_macro_f1(gold, predicted):
    """Compute the mean F1 of the tags that occur, `O` among them, whatever entities they make.

    Of characters this is the second number that KLUE gives for NER (KLUE-benchmark/KLUE-baseline
    `klue_ner_char_macro_f1`), which also counts `[CLS]` and `[SEP]` as `O` and a tag that occurs
    nowhere as found.

    Args:
        gold, predicted: as of `tagging_metrics`.

    Returns: float.
    """
    from sklearn.metrics import f1_score

    check_pairs(gold, predicted)
    labels, predictions = ([tag for row in rows for tag in row] for rows in (gold, predicted))
    return float(f1_score(labels, predictions, average="macro", zero_division=0))


def klue_f1(gold, predicted):
    """Compute KLUE's entity F1 of NER (KLUE-benchmark/KLUE-baseline `klue_ner_entity_macro_f1`).

    It differs from `macro_f1` where a predicted `I-X` follows no `B-X` or `I-X`: here that is no
    entity. Tags `E-` and `S-`, which KLUE does not have, count as `I-` and `B-`.

    Args:
        gold, predicted: as of `tagging_metrics`.

    Returns: float, 0 without any entity.
    """
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    both = [[[{"E": "I", "S": "B"}.get(tag[0], tag[0]) + tag[1:] for tag in tags] for tags in rows]
            for rows in _check(gold, predicted)]
    if not any(tag[0] == "B" for rows in both for tags in rows for tag in tags):
        return 0.0  # of no types seqeval has no mean
    return float(f1_score(*both, average="macro", mode="strict", scheme=IOB2, zero_division=0))


def entities_of(tags):
    """Return the entities of a sequence of tags, a list of `(type, first tag, last tag)`."""
    from seqeval.metrics.sequence_labeling import get_entities

    return get_entities(list(tags))
