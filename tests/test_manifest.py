"""What a stage leaves about itself."""

import pytest

from bert_tf import manifest
from bert_tf.errors import BertTfError, UsageError


def test_finished_work_is_known_and_other_work_is_refused(tmp_path):
    path = str(tmp_path / "manifest.json")
    assert manifest.finished(path, {"size": 1}) is None
    manifest.write(path, {"size": 1}, entries=3)
    assert manifest.finished(path, {"size": 1})["entries"] == 3
    with pytest.raises(UsageError, match="size was 1, now 2"):
        manifest.finished(path, {"size": 2})
    assert manifest.finished(path, {"size": 2}, overwrite=True) is None


@pytest.mark.parametrize("content", ["", '{"fingerprint"', "[]", "{}"])
def test_a_damaged_one_is_named_and_made_anew(tmp_path, content):
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(BertTfError, match="manifest.json .*--overwrite"):
        manifest.finished(str(path), {})
    assert manifest.finished(str(path), {}, overwrite=True) is None
