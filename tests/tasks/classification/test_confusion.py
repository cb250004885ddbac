"""Which labels are taken for which: the counts, and that the picture is one."""

import json
import pathlib
import struct

import pytest

from bert_tf.errors import BertTfError
from bert_tf.tasks.base import pictures
from bert_tf.tasks.classification.confusion import write_confusion
from bert_tf.tasks.classification.metrics import label_report


def read(folder):
    """The JSON; width and height of the PNG."""
    data = (folder / "confusion.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR"
    return json.loads((folder / "confusion.json").read_text()), struct.unpack(">II", data[16:24])


def test_one_label_an_example(tmp_path):
    gold, told, labels = list("aaabbc"), list("aabbbb"), list("cabd")
    write_confusion(str(tmp_path / "new"), gold, told, labels)
    content, (width, height) = read(tmp_path / "new")
    assert content == {"rows": labels, "columns": labels,
                       "counts": [[0, 0, 1, 0], [0, 2, 1, 0], [0, 0, 2, 0], [0, 0, 0, 0]],
                       "labels": label_report(gold, told, labels)}
    assert 300 < width < 1500 and 300 < height < 1500


def test_several_labels(tmp_path):
    gold, told = [("a", "b"), ("a",), (), ("b",)], [("a",), ("b",), (), ("b", "a")]
    write_confusion(str(tmp_path), gold, told, ["a", "b"])
    content, _ = read(tmp_path)
    assert content["columns"] == ["found", "missed", "wrongly predicted",
                                  "rightly not predicted"]
    # a: found in 1, missed in 2, wrong in 4; b: found in 4, missed in 1, wrong in 2.
    assert content["counts"] == [[1, 1, 1, 1], [1, 1, 1, 1]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", [["긍정", "부정"], ["a$b$", "_x_^"], ["\U0001F600", "x" * 300],
                                    ["", "two words"], [f"label {n:02}" for n in range(150)]])
def test_any_names_are_drawn(tmp_path, labels):
    """Whether or not a font here has them; of 150 the picture has an end."""
    write_confusion(str(tmp_path), [*labels, labels[0]], [*labels, labels[1]], labels)
    content, size = read(tmp_path)
    assert content["rows"] == labels and content["counts"][0][:2] == [1, 1]
    assert max(size) < 2500


def test_labels_without_a_font_are_numbers_and_told(tmp_path, monkeypatch):
    labels = ["긍정", "부정"]
    monkeypatch.setattr(pictures, "_font_with", lambda text: None)
    note, *told = write_confusion(str(tmp_path), labels, labels, labels)
    assert "confusion.png" in note and "NanumGothic" in note and "fonts-nanum" in note
    assert told == ["  1: 긍정", "  2: 부정"]
    monkeypatch.undo()
    assert write_confusion(str(tmp_path), ["a", "b"], ["a", "a"], ["a", "b"]) == []


def test_nothing_is_written_of_bad_input(tmp_path):
    for gold, told in (([], []), (["a"], ["z"])):
        with pytest.raises(BertTfError):
            write_confusion(str(tmp_path / "none"), gold, told, ["a"])
    assert not pathlib.Path(tmp_path / "none").exists()
