"""Checkpoints are written in parts that never stand in memory together."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import BertTfError, UnavailableError
from bert_tf.storage import variables


@pytest.mark.parametrize(("part", "count"), [(1 << 20, 1), (100, 3), (1, 5)])
def test_any_number_of_data_files_is_one_checkpoint(tmp_path, monkeypatch, part, count):
    monkeypatch.setattr(variables, "_PART", part)
    arrays = {f"layer_{i}/kernel": np.full((3, 4), i, np.float32) for i in range(4)}
    arrays["step"] = np.int64(7)
    prefix = str(tmp_path / "model")
    variables.write_variables(prefix, arrays)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"model.data-{i:05}-of-{count:05}" for i in range(count)), "model.index"]
    read = variables.read_variables(prefix)
    assert sorted(read) == sorted(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].tobytes() == array.tobytes()


def test_brackets_in_a_name_are_no_pattern(tmp_path, monkeypatch):
    monkeypatch.setattr(variables, "_PART", 1)
    (tmp_path / "run[1]").mkdir()
    prefix, arrays = str(tmp_path / "run[1]" / "step*[2]"), {"a": np.ones(4), "b": np.zeros(2)}
    variables.write_variables(prefix, arrays)
    read = variables.read_variables(prefix)
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())


def test_a_missing_data_file_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(variables, "_PART", 1)
    variables.write_variables(str(tmp_path / "model"), {"a": np.zeros(4), "b": np.zeros(4)})
    (tmp_path / "model.data-00001-of-00002").unlink()
    with pytest.raises(BertTfError, match="model.data-00001-of-00002|model is damaged"):
        variables.read_variables(str(tmp_path / "model"))


@pytest.mark.parametrize(("error", "kind", "told"), [
    (MemoryError(), UnavailableError, "cannot read .*model: Cannot allocate memory"),
    (tf.errors.ResourceExhaustedError(None, None, "OOM"), UnavailableError, "Cannot allocate"),
    (ValueError("/a/model.data; Bad address"), UnavailableError, "cannot read .*: Bad address"),
    (RuntimeError("/a/model.data; Stale file handle"), UnavailableError, "Stale file handle"),
    (tf.errors.DataLossError(None, None, "Checksum does not match"), BertTfError,
     "model is damaged: Checksum")])
def test_a_failing_disk_and_too_little_memory_are_no_damage(tmp_path, error, kind, told):
    prefix = str(tmp_path / "model")
    variables.write_variables(prefix, {"a": np.zeros(4)})

    class Failing:
        def get_tensor(self, name):
            raise error

    reader = variables.VariableReader(prefix)
    reader._reader = Failing()
    with pytest.raises(BertTfError, match=told) as caught:
        reader.load("a")
    assert caught.type is kind
