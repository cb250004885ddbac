"""A short run of the program that flips bits and cuts files, whose own default is 1,000 of each."""

import json
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.long
def test_damage_is_told_or_harmless(tmp_path):
    # A process of its own: it forks, which one that has computed with TensorFlow cannot.
    program = pathlib.Path(__file__).with_name("bit_flips.py")
    done = subprocess.run([sys.executable, program, "--own", "--tries", "30", "--output",
                           tmp_path / "counts.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "counts.json").read_text())["counts"]
    assert len(counts) == 7
    for kind, by_damage in counts.items():
        for how, told in by_damage.items():
            assert sum(told.values()) == 30 and told.get("detected", 0) > 15, (kind, how, told)
