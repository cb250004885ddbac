"""Damaged and hostile files: one clear line, nothing half-written, no gigabytes."""

import json
import subprocess
import sys

import hf_models
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf import cli, convert
from bert_tf.converters import hf_safetensors, safetensors_file
from bert_tf.errors import BertTfError

_GIGABYTE = 1 << 30


def _write(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(text) if length is None else length
    path.write_bytes(length.to_bytes(8, "little") + text + data)
    return path


def _tensor(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


HOSTILE = {
    "empty": lambda path: path.write_bytes(b""),
    "short": lambda path: path.write_bytes(b"\x08\0\0"),
    "length": lambda path: _write(path, b"{}", length=2**63),
    "longest length": lambda path: _write(path, b"{}", length=2**64 - 1),
    "header past the end": lambda path: _write(path, b"{}", length=3),
    "no JSON": lambda path: _write(path, b"\xff" * 64),
    "nested": lambda path: _write(path, b"[" * 1_000_000),
    "terabytes": lambda path: _write(path, {"a": _tensor([1 << 20, 1 << 20], 0, 1 << 42)}),
    "terabytes of nothing": lambda path: _write(path, {"a": _tensor([1 << 20, 1 << 20], 0, 4)},
                                                b"\0" * 4),
    "overflow": lambda path: _write(path, {"a": _tensor([1 << 32, 1 << 32], 0, 0)}),
    "outside": lambda path: _write(path, {"a": _tensor([4], 64, 80)}, b"\0" * 16),
    "backwards": lambda path: _write(path, {"a": _tensor([1], 4, 0)}, b"\0" * 4),
    "overlap": lambda path: _write(path, {"a": _tensor([4], 0, 16), "b": _tensor([4], 8, 24)},
                                   b"\0" * 24),
    "hole": lambda path: _write(path, {"a": _tensor([1], 0, 4), "b": _tensor([1], 8, 12)},
                                b"\0" * 12),
    "negative": lambda path: _write(path, {"a": _tensor([-1], 0, 4)}, b"\0" * 4),
    "unknown type": lambda path: _write(path, {"a": _tensor([1], 0, 4, "F33")}, b"\0" * 4),
    "not a number": lambda path: _write(path, {"a": _tensor([1], 0, 4)},
                                        np.float32("nan").tobytes()),
    "integers": lambda path: _write(path, {"a": _tensor([1], 0, 8, "I64")}, b"\0" * 8),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path, name):
    path = tmp_path / "model.safetensors"
    HOSTILE[name](path)
    with pytest.raises(BertTfError) as refused:
        dict(safetensors_file.read_file(str(path)))
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.long
def test_hostile_files_within_a_gigabyte(shared, tmp_path):
    """Under a limit of memory a process refuses all of them and then reads a good file."""
    paths = []
    for i, make in enumerate(HOSTILE.values()):
        paths.append(str(tmp_path / f"{i}.safetensors"))
        make(tmp_path / f"{i}.safetensors")
    # The largest header allowed, of as many tensors as fit into it.
    many = ",".join(f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
                    for i in range(280_000))
    many = str(_write(tmp_path / "many.safetensors", f"{{{many}}}".encode()))
    good = shared / "reference" / "hf_gpt" / "model.safetensors"
    program = f"""
import resource
from bert_tf.converters.safetensors_file import read_file
from bert_tf.errors import BertTfError
resource.setrlimit(resource.RLIMIT_AS, ({_GIGABYTE}, {_GIGABYTE}))
refused = 0
for path in {paths!r}:
    try:
        dict(read_file(path))
    except BertTfError:
        refused += 1
print(refused, len(read_file({many!r})), len(dict(read_file({str(good)!r}))))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stderr == ""
    assert result.stdout.split() == [str(len(HOSTILE)), "280000", "38"]


def _convert(source, tmp_path, capsys, source_format="hf"):
    """Exit code and the one line of an attempt, which leaves nothing behind."""
    out = tmp_path / "out"
    code = cli.run(convert.main, ["--from", source_format, str(source),
                                  "--to", "bert_tf", str(out / "model")])
    printed = capsys.readouterr()
    assert not out.exists() or not list(out.iterdir())
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    return code, printed.err


@pytest.mark.parametrize("share", [0, 0.001, 0.02, 0.5, 0.999999])
def test_a_truncated_file(shared, tmp_path, capsys, share):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in")
    path = tmp_path / "in" / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:int(len(data) * share)])
    code, line = _convert(folder, tmp_path, capsys)
    assert code == 1 and f"{path} is damaged: " in line


@settings(max_examples=100, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_of_the_header_is_noticed_or_harmless(shared, tmp_path_factory, share, bit):
    folder = tmp_path_factory.mktemp("flipped") / "in"
    hf_models.changed(shared, "hf_gpt", folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    data[int(share * (8 + length))] ^= 1 << bit
    path.write_bytes(data)
    try:
        tensors = hf_safetensors.read(str(folder)).tensors
        flipped = {name: tensors[name].tobytes() for name in tensors}
    except BertTfError as error:
        assert "\n" not in str(error) and str(folder) in str(error)
        return
    right = hf_models.read(shared, "hf_gpt").tensors
    assert flipped == {name: right[name].tobytes() for name in right}


@pytest.mark.parametrize(("change", "messages"), [
    (lambda arrays: arrays.pop("bert.encoder.layer.1.output.dense.weight"),
     ["- bert.encoder.layer.1.output.dense.weight (64, 256)"]),
    (lambda arrays: arrays.update({"bert.encoder.layer.3.more": np.zeros((2, 3))}),
     ["+ bert.encoder.layer.3.more (2, 3)"]),
    (lambda arrays: arrays.update({"cls.predictions.bias": np.zeros(401)}),
     ["cls.predictions.bias expected (400,), found (401,)"]),
    (lambda arrays: arrays.update({"cls.predictions.bias": np.full(400, np.inf)}),
     ["cls.predictions.bias holds NaN or infinity"]),
])
def test_wrong_tensors_are_named(shared, tmp_path, capsys, change, messages):
    def changing(arrays):
        change(arrays)

    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in", change=changing)
    _, line = _convert(folder, tmp_path, capsys)
    for message in messages:
        assert message in line


def test_the_configuration_of_another_family(shared, tmp_path, capsys):
    folder = hf_models.changed(shared, "hf_roberta", tmp_path / "in",
                               {"model_type": "bert", "architectures": ["BertForMaskedLM"]})
    code, line = _convert(folder, tmp_path, capsys)
    assert code == 2
    assert "- bert.embeddings.word_embeddings.weight (400, 64)" in line


@pytest.mark.parametrize("name", ["hf_gpt", "hf_albert", "hf_bert_tasks/token_classification"])
def test_any_value_of_any_key_is_read_or_refused_in_one_line(shared, tmp_path, name):
    folder = tmp_path / "in"
    hf_models.changed(shared, name, folder)
    values = json.loads((folder / "config.json").read_text())
    for key in (*values, "num_labels", "problem_type", "pruned_heads"):
        for value in (None, 0, -1, 1.5, 10**18, 10**400, "x", [], ["a"], {}, {"0": None}, True,
                      float("nan")):
            (folder / "config.json").write_text(json.dumps({**values, key: value}))
            try:
                hf_safetensors.read(str(folder))
            except BertTfError as error:
                assert "\n" not in str(error), (key, value)


@pytest.mark.parametrize("name", ["weights.bin", "model.pt", "weights.ckpt"])
def test_a_pickle_is_refused_with_the_reason(shared, tmp_path, capsys, name):
    folder = hf_models.changed(shared, "hf_bert", tmp_path / "in")
    (tmp_path / "in" / "model.safetensors").rename(tmp_path / "in" / name)
    for path in (folder, tmp_path / "in" / name):
        code, line = _convert(path, tmp_path, capsys)
        assert code == 1
        assert f"{name} is a pickle" in line and "runs whatever program" in line
        assert "try saving it" in line and "safetensors" in line


@pytest.mark.parametrize("change", [
    {"rope_theta": "x"}, {"num_attention_heads": 10**400},
    {"rope_scaling": {"type": "ntk", "factor": 1e300}, "num_attention_heads": 768}])
def test_values_that_no_reader_expects_are_damage_too(tmp_path, capsys, change):
    values = {"model_type": "new", "rope_scaling": {"type": "ntk", "factor": 2.0}, **change}
    _write(tmp_path / "model.safetensors", {"a": _tensor([1], 0, 4)}, b"\0" * 4)
    (tmp_path / "config.json").write_text(json.dumps(values))
    code, line = _convert(tmp_path, tmp_path, capsys)
    assert code == 1 and "cannot be read as hf, one of its files is damaged: " in line


def test_a_path_that_is_none_of_these(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("words")
    for name, what in (("nowhere", "nowhere"), ("empty", "config.json"), ("text.txt", "text.txt")):
        code, line = _convert(tmp_path / name, tmp_path, capsys)
        assert code == 1 and what in line
    (tmp_path / "empty" / "config.json").write_text("[" * 100_000)
    assert "nested too deeply" in _convert(tmp_path / "empty", tmp_path, capsys)[1]
    (tmp_path / "empty" / "config.json").write_text("9" * 5_000)
    assert "number too long" in _convert(tmp_path / "empty", tmp_path, capsys)[1]
    (tmp_path / "empty" / "config.json").write_text("[]")
    assert "expected a JSON object" in _convert(tmp_path / "empty", tmp_path, capsys)[1]
    (tmp_path / "empty" / "config.json").write_text('{"model_type": "bert"}')
    assert "model.safetensors" in _convert(tmp_path / "empty", tmp_path, capsys)[1]
