"""A short run of the program that takes disk, rights, files and clock away."""

import os
import tempfile

import pytest
from faults.forked import Forker
from faults.machine_faults import try_all


@pytest.mark.long
def test_faults_are_told_and_the_same_command_goes_on():
    lines = []
    with tempfile.TemporaryDirectory() as root, Forker() as forker:
        os.chmod(root, 0o755)  # another user looks into it, as not into pytest's folders
        counts = try_all(forker, root, 12, 1, ("learn_vocab", "create_data"), lines.append)
    assert sum(counter.total() for counter in counts.values()) == 12
    assert counts["clock"] == {"no error": 2}
    told = sum(counter["told"] for counter in counts.values())
    assert told >= len(counts), lines
