"""What the name of a file says of its form."""

import pathlib

import pytest

from bert_tf.errors import UsageError
from bert_tf.storage import files


@pytest.mark.parametrize(("path", "suffix"), [
    ("a.b/C.JSONL.GZ", ".jsonl"), (pathlib.Path("a.csv"), ".csv"), ("s3://bucket.gz/name", ""),
    ("a.ndjson.gz", ".jsonl")])
def test_the_form_of_a_file_is_known_by_the_end_of_its_name(path, suffix):
    assert files.suffix(path) == suffix


@pytest.mark.parametrize("name", ["a.tar", "a.TAR.GZ", "a.tgz", "a.zip", "a.7z", "a.txt.zst"])
def test_archives_are_not_read_as_lines(tmp_path, name):
    (tmp_path / name).write_bytes(b"text\n")
    with pytest.raises(UsageError, match=f"{name} is an archive .*; try unpacking it first"):
        next(files.read_lines(tmp_path / name))
