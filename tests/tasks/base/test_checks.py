"""What every metric refuses."""

import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.base.checks import check_labels, check_pairs, check_some


def test_sound_input_passes():
    check_some(["a"])
    check_pairs(["a"], ["b"])
    check_labels(["a", "a"], ["a", "b"])
    check_labels([], ["a"])


def test_what_is_wrong_is_named():
    with pytest.raises(BertTfError, match="3 predictions for 2 examples; expected one for each"):
        check_pairs("ab", "abc")
    for check in (lambda: check_pairs([], []), lambda: check_some(())):
        with pytest.raises(BertTfError, match="no example to evaluate on; expected at least one"):
            check()
    with pytest.raises(BertTfError, match="label 'c' is unknown; expected one of a, b"):
        check_labels(["d", "a", "c"], ["a", "b"])
