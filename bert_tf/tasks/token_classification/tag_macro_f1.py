"""Macro F1 of single tags, whatever entities they make."""

from bert_tf.tasks.base.checks import check_pairs


def tag_macro_f1(gold, predicted):
    """Compute the mean F1 of the tags that occur, `O` among them.

    Of characters this is the second number that KLUE gives for NER (KLUE-benchmark/KLUE-baseline
    `klue_ner_char_macro_f1`), which also counts `[CLS]` and `[SEP]` as `O` and a tag that occurs
    nowhere as found.

    Args:
        gold, predicted: as of `tagging.tagging_metrics`.

    Returns: float.
    """
    from sklearn.metrics import f1_score

    check_pairs(gold, predicted)
    labels, predictions = ([tag for row in rows for tag in row] for rows in (gold, predicted))
    return float(f1_score(labels, predictions, average="macro", zero_division=0))
