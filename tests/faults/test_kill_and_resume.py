"""A short run of the kill-and-resume script, whose own default is 200 kills."""

import pytest
from faults.forked import Forker
from faults.kill_and_resume import kill_pretraining
from faults.kill_commands import kill_commands
from faults.kill_predict import kill_predict


@pytest.mark.long
def test_a_killed_prediction_ends_with_the_same_bytes(tmp_path):
    lines = []
    with Forker() as forker:
        assert kill_predict(forker, tmp_path, 2, 4, say=lines.append) == 2, lines


@pytest.mark.long
def test_killed_commands_end_with_the_same_results(tmp_path):
    lines = []
    with Forker() as forker:
        hit = kill_pretraining(forker, tmp_path, 1, "float32", 4, lines.append)
        hit += kill_commands(forker, tmp_path / "commands", tmp_path / "undisturbed/run", 3, 4,
                             ("1e-3",), lines.append)
    assert sum(hit.values()) == 4, lines
