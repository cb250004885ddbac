"""checksums.json: whatever happened to a file is told by its name; other folders are read as is."""

import os
import pathlib

import pytest

from bert_tf.errors import BertTfError
from bert_tf.saved_model.server_config import write_batching_params
from bert_tf.storage import checksums, files, manifest


@pytest.fixture
def folder(tmp_path):
    path = str(tmp_path / "model")
    with checksums.new_folder(path) as temporary:
        files.write_text(os.path.join(temporary, "config.json"), "{}\n")
        files.make_folder(os.path.join(temporary, "assets"))
        files.write_bytes(os.path.join(temporary, "assets", "단어.txt"), bytes(range(256)))
    return path


def test_a_folder_is_as_it_was_written(folder):
    checksums.check(folder)
    held = files.read_json(os.path.join(folder, checksums.NAME))["files"]
    assert set(held) == {"config.json", "assets/단어.txt"}
    # As b2sum -l 128 has it.
    assert held["config.json"] == {"size": 3, "blake2b": "539873d3417f9a0abedf2ba4bfcf808d"}
    files.write_text(os.path.join(folder, "further.txt"), "has no say")
    checksums.check(folder)


def test_settings_that_are_there_to_be_edited_may_be(tmp_path):
    write_batching_params(str(tmp_path))
    for name, digest in checksums.EDITED.items():
        assert manifest.digest_file(str(tmp_path / name)) == digest
    path = str(tmp_path / "model")
    with checksums.new_folder(path) as temporary:
        for name in ("saved_model.pb", "batching_params.pbtxt"):
            files.write_text(os.path.join(temporary, name), "as written")
    files.write_text(os.path.join(path, "batching_params.pbtxt"), "num_batch_threads { value: 8 }")
    checksums.check(path)
    files.remove(os.path.join(path, "batching_params.pbtxt"))
    checksums.check(path)
    files.write_text(os.path.join(path, "saved_model.pb"), "other")
    with pytest.raises(BertTfError, match="saved_model.pb is damaged"):
        checksums.check(path)


@pytest.mark.parametrize("name", ["config.json", "assets/단어.txt"])
def test_what_changed_is_named(folder, name):
    path = os.path.join(folder, name)
    data = pathlib.Path(path).read_bytes()
    for damaged, told in ((data[:-1], f"it has {len(data) - 1} bytes; expected {len(data)}"),
                          (b"\x01" + data[1:], "its content changed"), (b"", "it has 0 bytes")):
        files.write_bytes(path, damaged)
        with pytest.raises(BertTfError, match=f"{path} is damaged: {told}.*deleting "
                                              f"{folder}/checksums.json"):
            checksums.check(folder)
        checksums.check(folder, {"config.json", "assets/단어.txt"} - {name})  # the others
    files.remove(path)
    with pytest.raises(BertTfError, match=f"{path} is missing; try copying"):
        checksums.check(folder)
    files.remove(os.path.join(folder, checksums.NAME))
    checksums.check(folder)  # as deleting it promises


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": [1]}', '{"files": {"../x": {}}}',
                                  '{"files": {"/etc/passwd": 1}}', '{"files": {"config.json": 3}}'])
def test_damaged_checksums_are_named(folder, text):
    files.write_text(os.path.join(folder, checksums.NAME), text)
    with pytest.raises(BertTfError, match=folder):
        checksums.check(folder)
