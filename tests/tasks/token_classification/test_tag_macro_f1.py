"""The F1 of single tags, by hand."""

import pytest

from bert_tf.tasks.token_classification.tag_macro_f1 import tag_macro_f1


def test_by_hand():
    gold = [["B-A", "I-A", "O"], ["O", "O"]]
    # B-A: 1 of 2 told is right, 1 of 1 found; I-A: never told; O: 2 of 3 told, 2 of 3 found.
    predicted = [["B-A", "O", "O"], ["B-A", "O"]]
    assert tag_macro_f1(gold, predicted) == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)
    assert tag_macro_f1(gold, gold) == 1.0
