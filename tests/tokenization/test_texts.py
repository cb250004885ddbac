"""Whatever holds texts gives the same list; what holds none is refused with its name."""

import collections

import numpy as np
import pandas as pd
import pytest

from bert_tf.errors import UsageError
from bert_tf.tokenization.texts import in_batches, text_list

TEXTS = ["one", "é 영화", ""]


class Column:
    """As a column of a `datasets.Dataset`: gone through, and by number, no list."""

    def __iter__(self):
        return iter(TEXTS)

    def __getitem__(self, key):
        return TEXTS[key]

    def __len__(self):
        return len(TEXTS)


HOLDERS = {
    "list": TEXTS, "tuple": tuple(TEXTS), "array": np.array(TEXTS),
    "objects": np.array(TEXTS, object), "column of a matrix": np.array(TEXTS, object)[:, None],
    "bytes": [text.encode() for text in TEXTS], "deque": collections.deque(TEXTS),
    "dict keys": dict.fromkeys(TEXTS).keys(), "column": Column(),
    "series": pd.Series(TEXTS, index=[7, 3, 5]), "string series": pd.Series(TEXTS, dtype="string"),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_texts(name):
    assert text_list(HOLDERS[name]) == TEXTS
    assert "matrix" in name or text_list(iter(HOLDERS[name])) == TEXTS


def test_a_list_is_not_copied_and_what_is_empty_is_empty():
    assert text_list(TEXTS) is TEXTS
    for nothing in ([], (), np.array([]), iter([]), pd.Series([], dtype=object)):
        assert text_list(nothing) == []


@pytest.mark.parametrize(("wrong", "message"), [
    ("a text", r"^texts: the string 'a text'; expected a list of strings; try \[text\]$"),
    (b"a text", "the string b'a text'; expected a list"),
    (None, "^texts: None; expected a list of strings$"),
    (7, "^texts: 7 of type int; expected"),
    (["a", None], r"^texts\[1\] is None; expected a string; try leaving it out, or ''$"),
    (pd.Series(["a", np.nan], index=[4, 9]), r"^texts\[1\] is nan of type float; expected"),
    ([["a"]], r"^texts\[0\] is \['a'\] of type list"),
    (np.array([1, 2]), r"^texts\[0\] is .*1.* of type int64"),
    (["a", "b\ud83d"], r"^texts\[1\]: half a surrogate pair at character 1; expected whole"),
    (pd.DataFrame({"text": TEXTS}), r'^texts: a table; expected a column of it; try table\["text"'),
])
def test_what_is_no_texts(wrong, message):
    with pytest.raises(UsageError, match=message):
        text_list(wrong)


def test_an_error_says_which_texts():
    with pytest.raises(UsageError, match=r"^context\[0\] is None"):
        text_list([None], "context")


def test_batches_have_fewer_texts_where_these_are_long(monkeypatch):
    monkeypatch.setattr("bert_tf.tokenization.texts._AT_ONCE", 3)
    monkeypatch.setattr("bert_tf.tokenization.texts._CHARACTERS", 10)
    long = "a" * 12
    assert [*in_batches(["a", "b", "c", "d", long, long, "e"])] == [
        ["a", "b", "c"], ["d", long], [long], ["e"]]
    assert [*in_batches([])] == []
