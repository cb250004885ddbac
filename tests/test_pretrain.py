"""The flags of `python -m bert_tf.pretrain`."""

import pytest

from bert_tf import pretrain


@pytest.mark.parametrize(("path", "name"), [
    ("../corpus/en_mixed.txt.gz", "en_mixed"), ("글 모음/*.txt", "글 모음"), ("texts/a*.txt", "a"),
    ("*.txt", "text"), ("-", "stdin"),
])
def test_a_run_is_named_after_its_text(path, name):
    arguments = pretrain._arguments(["--input", path])
    assert arguments.output_dir == f"runs/bert_tiny_{name}"
    assert arguments.export_dir == f"saved_models/bert_tiny_{name}"
