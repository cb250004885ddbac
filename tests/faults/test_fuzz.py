"""A short run of the fuzzer's targets, and that the fuzzer finds what is broken."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import fuzz
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HERE = pathlib.Path(__file__).parent
GRAPHS = ("word_piece", "byte_pair", "sentence_piece", "units", "examples", "morphemes", "http",
          "grpc", "graphs")  # slow ones
TARGETS = fuzz.targets()


@st.composite
def damaged(draw, seeds, longest):
    """A seed of which pieces are replaced, taken out, or doubled; or any bytes."""
    data = bytearray(draw(st.sampled_from(seeds) | st.binary(max_size=longest)))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 8))
        data[start:end] = draw(st.binary(max_size=8) | st.just(bytes(data[start:end] * 2)))
    return bytes(data)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] if name in GRAPHS else []) for name in TARGETS])
def test_damaged_input_is_refused_or_harmless(name):
    target = TARGETS[name]
    check, seeds = target.checked(), fuzz.seeds(target)

    @settings(max_examples=10 if name in GRAPHS else 40, deadline=None, database=None,
              derandomize=True, suppress_health_check=list(HealthCheck))
    @given(damaged(seeds, target.longest))
    def run(data):
        check(data)

    run()


@pytest.fixture
def run_fuzz(tmp_path):
    """`run_fuzz(folder, *flags)` -> exit code, report and what was printed."""
    def run(folder, *flags):
        ended = subprocess.run(
            [sys.executable, str(folder / "fuzz.py"), *flags, "--output", "report.json",
             "--crashes", "crashes"], cwd=tmp_path, capture_output=True, text=True, timeout=600,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])})
        assert not ended.stderr, ended.stderr
        return ended.returncode, json.loads((tmp_path / "report.json").read_text()), ended.stdout

    return run


@pytest.mark.long
def test_a_sound_target(run_fuzz):
    code, reports, said = run_fuzz(HERE, "--target", "addresses", "--runs", "3000")
    assert (code, [(each["target"], each["runs"], each["crashes"]) for each in reports]) == (
        0, [("addresses", 3000, {})])
    assert said.splitlines()[-1].startswith("3000 executions, 0 crashes")


@pytest.mark.long
def test_what_breaks_is_found_and_kept(run_fuzz, tmp_path):
    """A target that cannot bear an input which no seed is, and one whose process ends."""
    folder = tmp_path / "tests" / "faults"
    shutil.copytree(HERE, folder)
    source = (folder / "fuzzing" / "wire.py").read_text()
    check = '        address = Address.parse(data.decode("utf-8", "replace"))\n'
    assert check in source
    (folder / "fuzzing" / "wire.py").write_text(source.replace(
        check, f'        if data[:1] == b"q":\n            raise KeyError("q")\n{check}'))
    code, [report], said = run_fuzz(folder, "--target", "addresses", "--runs", "20000")
    [(kind, crash)] = report["crashes"].items()
    assert code == 1 and kind.startswith("KeyError at wire.py:") and crash["times"] > 0
    assert (tmp_path / "crashes" / crash["input"]).read_bytes()[:1] == b"q"
    assert crash["input"] in said
    (folder / "fuzzing" / "wire.py").write_text(source.replace(
        check, f'        if data[:1] == b"q":\n            __import__("os").abort()\n{check}'))
    code, [report], said = run_fuzz(folder, "--target", "addresses", "--runs", "20000")
    [(kind, crash)] = report["crashes"].items()
    assert code == 1 and "the process ended" in kind
    assert (tmp_path / "crashes" / crash["input"]).read_bytes()[:1] == b"q"
