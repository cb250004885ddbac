"""A `tokenizer.json` says what the older files say, or is refused."""

import json

import pytest

from bert_tf.converters.tokenizer_json import vocabulary_files
from bert_tf.errors import UsageError


def _files(tmp_path, **model):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": model}))
    return vocabulary_files(str(path))


def test_merges_are_written_in_either_form(tmp_path):
    vocabulary = {"a": 0, "b": 1, "ab": 2}
    expected = {"vocab.json": json.dumps(vocabulary), "merges.txt": "#version: 0.2\na b\n"}
    for merge in ("a b", ["a", "b"]):
        assert _files(tmp_path, type="BPE", vocab=vocabulary, merges=[merge]) == expected


@pytest.mark.parametrize("merge", [None, 1, {}, [], ["a"], ["a", 1], "a", "a b c"])
def test_a_merge_that_is_none(tmp_path, merge):
    with pytest.raises(UsageError, match="tokenizer.json: the merge .*; expected two pieces"):
        _files(tmp_path, type="BPE", vocab={"a": 0}, merges=[merge])
